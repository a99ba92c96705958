"""Verifies a finished SID build: files against the manifest, rows against their invariants, counts and quotas."""

from __future__ import annotations

from collections.abc import Iterator

from bystander.schemas.sid import SID_FINAL
from bystander.storage.build_checks import (
    Finding,
    check_files,
    check_rejects,
    check_stages,
    compare_counts,
)
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.filesystem import Store
from bystander.storage.row_checks import RowPass, check_rows
from bystander.storage.sid_invariants import check_sid_row
from bystander.storage.sid_manifest import SidCounts, SidManifest, SidRowCounter, read_sid_manifest


def verify_sid(store: Store, share: float, seed: int) -> list[Finding]:
    """Return everything wrong with a SID build; nothing if it is sound. A `share` of the clips is decoded.

    Raises:
        BuildError: it has no manifest, or one of another format.
    """
    manifest = read_sid_manifest(store)
    counter = SidRowCounter()
    rows = RowPass(
        schema=SID_FINAL,
        count=counter.add,
        check=lambda row, split: check_sid_row(row, split, manifest),
        unique=("id",),
    )
    return [
        *check_files(store, manifest),
        *check_rows(store, manifest, rows, share, seed),
        *compare_counts(manifest.counts, counter.finish()),
        *_check_quotas(manifest, counter.finish()),
        *check_stages(manifest),
        *check_rejects(store, manifest),
    ]


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
