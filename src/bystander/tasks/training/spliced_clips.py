"""The seam control: clips of one voice and of two, both joined from two pieces, so that the seam tells nothing.

A two-speaker row is two syntheses mixed with an overlap; a hard negative is one. What that leaves (overlap, a broken
intonation, a jump) may tell two tracks from one whoever speaks. Here both kinds are made alike: a first piece, and a
second one from another synthesis, of the same voice or of another, cut and overlapped in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bystander.schemas.engines import Samples
from bystander.schemas.identity import make_rng
from bystander.tasks.audio.placement import add_tracks

FADE_S = 0.01
SHORTEST_S = 0.8
"""Of a piece: shorter ones hold no window of the speaker encoder clear of the overlap."""
DEFAULT_OVERLAP_S = 0.5
"""Where no row tells one: the TPI paper's mean."""


@dataclass(frozen=True, slots=True)
class SpokenRow:
    """What is needed of a row to cut it: `samples`, shape (n,), float32, and where who speaks, in seconds."""

    id: str
    samples: Samples
    primary_voice: str
    third_party_voice: str | None
    third_party_start_s: float | None
    """Of a row of one speaker, None."""
    primary_end_s: float
    first_share: float
    """Share of the characters that are the primary text's: where a hard negative is cut."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch in which one voice speaks alone."""

    row_id: str
    voice: str
    samples: Samples


@dataclass(frozen=True, slots=True)
class SplicedPair:
    """Two clips with the same first piece: the second piece is of its voice, or of another."""

    row_id: str
    """Of the first piece, whose words go with both."""
    one_voice: Samples
    two_voices: Samples


def cut_rows(rows: Sequence[SpokenRow], rate: int) -> tuple[list[Piece], list[Piece]]:
    """Return the first and the second pieces of rows, clear of any overlap, those that are long enough."""
    first, second = [], []
    for row in rows:
        if row.third_party_start_s is None:
            cut = round(row.primary_end_s * row.first_share * rate)
            ends, starts, voice = cut, cut, row.primary_voice
        else:
            ends, starts = round(row.third_party_start_s * rate), round(row.primary_end_s * rate)
            voice = row.third_party_voice or ""
        first.append(Piece(row.id, row.primary_voice, row.samples[: max(0, ends)]))
        second.append(Piece(row.id, voice, row.samples[max(0, starts) :]))
    least = SHORTEST_S * rate
    return (
        [piece for piece in first if piece.voice and len(piece.samples) >= least],
        [piece for piece in second if piece.voice and len(piece.samples) >= least],
    )


def splice_rows(rows: Sequence[SpokenRow], rate: int, overlap_s: float, seed: int) -> list[SplicedPair]:
    """Return a pair of clips for each first piece whose voice speaks a second piece of another row.

    The second piece of its voice is drawn; that of another voice is the one of most like length, of no voice of the row
    that it came from but its own. All pieces are brought to one level and overlap by as much.

    Args:
        rows: to be cut.
        rate: of their samples, in Hz.
        overlap_s: of the pieces, at most half of the shorter one.
        seed: of the lot, with the row's id.
    """
    firsts, seconds = cut_rows(rows, rate)
    pairs = []
    for first in firsts:
        same = [piece for piece in seconds if piece.voice == first.voice and piece.row_id != first.row_id]
        others = [piece for piece in seconds if piece.voice != first.voice and piece.row_id != first.row_id]
        if not same or not others:
            continue
        same.sort(key=lambda piece: piece.row_id)
        chosen = same[int(make_rng(seed, first.row_id, "spliced_piece").integers(len(same)))]
        other = min(others, key=lambda piece: (abs(len(piece.samples) - len(chosen.samples)), piece.row_id))
        one, two = (_join(first.samples, piece.samples, rate, overlap_s) for piece in (chosen, other))
        pairs.append(SplicedPair(first.row_id, one, two))
    return pairs


def _join(first: Samples, second: Samples, rate: int, overlap_s: float) -> Samples:
    overlap = min(round(overlap_s * rate), min(len(first), len(second)) // 2)
    pieces = [_fade(piece, round(FADE_S * rate)) for piece in (first, second)]
    loudness = [float(np.sqrt(np.mean(piece.astype(np.float64) ** 2))) for piece in pieces]
    return add_tracks(pieces[0], pieces[1], len(first) - overlap, loudness[0] / max(loudness[1], 1e-9))


def _fade(samples: Samples, length: int) -> Samples:
    faded = np.array(samples, np.float32)
    ramp = (np.arange(length, dtype=np.float32) + 0.5) / length
    faded[:length] *= ramp
    faded[-length:] *= ramp[::-1]
    return faded
