"""Turns of a recording with one speaker a channel, and which of them begin while the other speaks.

A turn is what one speaker says with pauses up to a given length, whatever the transcript's own lines are: stretches
of speech between pauses (inter-pausal units) joined. The transcript says that and what the speaker said; the audio
says from when to when. Sounds that nobody transcribed (laughter, noise, the other speaker's voice leaking in) make no
turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bystander.schemas.sid_params import FindTurns
from bystander.tasks.audio.speech_activity import FRAME_S, Levels, Mask, list_runs
from bystander.tasks.stages.transcript_atoms import Atom

_Spans = npt.NDArray[np.int64]
"""Stretches of speech as first frames and frames after the last: shape (spans, 2)."""
_Piece = tuple[list[Atom], _Spans]

_EDGE_ABOVE_FLOOR_DB = 6.0
_EDGE_BELOW_LOUD_DB = 25.0
"""An edge of speech is where the level comes this near the speaker's loud frames (95th percentile) and above the noise.
A voice leaking from the other channel is 25 dB and more below them (telephone hybrids, headsets) and moves no edge, and
detectors that end late are corrected: measured on Silero, whose ends lie 120 ms late at 15 dB above noise."""


@dataclass(frozen=True, slots=True)
class Hearing:
    """What can be heard in a channel, frame by frame: speech, as the detector and as the energy have it, and levels."""

    speech: Mask
    energetic: Mask
    levels: Levels
    floor: Levels


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker says without a long pause. Frames: its first, and the one after its last."""

    channel: int
    start: int
    end: int
    atoms: tuple[Atom, ...]
    speech: _Spans

    @property
    def duration_s(self) -> float:
        return (self.end - self.start) * FRAME_S


@dataclass(frozen=True, slots=True)
class OverlappingTurn:
    """A turn that begins while the other speaker has theirs, and for how many frames both speak."""

    turn: Turn
    other: Turn
    overlap: int


def build_turns(channel: int, atoms: Sequence[Atom], hearing: Hearing, params: FindTurns) -> list[Turn]:
    """Return the turns of a channel, in order, with more than `max_pause_s` between them.

    Each atom takes the detector's speech within its own times and up to `transcript_slack_s` around, but not what is
    nearer to its neighbours; its edges are set by level (see `_EDGE_BELOW_LOUD_DB`). Where the detector hears nothing,
    the energy within its own times is taken. A word that cannot be heard so goes with the word before it in its
    utterance, or the one after it; an utterance of which nothing can be heard is left out.
    """
    frames = len(hearing.levels)
    loud = _measure_loud(atoms, hearing)
    edge = np.maximum(hearing.floor + _EDGE_ABOVE_FLOOR_DB, loud - _EDGE_BELOW_LOUD_DB)
    audible = hearing.levels >= edge
    slack = round(params.transcript_slack_s / FRAME_S)
    spans_of: list[_Spans] = []
    for at, atom in enumerate(atoms):
        start, end = round(atom.start_s / FRAME_S), min(frames, round(atom.end_s / FRAME_S))
        before = round(atoms[at - 1].end_s / FRAME_S) if at else 0
        after = round(atoms[at + 1].start_s / FRAME_S) if at + 1 < len(atoms) else frames
        first, last = max(start - slack, min(start, before)), min(end + slack, max(end, after))
        spans = _trim(hearing.speech, audible, max(0, first), min(frames, last))
        if not len(spans):
            spans = _trim(hearing.energetic, audible, start, end)
        spans_of.append(spans)
    return _join(channel, _attach_unheard(atoms, spans_of), round(params.max_pause_s / FRAME_S))


def find_overlapping(turns: Sequence[Sequence[Turn]], params: FindTurns) -> list[OverlappingTurn]:
    """Return the turns of either speaker that begin during one of the other's, ordered by their start.

    The other must have begun `min_lead_s` earlier, so of two that begin together neither interrupts. Both must speak
    for `min_overlap_s` in all: a turn that only fills a pause of the other's overlaps nothing. A speaker who goes on
    after the other's backchannel (a turn of up to `max_backchannel_s` that began inside this speaker's last turn) has
    not interrupted it.
    """
    lead, least = round(params.min_lead_s / FRAME_S), round(params.min_overlap_s / FRAME_S)
    found: list[OverlappingTurn] = []
    for channel, own in enumerate(turns):
        for other_channel, others in enumerate(turns):
            if other_channel == channel:
                continue
            starts = np.array([other.start for other in others])
            for at, turn in enumerate(own):
                index = int(np.searchsorted(starts, turn.start - lead, side="right")) - 1
                if index < 0 or others[index].end <= turn.start:
                    continue
                other = others[index]
                previous = own[at - 1] if at else None
                if (
                    previous is not None
                    and previous.start <= other.start < previous.end
                    and other.duration_s <= params.max_backchannel_s
                ):
                    continue
                overlap = _count_common(turn.speech, other.speech)
                if overlap >= least:
                    found.append(OverlappingTurn(turn, other, overlap))
    return sorted(found, key=lambda one: (one.turn.start, one.turn.channel))


def place_margins(turn: Turn, own: Sequence[Turn], params: FindTurns, duration_s: float) -> tuple[float, float]:
    """Return where the clip of a turn begins and ends, in seconds: the turn and a margin on either side.

    Margins stop half-way to the speaker's turns before and after, so that no two clips of a speaker share a sample,
    and at the ends of the recording.
    """
    start_s, end_s = turn.start * FRAME_S, min(duration_s, turn.end * FRAME_S)
    low, high = 0.0, duration_s
    for neighbour in own:
        if neighbour.end <= turn.start:
            low = max(low, (neighbour.end + turn.start) / 2 * FRAME_S)
        elif neighbour.start >= turn.end:
            high = min(high, (neighbour.start + turn.end) / 2 * FRAME_S)
    return max(low, start_s - params.margin_s), min(high, end_s + params.margin_s)


def _measure_loud(atoms: Sequence[Atom], hearing: Hearing) -> float:
    said = np.zeros(len(hearing.levels), bool)
    for atom in atoms:
        said[round(atom.start_s / FRAME_S) : round(atom.end_s / FRAME_S)] = True
    levels = hearing.levels[said & (hearing.speech | hearing.energetic)]
    return float(np.quantile(levels, 0.95)) if len(levels) else 0.0


def _trim(speech: Mask, audible: Mask, first: int, last: int) -> _Spans:
    """Return the runs of speech in a window, from its first audible frame to its last."""
    sounding = np.flatnonzero(speech[first:last] & audible[first:last])
    if not len(sounding):
        return np.empty((0, 2), np.int64)
    start, end = first + int(sounding[0]), first + int(sounding[-1]) + 1
    return list_runs(speech[start:end]) + start


def _attach_unheard(atoms: Sequence[Atom], spans_of: Sequence[_Spans]) -> list[_Piece]:
    """Return the heard atoms with their speech, each with the unheard words of its utterance that go with it."""
    members: dict[int, list[tuple[Atom, _Spans]]] = {}
    for atom, spans in zip(atoms, spans_of, strict=True):
        members.setdefault(atom.utterance, []).append((atom, spans))
    pieces: list[_Piece] = []
    for group in members.values():
        group.sort(key=lambda one: one[0].part)
        lead: list[Atom] = []
        own: list[_Piece] = []
        for atom, spans in group:
            if len(spans):
                own.append(([*lead, atom], spans))
                lead = []
            elif own:
                own[-1][0].append(atom)
            else:
                lead.append(atom)
        pieces += own
    return pieces


def _join(channel: int, pieces: Sequence[_Piece], pause: int) -> list[Turn]:
    turns: list[Turn] = []
    group: list[_Piece] = []
    end = 0
    for atoms, spans in sorted(pieces, key=lambda piece: (int(piece[1][0, 0]), piece[0][0].start_s)):
        if group and int(spans[0, 0]) - end > pause:
            turns.append(_make_turn(channel, group))
            group = []
        end = max(end, int(spans[-1, 1])) if group else int(spans[-1, 1])
        group.append((atoms, spans))
    return [*turns, _make_turn(channel, group)] if group else turns


def _make_turn(channel: int, group: Sequence[_Piece]) -> Turn:
    spans = np.concatenate([spans for _, spans in group])
    start, end = int(spans[:, 0].min()), int(spans[:, 1].max())
    mask = np.zeros(end - start, bool)
    for first, last in spans.tolist():
        mask[first - start : last - start] = True
    return Turn(channel, start, end, tuple(atom for atoms, _ in group for atom in atoms), list_runs(mask) + start)


def _count_common(first: _Spans, second: _Spans) -> int:
    return sum(
        max(0, min(first_end, second_end) - max(first_start, second_start))
        for first_start, first_end in first.tolist()
        for second_start, second_end in second.tolist()
    )
