"""Whether a clip sounds like one voice or two: the speaker of its first part against the speaker of its second.

Where to cut is told by `segments` in a two-speaker row: before the overlap and after it. A one-speaker row has a single
segment and no seam in it, and one voice on both sides wherever it is cut. So that the parts of two twins differ in
nothing but the voices, the one-speaker twin is cut at the same relative times of its speech as its two-speaker twin,
and the stretch that overlaps there is left out here too. A one-speaker row without a twin is cut where the second text
begins, taking the same time for every character.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.schemas.arrays import list_rows
from bystander.schemas.engines import EmbeddingRequest, RowFault, SpeakerVerifier
from bystander.schemas.errors import InputError
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.audio.speech_checks import count_spoken_characters
from bystander.tasks.metrics.speaker_similarity import measure_similarities
from bystander.tasks.metrics.twin_pairs import find_twins

_BATCH_ROWS = 64  # decoded audio of so many rows is held at once
_PLAIN_COLUMNS = ("id", "n_speakers", "twin_id", "primary_text", "third_party_text", "segments")


@dataclass(frozen=True, slots=True)
class SpeechCut:
    """The two parts of a clip that are compared, in seconds from its start: what lies between them is left out.

    The parts are [start_s, before_end_s) and [after_start_s, end_s); speech lasts from `start_s` to `end_s`.
    """

    start_s: float
    before_end_s: float
    after_start_s: float
    end_s: float

    def move_to(self, start_s: float, end_s: float) -> SpeechCut:
        """Return the cut of speech from `start_s` to `end_s` at the same relative times."""
        scale = (end_s - start_s) / (self.end_s - self.start_s)
        before_end_s, after_start_s = (
            start_s + (time_s - self.start_s) * scale for time_s in (self.before_end_s, self.after_start_s)
        )
        return SpeechCut(start_s, before_end_s, after_start_s, end_s)

    def slices(self, rate: int) -> tuple[slice, slice]:
        """Return the two parts as slices of the clip's samples at `rate` Hz."""
        starts, ends = (self.start_s, self.after_start_s), (self.before_end_s, self.end_s)
        first, second = (slice(round(a * rate), round(b * rate)) for a, b in zip(starts, ends, strict=True))
        return first, second


def find_cut(row: Mapping[str, Any]) -> SpeechCut:
    """Return where a row on its own is cut.

    Two speakers: before their overlap (or pause) and after it. One speaker: where the second text begins, if every
    letter takes the same time.

    Reads n_speakers, segments, primary_text, third_party_text.
    """
    first, last = row["segments"][0], row["segments"][-1]
    if row["n_speakers"] == 1:
        primary = count_spoken_characters(row["primary_text"])
        share = primary / max(1, primary + count_spoken_characters(row["third_party_text"]))
        seam_s = first["start_s"] + share * (first["end_s"] - first["start_s"])
        return SpeechCut(first["start_s"], seam_s, seam_s, last["end_s"])
    before_end_s = min(first["end_s"], last["start_s"])
    after_start_s = max(first["end_s"], last["start_s"])
    return SpeechCut(first["start_s"], before_end_s, after_start_s, last["end_s"])


def cut_clip(audio: bytes | memoryview, cut: SpeechCut) -> tuple[EmbeddingRequest, EmbeddingRequest]:
    """Return the two parts of an encoded clip; a part that the cut leaves nothing of has no samples.

    Raises:
        InputError: the clip cannot be decoded.
    """
    samples, rate = decode_audio(audio)
    before, after = (samples[part] for part in cut.slices(rate))
    return EmbeddingRequest(before, rate), EmbeddingRequest(after, rate)


def find_cuts(rows: pa.Table) -> list[SpeechCut]:
    """Return where each row is cut: a one-speaker row whose twin is here as that twin, any other by `find_cut`.

    Reads id, n_speakers, twin_id, primary_text, third_party_text, segments.
    """
    plain = rows.select(_PLAIN_COLUMNS).to_pylist()
    cuts = [find_cut(row) for row in plain]
    names = ([row[name] for row in plain] for name in ("id", "n_speakers", "twin_id"))
    for pair, single in find_twins(*names):
        cuts[single] = cuts[pair].move_to(cuts[single].start_s, cuts[single].end_s)
    return cuts


def measure_dissimilarities(rows: pa.Table, verifier: SpeakerVerifier) -> list[float | RowFault]:
    """Return 1 - cosine of the speakers of each row's two parts, in [0, 2]: higher where they sound like two people.

    Args:
        rows: what `find_cuts` reads, and `audio`.
        verifier: embeds the parts.

    Returns:
        One item a row: the figure, or the verifier's fault where a part is too short to measure.

    Raises:
        EngineError: the verifier as a whole failed.
        InputError: a clip cannot be decoded.
    """
    cuts = find_cuts(rows)
    clips = rows.select(["id", "audio"])
    measured: list[float | RowFault] = []
    for start in range(0, len(rows), _BATCH_ROWS):
        batch = list_rows(clips.slice(start, _BATCH_ROWS))
        parts = [_cut_row(row, cut) for row, cut in zip(batch, cuts[start : start + _BATCH_ROWS], strict=True)]
        measured += [
            similarity if isinstance(similarity, RowFault) else 1.0 - similarity
            for similarity in measure_similarities(parts, verifier)
        ]
    return measured


def _cut_row(row: Mapping[str, Any], cut: SpeechCut) -> tuple[EmbeddingRequest, EmbeddingRequest]:
    try:
        return cut_clip(row["audio"]["bytes"], cut)
    except InputError as exc:
        raise InputError(f"row {row['id']}: {exc}; check the bench with bystander verify") from exc
