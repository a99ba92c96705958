"""Verifies a finished build: its files against the manifest, every row against its invariants, counts and quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bystander.schemas.errors import BuildError, StorageError
from bystander.schemas.identity import derive_seed
from bystander.schemas.tpi import FINAL, HARD_NEGATIVE_LABEL
from bystander.storage.build_manifest import (
    MANIFEST_NAME,
    BuildManifest,
    FileInfo,
    RowCounter,
    RowCounts,
    read_manifest,
)
from bystander.storage.filesystem import Store, open_store
from bystander.storage.row_invariants import RowLinks, check_audio, check_row

QUICK_CLIPS = 200
"""Clips that a quick check decodes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a build. `row` and `field` are empty where it concerns a whole file."""

    file: str
    problem: str
    row: str = ""
    field: str = ""

    def __str__(self) -> str:
        row = f"row {self.row}: " if self.row else ""
        field = f"{self.field} " if self.field else ""
        return f"{self.file}: {row}{field}{self.problem}."


def verify_build(path: str | Path | Store, quick: bool = False, seed: int = 0) -> list[Finding]:
    """Return everything wrong with a build; nothing if it is sound.

    Args:
        path: the build's folder or fsspec URL.
        quick: decode only about `QUICK_CLIPS` clips, drawn by `seed`; all else is checked in full.
        seed: chooses the clips of a quick check.
    """
    store = path if isinstance(path, Store) else open_store(path)
    try:
        manifest = read_manifest(store)
    except (BuildError, StorageError) as exc:
        return [Finding(MANIFEST_NAME, str(exc).removeprefix(f"{store.uri_of(MANIFEST_NAME)}: ").rstrip("."))]
    share = min(1.0, QUICK_CLIPS / max(1, manifest.counts.rows)) if quick else 1.0
    rows = _RowCheck(store, manifest, share, seed)
    return [
        *_check_files(store, manifest),
        *rows.run(),
        *_compare_counts(manifest, rows.counter.finish()),
        *_check_quotas(manifest, rows.counter.finish()),
        *_check_balance(manifest, rows.counter.finish()),
        *_check_stages(manifest),
        *_check_rejects(store, manifest),
    ]


def _check_files(store: Store, manifest: BuildManifest) -> Iterator[Finding]:
    if not manifest.shards:
        yield Finding(MANIFEST_NAME, "lists no shards")
    listed = [*manifest.shards, *manifest.rejects]
    for info in listed:
        if not store.exists(info.file):
            yield Finding(info.file, "is missing")
            continue
        size = store.size(info.file)
        if size != info.bytes:
            yield Finding(info.file, f"has {size} bytes, the manifest says {info.bytes}")
        elif (found := store.sha256(info.file)) != info.sha256:
            yield Finding(info.file, f"has checksum {found[:12]}…, the manifest says {info.sha256[:12]}…")
    known = {info.file for info in listed}
    for folder in ("data", "rejects"):
        for name in store.list(folder):
            if name not in known:
                yield Finding(name, "is not in the manifest")
    for name in ("README.md", "report.html"):
        if not store.exists(name):
            yield Finding(name, "is missing")


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
        for shard in self._manifest.shards:
            rows = 0
            for batch in _read_batches(self._store, shard, FINAL):
                if isinstance(batch, Finding):
                    yield batch
                    continue
                rows += batch.num_rows
                self.counter.add(batch)
                for row in batch.to_pylist():
                    yield from self._check(row, shard.file, shard.split)
            if rows != shard.rows:
                yield Finding(shard.file, f"has {rows} readable rows, the manifest says {shard.rows}")
        for file, row_id, (field, problem) in self._links.finish():
            yield Finding(file, problem, row_id, field)

    def _check(self, row: dict[str, Any], file: str, split: str) -> Iterator[Finding]:
        faults = list(check_row(row, split, self._manifest))
        if row["id"] is not None:
            faults += self._links.add(row, file)
        if row["sampling_rate"] and row["duration_s"] is not None and self._is_drawn(row["id"]):
            faults += check_audio(row)
        for field, problem in faults:
            yield Finding(file, problem, row["id"] or "without id", field)

    def _is_drawn(self, row_id: str | None) -> bool:
        if self._share >= 1 or row_id is None:
            return True
        return derive_seed(self._seed, row_id, "verify_build") < self._share * 2**63


def _read_batches(store: Store, info: FileInfo, schema: pa.Schema | None) -> Iterator[pa.RecordBatch | Finding]:
    """Yield a file's row groups; a finding, and no more, where it cannot be read or has other columns."""
    try:
        with store.open_read(info.file) as source, pq.ParquetFile(source) as parquet:
            found = parquet.schema_arrow
            if schema is not None:
                expected = {column.name: column.type for column in schema}
                actual = {column.name: column.type for column in found}
                odd = [n for n in (*expected, *actual) if expected.get(n) != actual.get(n)]
                if odd:
                    names = ", ".join(dict.fromkeys(odd))
                    yield Finding(info.file, f"has a schema that differs in {names}")
                    return
            for index in range(parquet.num_row_groups):
                yield from parquet.read_row_group(index).to_batches()
    except StorageError:
        return  # `_check_files` has said so
    except (pa.ArrowException, OSError, ValueError) as exc:
        yield Finding(info.file, f"cannot be read as Parquet ({str(exc).splitlines()[0].rstrip('.')})")


def _compare_counts(manifest: BuildManifest, found: RowCounts) -> Iterator[Finding]:
    stated = manifest.counts
    for name in RowCounts.model_fields:
        said, is_now = getattr(stated, name), getattr(found, name)
        if isinstance(said, dict):
            for key in sorted({*said, *is_now}):
                if said.get(key) != is_now.get(key):
                    problem = f"says {said.get(key, 0)} for {key}, the shards have {is_now.get(key, 0)}"
                    yield Finding(MANIFEST_NAME, problem, field=f"counts.{name}")
        elif abs(said - is_now) > 0.01:
            yield Finding(MANIFEST_NAME, f"says {said}, the shards have {is_now}", field=f"counts.{name}")


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


def _check_stages(manifest: BuildManifest) -> Iterator[Finding]:
    for stage in manifest.stages:
        if stage.kept + stage.rejected != stage.rows_in:
            problem = f"{stage.rows_in} rows in, but {stage.kept} kept and {stage.rejected} rejected"
            yield Finding(MANIFEST_NAME, problem, field=f"stage {stage.stage}:")


def _check_rejects(store: Store, manifest: BuildManifest) -> Iterator[Finding]:
    found: Counter[tuple[str, str]] = Counter()
    for info in manifest.rejects:
        rows = 0
        for batch in _read_batches(store, info, None):
            if isinstance(batch, Finding):
                yield batch
                continue
            rows += batch.num_rows
            if not {"reject_stage", "reject_reason"} <= set(batch.schema.names):
                yield Finding(info.file, "lacks the columns reject_stage and reject_reason")
                break
            cells = (batch.column(name).to_pylist() for name in ("reject_stage", "reject_reason"))
            found.update(zip(*cells, strict=True))
        if rows != info.rows:
            yield Finding(info.file, f"has {rows} readable rows, the manifest says {info.rows}")
    stated = Counter(
        {(stage.stage, reason): count for stage in manifest.stages for reason, count in stage.reasons.items()}
    )
    for stage, reason in sorted({*found, *stated}):
        said, is_now = stated[stage, reason], found[stage, reason]
        if said != is_now:
            problem = f"says {said} rejected as {reason}, the rejects have {is_now}"
            yield Finding(MANIFEST_NAME, problem, field=f"stage {stage}:")
