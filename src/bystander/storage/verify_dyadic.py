"""Verifies a finished dyadic build: its files against the manifest, every row against its invariants, and counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bystander.schemas.dyadic import DYADIC_FINAL, DYADIC_LABEL
from bystander.storage.build_checks import (
    Finding,
    check_files,
    check_rejects,
    check_stages,
    compare_counts,
)
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.dyadic_manifest import DyadicManifest, DyadicRowCounter, read_dyadic_manifest
from bystander.storage.filesystem import Store
from bystander.storage.row_checks import RowPass, check_rows
from bystander.storage.row_invariants import Fault, check_origin, find_nulls, find_unspeakable


def verify_dyadic(store: Store, share: float, seed: int) -> list[Finding]:
    """Return everything wrong with a dyadic build; nothing if it is sound. A `share` of the clips is decoded.

    Raises:
        BuildError: it has no manifest, or one of another format.
    """
    manifest = read_dyadic_manifest(store)
    counter = DyadicRowCounter()
    rows = RowPass(
        schema=DYADIC_FINAL,
        count=counter.add,
        check=lambda row, split: _check_row(row, split, manifest),
        unique=("id", "query_id", "source_id"),
    )
    return [
        *check_files(store, manifest),
        *check_rows(store, manifest, rows, share, seed),
        *compare_counts(manifest.counts, counter.finish()),
        *_check_number(manifest),
        *check_stages(manifest),
        *check_rejects(store, manifest),
    ]


def _check_row(row: Mapping[str, Any], split: str, manifest: DyadicManifest) -> Iterator[Fault]:
    missing = list(find_nulls(row, DYADIC_FINAL))
    yield from missing
    if missing:
        return
    yield from check_origin(row, split, manifest)
    if (row["pack"], row["pack_digest"]) != (manifest.pack.name, manifest.pack.digest):
        yield "pack_digest", f"names another pack ({row['pack']!r}) than the manifest"
    if row["label"] != DYADIC_LABEL:
        yield "label", f"is {row['label']!r}, not {DYADIC_LABEL!r}"
    if row["n_speakers"] != 1:
        yield "n_speakers", f"is {row['n_speakers']}, not 1"
    for name in ("primary_text", "reply"):
        if not row[name].strip():
            yield name, "is empty"
    if odd := find_unspeakable(row["primary_text"]):
        yield "primary_text", f"holds {odd!r}, which a voice cannot speak"
    most = manifest.config.get("stages", {}).get("synthesise_speech", {}).get("max_wer")
    if most is not None and row["primary_wer"] > most + 1e-9:
        yield "primary_wer", f"is {row['primary_wer']:.3f}, above the configured {most:g}"
    if [segment["speaker"] for segment in row["segments"]] != ["primary"]:
        yield "segments", "are not one of the primary"
        return
    segment, tolerance = row["segments"][0], 2 / row["sampling_rate"]
    if not -tolerance <= segment["start_s"] < segment["end_s"] <= row["duration_s"] + tolerance:
        yield (
            "segments",
            f"primary from {segment['start_s']} s to {segment['end_s']} s does not lie in {row['duration_s']} s",
        )


def _check_number(manifest: DyadicManifest) -> Iterator[Finding]:
    if manifest.asked is not None and manifest.counts.rows > manifest.asked:
        problem = f"has {manifest.counts.rows} rows where {manifest.asked} were asked for"
        yield Finding(MANIFEST_NAME, problem, field="counts.rows")
