"""Compares two finished builds: which rows were added, removed and changed, and why; and what their manifests say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bystander.schemas.build_differences import (
    PROVENANCE,
    AudioDifferences,
    BuildDifferences,
    Cause,
    ComparedBuild,
    RowChange,
    RowDifference,
)
from bystander.schemas.config import IDLE_WHERE_ROWS_REPEAT
from bystander.schemas.description_changes import Change, list_changes
from bystander.schemas.errors import BuildError
from bystander.schemas.sid import SID_FINAL
from bystander.schemas.tpi import FINAL
from bystander.storage.build_contents import read_columns
from bystander.storage.build_manifest import BuildManifest, ManifestBase, ShardInfo, read_build_kind, read_manifest
from bystander.storage.evaluation_manifest import SCORES_NAME
from bystander.storage.filesystem import Store
from bystander.storage.releases import open_build
from bystander.storage.row_digests import ENCODING, SAMPLES, RowDigests, list_columns, read_row_digests
from bystander.storage.sid_manifest import SidManifest, read_sid_manifest
from bystander.tasks.compare_rows import RowMatch, match_rows
from bystander.tasks.explain_absence import TPI_ABSENCE_COLUMNS, TpiAbsence
from bystander.tasks.explain_sid_absence import SID_ABSENCE_COLUMNS, SidAbsence
from bystander.tasks.row_ways import SID_TRAITS, TPI_TRAITS, choose_way
from bystander.tasks.trace_causes import CauseTracer, StageChanges

_BESIDE_THE_POINT = frozenset({"store", "dataset", "build"})
"""Fields of a configuration that say where a build is, not what."""


def compare_builds(before: str, after: str) -> BuildDifferences:
    """Compare two builds, of the addresses given; `latest` as a build's name is followed.

    Shards that both have are not read. Of others, the rows are read a row group at a time and kept as digests.

    Raises:
        BuildError: one is not a finished build, is an evaluation, or they are not of one kind.
        StorageError: a file cannot be read.
    """
    stores = open_build(before), open_build(after)
    first, second = (_read_manifest(store) for store in stores)
    if isinstance(first, SidManifest) != isinstance(second, SidManifest):
        raise BuildError(
            f"{stores[0].uri} is a build of kind {_kind_of(first)}, {stores[1].uri} one of kind {_kind_of(second)}; "
            "compare two TPI builds or two SID builds"
        )
    return _Comparison(stores, (first, second)).run()


class _Comparison:
    def __init__(self, stores: tuple[Store, Store], manifests: tuple[ManifestBase, ManifestBase]) -> None:
        self._stores = stores
        self._manifests = manifests
        self._is_sid = isinstance(manifests[0], SidManifest)
        self._changes = StageChanges(*manifests)
        self._tracer = CauseTracer(self._changes)
        self._order = {name: i for i, name in enumerate(SID_FINAL.names if self._is_sid else FINAL.names)}

    def run(self) -> BuildDifferences:
        shared = {shard.sha256 for shard in self._manifests[0].shards} & {s.sha256 for s in self._manifests[1].shards}
        unread = [[one for one in manifest.shards if one.sha256 in shared] for manifest in self._manifests]
        to_read = [[one for one in manifest.shards if one.sha256 not in shared] for manifest in self._manifests]
        have = [list_columns(store, one.shards) for store, one in zip(self._stores, self._manifests, strict=True)]
        columns = [name for name in have[0] if name in have[1] and name != "id"]
        traits = (*(SID_TRAITS if self._is_sid else TPI_TRAITS), "duration_s")
        rows = [
            read_row_digests(store, shards, columns, traits)
            for store, shards in zip(self._stores, to_read, strict=True)
        ]
        match = match_rows(rows[0], rows[1])
        return BuildDifferences(
            before=self._describe(0),
            after=self._describe(1),
            same=match.same + sum(shard.rows for shard in unread[0]),
            rows=(
                *self._explain_absent("removed", [rows[0].ids[i] for i in match.removed], to_read[0], 1),
                *self._explain_absent("added", [rows[1].ids[i] for i in match.added], to_read[1], 0),
                *self._trace_changed(match, rows[0]),
            ),
            audio=_count_audio(match, rows[0], rows[1]),
            manifest=compare_manifests(*self._manifests),
            only_before=tuple(name for name in have[0] if name not in have[1] and have[1]),
            only_after=tuple(name for name in have[1] if name not in have[0] and have[0]),
            shards_not_read=len(unread[0]),
        )

    def _describe(self, which: int) -> ComparedBuild:
        manifest = self._manifests[which]
        return ComparedBuild(
            uri=self._stores[which].uri,
            dataset=manifest.dataset,
            build=manifest.build,
            kind=_kind_of(manifest),
            rows=sum(shard.rows for shard in manifest.shards),
            has_fingerprints=bool(manifest.fingerprints),
        )

    def _trace_changed(self, match: RowMatch, before: RowDigests) -> list[RowDifference]:
        traits = before.traits.take(pa.array([i for i, _ in match.changed], pa.int64())).to_pylist()
        kind = _kind_of(self._manifests[0])
        found = []
        for (i, _), columns, row in zip(match.changed, match.columns, traits, strict=True):
            causes = self._tracer.trace(choose_way(kind, row), columns)
            change: RowChange = "provenance" if columns <= PROVENANCE else "changed"
            found.append(RowDifference(before.ids[i], change, causes, self._sort_columns(columns)))
        return sorted(found, key=lambda row: (row.change != "changed", row.id))

    def _sort_columns(self, columns: frozenset[str]) -> tuple[str, ...]:
        last = len(self._order)
        if SAMPLES in columns:
            columns -= {ENCODING}  # goes without saying
        return tuple(sorted(columns, key=lambda name: (self._order.get(name.partition(".")[0], last), name)))

    def _explain_absent(
        self, change: RowChange, ids: Sequence[str], shards: Sequence[ShardInfo], lacking: int
    ) -> list[RowDifference]:
        """Explain rows of one build, in `shards`, that the other, `lacking`, does not have."""
        if not ids:
            return []
        where = ("the first build", "the second build")[lacking]
        store, manifest = self._stores[lacking], self._manifests[lacking]
        explainer: TpiAbsence | SidAbsence
        columns: tuple[str, ...]
        if isinstance(manifest, SidManifest):
            explainer, columns = SidAbsence(store, manifest, self._changes, where), SID_ABSENCE_COLUMNS
        else:
            assert isinstance(manifest, BuildManifest)
            explainer, columns = TpiAbsence(store, manifest, self._changes, where), TPI_ABSENCE_COLUMNS
        kind = _kind_of(manifest)
        causes: dict[str, Cause] = {}
        having = self._manifests[1 - lacking].model_copy(update={"shards": tuple(shards)})
        for row in _read_rows(self._stores[1 - lacking], having, ids, columns):
            causes[row["id"]] = explainer.explain(row, choose_way(kind, row))
        return [RowDifference(row_id, change, (causes[row_id],), ()) for row_id in ids]


def compare_manifests(before: ManifestBase, after: ManifestBase) -> dict[str, tuple[Change, ...]]:
    """Return what differs between two manifests, by section; sections in which nothing does are left out."""
    idle = IDLE_WHERE_ROWS_REPEAT if any(map(_repeats_rows, (before, after))) else frozenset()
    sections = {
        "configuration": list_changes(_config_of(before, idle), _config_of(after, idle)),
        "code": list_changes({"bystander": before.code_version}, {"bystander": after.code_version}),
        "packages": list_changes(before.packages, after.packages),
        "pack": list_changes(_dump(before, "pack", "prompts"), _dump(after, "pack", "prompts")),
        "taxonomy": list_changes(_dump(before, "taxonomy"), _dump(after, "taxonomy")),
        "engines": list_changes(
            *({role: engine.model_dump() for role, engine in m.engines.items()} for m in (before, after))
        ),
        "models": list_changes(*({model.name: model.sha256 for model in m.models} for m in (before, after))),
        "counts": list_changes(_dump(before, "counts"), _dump(after, "counts")),
    }
    return {name: changes for name, changes in sections.items() if changes}


def _config_of(manifest: ManifestBase, idle: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in manifest.config.items() if name not in _BESIDE_THE_POINT | idle}


def _repeats_rows(manifest: ManifestBase) -> bool:
    return isinstance(manifest, BuildManifest) and manifest.on_top_of is not None and manifest.on_top_of.rows == "only"


def _dump(manifest: ManifestBase, *names: str) -> Mapping[str, Any]:
    for name in names:
        if (section := getattr(manifest, name, None)) is not None:
            dumped: dict[str, Any] = section.model_dump(mode="json")
            return dumped
    return {}


def _count_audio(match: RowMatch, before: RowDigests, after: RowDigests) -> AudioDifferences:
    encoding = samples = duration = 0
    times = [rows.traits["duration_s"].combine_chunks() for rows in (before, after)]
    for (i, j), columns in zip(match.changed, match.columns, strict=True):
        if SAMPLES in columns:
            samples += 1
            duration += times[0][i] != times[1][j]
        elif ENCODING in columns:
            encoding += 1
    return AudioDifferences(encoding_only=encoding, samples=samples, duration=duration)


def _read_rows(
    store: Store, manifest: ManifestBase, ids: Sequence[str], columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield some columns of the rows of these ids; those that the build does not have are null."""
    wanted = pa.array(ids, pa.string())
    for _, batch in read_columns(store, manifest, ("id",), [name for name in columns if name != "id"]):
        for row in batch.filter(pc.is_in(batch.column("id"), wanted)).to_pylist():
            yield {name: row.get(name) for name in columns}


def _read_manifest(store: Store) -> ManifestBase:
    kind = read_build_kind(store)
    if kind.startswith("sid"):
        return read_sid_manifest(store)
    if store.exists(SCORES_NAME) and not store.exists("data"):
        raise BuildError(f"{store.uri}: is an evaluation; name two builds of datasets")
    return read_manifest(store)


def _kind_of(manifest: ManifestBase) -> str:
    return str(getattr(manifest, "kind", ""))
