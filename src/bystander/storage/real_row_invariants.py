"""What must hold of every row of a build of real recordings, on its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bystander.schemas.real_world import REAL_FINAL, REAL_WORLD
from bystander.schemas.taxonomy import Timing
from bystander.storage.build_manifest import BuildManifest
from bystander.storage.row_invariants import (
    Fault,
    check_label,
    check_origin,
    check_pack,
    check_segments,
    find_nulls,
    find_unspeakable,
)

_SCORES = {
    "query_score": "min_query",
    "interruption_score": "min_interruption",
    "answerable_score": "min_answerable",
}


def check_real_row(row: Mapping[str, Any], split: str, manifest: BuildManifest) -> Iterator[Fault]:
    """Yield what is wrong with a row's fields; audio is not decoded."""
    missing = list(find_nulls(row, REAL_FINAL))
    yield from missing
    if missing:
        return
    yield from check_origin(row, split, manifest)
    yield from check_pack(row, manifest)
    yield from check_label(row, manifest)
    yield from check_segments(row)
    if split != REAL_WORLD:
        yield "split", f"is {split!r}; a build of real recordings has {REAL_WORLD}"
    if row["n_speakers"] != 2:
        yield "n_speakers", f"is {row['n_speakers']}, not 2"
    if row["timing"] not in set(Timing):
        yield "timing", f"{row['timing']!r} is no timing"
    for name in ("primary_text", "third_party_text", "reply"):
        if not row[name].strip():
            yield name, "is empty"
    for name in ("primary_text", "third_party_text"):
        if odd := find_unspeakable(row[name]):
            yield name, f"holds {odd!r}, which nobody says"
    if row["primary_speaker"] == row["third_party_speaker"]:
        yield "third_party_speaker", f"is the primary, too ({row['primary_speaker']!r})"
    if row["corpus"] not in {corpus.name for corpus in manifest.corpora}:
        yield "corpus", f"{row['corpus']!r} is none that the manifest names"
    if abs(row["end_s"] - row["start_s"] - row["duration_s"]) > 0.01:
        yield "end_s", f"is {row['end_s']:.3f} s, which does not fit start and duration"
    least = manifest.config.get("stages", {}).get("score_pairs", {})
    for name, setting in _SCORES.items():
        if row[name] is not None and not least.get(setting, 1) - 1e-6 <= row[name] <= 5 + 1e-6:
            yield name, f"is {row[name]:.2f}, outside {least.get(setting, 1):g} to 5"
    for name, low, high in (("label_score", 0.0, 1.0), ("ambiguity_score", 1.0, 5.0)):
        if not low - 1e-6 <= row[name] <= high + 1e-6:
            yield name, f"is {row[name]}, outside {low:g} to {high:g}"
