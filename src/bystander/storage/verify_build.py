"""Verifies a finished build: its files against the manifest, every row against its invariants, counts and quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bystander.schemas.errors import BuildError, StorageError
from bystander.schemas.real_world import REAL_FINAL
from bystander.schemas.tpi import FINAL, HARD_NEGATIVE_LABEL
from bystander.storage.build_checks import (
    Finding,
    check_files,
    check_rejects,
    check_stages,
    compare_counts,
    draws_clip,
    read_rows,
)
from bystander.storage.build_manifest import (
    MANIFEST_NAME,
    BuildManifest,
    RowCounter,
    RowCounts,
    read_build_kind,
    read_manifest,
)
from bystander.storage.dyadic_manifest import DYADIC_KIND, read_dyadic_manifest
from bystander.storage.filesystem import Store
from bystander.storage.real_row_invariants import check_real_row
from bystander.storage.releases import open_build
from bystander.storage.row_invariants import RowLinks, check_audio, check_row
from bystander.storage.sid_manifest import read_sid_manifest
from bystander.storage.verify_dyadic import verify_dyadic
from bystander.storage.verify_sid import verify_sid

QUICK_CLIPS = 200
"""Clips that a quick check decodes."""


def verify_build(path: str | Path | Store, quick: bool = False, seed: int = 0) -> list[Finding]:
    """Return everything wrong with a build; nothing if it is sound.

    Args:
        path: the build's folder or fsspec URL.
        quick: decode only about `QUICK_CLIPS` clips, drawn by `seed`; all else is checked in full.
        seed: chooses the clips of a quick check.
    """
    store = path if isinstance(path, Store) else open_build(path)
    try:
        kind = read_build_kind(store)
        if kind == DYADIC_KIND:
            return verify_dyadic(store, _choose_share(quick, read_dyadic_manifest(store).counts.rows), seed)
        if kind.startswith("sid"):
            return verify_sid(store, _choose_share(quick, read_sid_manifest(store).counts.rows), seed)
        manifest = read_manifest(store)
    except (BuildError, StorageError) as exc:
        return [Finding(MANIFEST_NAME, str(exc).removeprefix(f"{store.uri_of(MANIFEST_NAME)}: ").rstrip("."))]
    share = _choose_share(quick, manifest.counts.rows)
    rows = _RowCheck(store, manifest, share, seed)
    return [
        *check_files(store, manifest),
        *rows.run(),
        *compare_counts(manifest.counts, rows.counter.finish()),
        *_check_quotas(manifest, rows.counter.finish()),
        *_check_balance(manifest, rows.counter.finish()),
        *check_stages(manifest),
        *check_rejects(store, manifest),
    ]


def _choose_share(quick: bool, rows: int) -> float:
    return min(1.0, QUICK_CLIPS / max(1, rows)) if quick else 1.0


class _RowCheck:
    """Streams all shards once, a row group at a time."""

    def __init__(self, store: Store, manifest: BuildManifest, share: float, seed: int) -> None:
        self.counter = RowCounter()
        self._store = store
        self._manifest = manifest
        self._share = share
        self._seed = seed
        self._links = RowLinks()

    def run(self) -> Iterator[Finding]:
        schema = REAL_FINAL if self._manifest.kind == "tpi_real" else FINAL
        for found in read_rows(self._store, self._manifest, schema, self.counter.add):
            if isinstance(found, Finding):
                yield found
            else:
                row, shard = found
                yield from self._check(row, shard.file, shard.split)
        for file, row_id, (field, problem) in self._links.finish():
            yield Finding(file, problem, row_id, field)

    def _check(self, row: dict[str, Any], file: str, split: str) -> Iterator[Finding]:
        check = check_real_row if self._manifest.kind == "tpi_real" else check_row
        faults = list(check(row, split, self._manifest))
        if row["id"] is not None:
            faults += self._links.add(row, file)
        if row["sampling_rate"] and row["duration_s"] is not None and draws_clip(self._share, self._seed, row["id"]):
            faults += check_audio(row)
        for field, problem in faults:
            yield Finding(file, problem, row["id"] or "without id", field)


def _check_quotas(manifest: BuildManifest, found: RowCounts) -> Iterator[Finding]:
    for quota in manifest.quotas:
        rows = sum(
            count
            for label, by_scenario in found.by_label_and_scenario.items()
            for scenario, count in by_scenario.items()
            if quota.label in (None, label)
            and quota.scenario in (None, scenario)
            and not (quota.label is None and label == HARD_NEGATIVE_LABEL)
        )
        stratum = quota.stratum
        if rows != quota.got:
            yield Finding(MANIFEST_NAME, f"says {quota.got} rows of {stratum}, the shards have {rows}", field="quotas")
        if quota.got > quota.asked:
            problem = f"have {quota.got} rows of {stratum} where {quota.asked} were asked for"
            yield Finding(MANIFEST_NAME, problem, field="quotas")


def _check_balance(manifest: BuildManifest, found: RowCounts) -> Iterator[Finding]:
    """A bench whose scenarios are not short has as many two-speaker rows of each, give or take one."""
    if manifest.on_top_of is not None and manifest.on_top_of.rows == "only":
        return  # it has the rows of another, as far as they pass
    if manifest.kind != "tpi_bench" or any(quota.scenario for quota in manifest.shortfalls):
        return
    asked = {quota.scenario: 0 for quota in manifest.quotas if quota.scenario}
    rows = Counter(asked)
    for label, by_scenario in found.by_label_and_scenario.items():
        if label != HARD_NEGATIVE_LABEL:
            rows.update(by_scenario)
    if rows and max(rows.values()) - min(rows.values()) > 1:
        most, least = max(rows, key=lambda key: rows[key]), min(rows, key=lambda key: rows[key])
        problem = f"are out of balance: {rows[most]} rows of {most}, {rows[least]} of {least}"
        yield Finding(MANIFEST_NAME, problem, field="scenarios")
