"""Cuts a finished TPI build into parts that share nothing, as a finished build of its own."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from bystander.schemas.errors import BuildError, ConfigError
from bystander.schemas.field_types import MAX_SEED, NAME, NAME_IN_WORDS
from bystander.schemas.identity import digest_json
from bystander.schemas.stages import REJECT_FIELDS, reject_schema
from bystander.schemas.tpi import FINAL
from bystander.storage.build_contents import COLUMNS, RowContents, describe_build, read_columns, read_final_rows
from bystander.storage.build_lock import lock_build
from bystander.storage.build_manifest import (
    BuildManifest,
    FileInfo,
    PartsInfo,
    RowCounter,
    ShardInfo,
    StageCounts,
    get_code_version,
    read_manifest,
    write_manifest,
)
from bystander.storage.dataset_card import write_card
from bystander.storage.filesystem import Store, open_store
from bystander.storage.part_use import record_part_use
from bystander.storage.releases import LATEST, open_build
from bystander.storage.shards import ShardWriter, write_table
from bystander.tasks.metrics.text_normaliser import normalise_text
from bystander.tasks.report_tpi import write_report
from bystander.tasks.stages.assign_parts import PartRow, assign_parts

STEP = "split"
"""Name under which rows that fit into no part stand among the rejects."""
_REASON = "shared_between_parts"


@dataclass(frozen=True, slots=True)
class SplitOutcome:
    """The build of the parts: where it is, its manifest, and what a person wants to hear of it, a sentence a line."""

    location: str
    manifest: BuildManifest
    summary: tuple[str, ...]


def split_tpi(build: str, out: str, name: str, parts: Mapping[str, float], seed: int = 0) -> SplitOutcome:
    """Cut a finished build into parts and write them as the splits of a new one, `<out>/<dataset>/<name>`.

    Rows of different parts have no query, no normalised text (request, complete and spoken primary text, third party's
    text, transcript) and no pair of voices in common, and twins stay together. Rows that cannot be placed so go to
    `rejects/split.parquet` with the reason `shared_between_parts`. See `assign_parts` for how sizes are aimed at. The
    same build, parts and seed give the same files.

    Raises:
        BuildError: `build` is not a finished build, cannot be cut so, or there is another build at the new place.
        ConfigError: the name is none that a folder can have, or the seed is out of range.
        StorageError: a file cannot be read or written.
    """
    source = open_build(build)
    manifest = read_manifest(source)
    if manifest.kind == "tpi_real":
        raise BuildError(f"{source.uri}: is a build of real recordings, which is scored on as a whole; do not split it")
    if not re.fullmatch(NAME, name) or name == LATEST:
        raise ConfigError(f"--name {name[:40]!r}: use {NAME_IN_WORDS}, other than {LATEST}")
    if not 0 <= seed <= MAX_SEED:
        raise ConfigError(f"--seed {seed}: must be from 0 to {MAX_SEED}")
    store = open_store(out)
    target = store.child(manifest.dataset, name)
    made_from = PartsInfo(of=describe_build(source, manifest), shares=dict(parts), seed=seed)
    _check_target(source, target, made_from)
    assigned = assign_parts(list(_read_rows(source, manifest)), parts, seed)
    with lock_build(store, manifest.dataset, name) as lock:
        target.remove("manifest.json")
        target.remove_temporaries()
        target.remove("data", recursive=True)
        target.remove("rejects", recursive=True)
        counter = RowCounter()
        shards = _write_parts(source, manifest, target, assigned, parts, counter)
        dropped = _write_dropped(source, manifest, target, assigned)
        reasons = {_REASON: dropped.rows} if dropped.rows else {}
        cut = manifest.model_copy(
            update={
                "build": name,
                "kind": "tpi_parts",
                "content_digest": digest_json([made_from.model_dump(mode="json"), get_code_version()]),
                "stages": (
                    StageCounts(stage=STEP, rows_in=len(assigned) + dropped.rows, kept=len(assigned), reasons=reasons),
                ),
                "quotas": (),
                "on_top_of": None,
                "parts_of": made_from,
                "counts": counter.finish(),
                "shards": tuple(shards),
                "rejects": (dropped,) if dropped.rows else (),
            }
        )
        record_part_use(store, manifest.dataset, name, ())
        write_report(target, cut, int(manifest.config.get("report_rows", 20)))
        write_card(target, cut)
        lock.assert_held()
        write_manifest(target, cut)
    location = store.uri_of(f"{manifest.dataset}/{name}")
    return SplitOutcome(location, cut, _summarise(location, cut, parts, dropped.rows))


def _check_target(source: Store, target: Store, made_from: PartsInfo) -> None:
    if target.uri == source.uri:
        raise BuildError(f"{target.uri}: is the build that is to be cut; choose another --name or --out")
    if not target.exists("manifest.json"):
        return
    there = read_manifest(target)
    if there.parts_of is None or there.parts_of.of.build != made_from.of.build:
        raise BuildError(f"{target.uri}: there is another build; choose another --name or --out")


def _read_rows(store: Store, manifest: BuildManifest) -> Iterator[PartRow]:
    for _, batch in read_columns(store, manifest, (*COLUMNS, "label", "twin_id")):
        for row in batch.to_pylist():
            contents = RowContents.of(row, normalise_text)
            yield PartRow(
                id=contents.id,
                query=contents.query,
                texts=contents.texts.keys(),
                pair=contents.pair,
                label=row["label"],
                twin_id=row["twin_id"],
            )


def _write_parts(
    source: Store,
    manifest: BuildManifest,
    target: Store,
    assigned: Mapping[str, str],
    parts: Mapping[str, float],
    counter: RowCounter,
) -> list[ShardInfo]:
    shard_mib = int(manifest.config.get("shard_mib", 256))
    with contextlib.ExitStack() as stack:
        writers = {
            part: stack.enter_context(
                ShardWriter(target, "data", part, FINAL, sampling_rate=manifest.sampling_rate, shard_mib=shard_mib)
            )
            for part in parts
        }
        for rows, placed in _read_placed(source, manifest, assigned):
            for part, writer in writers.items():
                chosen = rows.filter(pa.array([at == part for at in placed], pa.bool_()))
                split = FINAL.get_field_index("split")
                names = pa.array([part] * len(chosen), pa.string())
                chosen = chosen.set_column(split, FINAL.field("split"), names)
                counter.add(chosen)
                writer.write(chosen)
    return [shard for writer in writers.values() for shard in writer.shards]


def _write_dropped(source: Store, manifest: BuildManifest, target: Store, assigned: Mapping[str, str]) -> FileInfo:
    def take() -> Iterator[pa.Table]:
        for rows, placed in _read_placed(source, manifest, assigned):
            left = rows.filter(pa.array([at is None for at in placed], pa.bool_()))
            for column, value in zip(REJECT_FIELDS, (STEP, _REASON, None, None), strict=True):
                left = left.append_column(column, pa.array([value] * len(left), column.type))
            yield left

    info = write_table(target, f"rejects/{STEP}.parquet", reject_schema(FINAL), take(), manifest.sampling_rate)
    if not info.rows:
        target.remove(info.file)
    return info


def _read_placed(
    source: Store, manifest: BuildManifest, assigned: Mapping[str, str]
) -> Iterator[tuple[pa.Table, list[str | None]]]:
    for _, rows in read_final_rows(source, manifest):
        yield rows, [assigned.get(row_id) for row_id in rows["id"].to_pylist()]


def _summarise(location: str, manifest: BuildManifest, parts: Mapping[str, float], dropped: int) -> tuple[str, ...]:
    counts: Counter[str] = Counter(manifest.counts.by_split)
    total = counts.total()
    sizes = ", ".join(
        f"{part} {counts[part]} ({counts[part] / total:.0%} of {share:.0%})" for part, share in parts.items()
    )
    return (
        f"{location}: {total} rows; {sizes}.",
        f"{dropped} of {total + dropped} rows were left out, because they share a query, a text or a pair of voices "
        f"with another part (rejects/{STEP}.parquet).",
    )
