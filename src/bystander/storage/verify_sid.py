"""Verifies a finished SID build: files against the manifest, rows against their invariants, counts and quotas."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from bystander.schemas.sid import SID_FINAL
from bystander.storage.build_checks import (
    Finding,
    check_files,
    check_rejects,
    check_stages,
    compare_counts,
    draws_clip,
    read_batches,
)
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.filesystem import Store
from bystander.storage.row_invariants import check_audio
from bystander.storage.sid_invariants import Fault, check_sid_row
from bystander.storage.sid_manifest import SidCounts, SidManifest, SidRowCounter, read_sid_manifest


def verify_sid(store: Store, share: float, seed: int) -> list[Finding]:
    """Return everything wrong with a SID build; nothing if it is sound. A `share` of the clips is decoded.

    Raises:
        BuildError: it has no manifest, or one of another format.
    """
    manifest = read_sid_manifest(store)
    counter = SidRowCounter()
    return [
        *check_files(store, manifest),
        *_check_rows(store, manifest, counter, share, seed),
        *compare_counts(manifest.counts, counter.finish()),
        *_check_quotas(manifest, counter.finish()),
        *check_stages(manifest),
        *check_rejects(store, manifest),
    ]


def _check_rows(
    store: Store, manifest: SidManifest, counter: SidRowCounter, share: float, seed: int
) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for shard in manifest.shards:
        rows = 0
        for batch in read_batches(store, shard, SID_FINAL):
            if isinstance(batch, Finding):
                yield batch
                continue
            rows += batch.num_rows
            counter.add(batch)
            yield from _check_batch(batch, shard.file, shard.split, manifest, seen, share, seed)
        if rows != shard.rows:
            yield Finding(shard.file, f"has {rows} readable rows, the manifest says {shard.rows}")


def _check_batch(
    batch: pa.RecordBatch,
    file: str,
    split: str,
    manifest: SidManifest,
    seen: dict[str, str],
    share: float,
    seed: int,
) -> Iterator[Finding]:
    for row in batch.to_pylist():
        faults: list[Fault] = list(check_sid_row(row, split, manifest))
        row_id = row["id"]
        if row_id in seen:
            faults.append(("id", f"occurs in {seen[row_id]} too"))
        elif row_id is not None:
            seen[row_id] = file
        if row["sampling_rate"] and row["duration_s"] is not None and draws_clip(share, seed, row_id):
            faults += check_audio(row)
        for field, problem in faults:
            yield Finding(file, problem, row_id or "without id", field)


def _check_quotas(manifest: SidManifest, found: SidCounts) -> Iterator[Finding]:
    for quota in manifest.quotas:
        if quota.language is None:
            rows = found.by_category.get(quota.category, 0)
        else:
            rows = found.by_language_and_category.get(quota.language, {}).get(quota.category, 0)
        if rows != quota.got:
            problem = f"says {quota.got} rows of {quota.stratum}, the shards have {rows}"
            yield Finding(MANIFEST_NAME, problem, field="quotas")
        if quota.got > quota.asked:
            problem = f"have {quota.got} rows of {quota.stratum} where {quota.asked} were asked for"
            yield Finding(MANIFEST_NAME, problem, field="quotas")
