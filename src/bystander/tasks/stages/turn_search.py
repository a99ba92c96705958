"""Turns of a recording with one speaker a channel, and which of them begin while the other speaks.

A turn is what one speaker says with pauses up to a given length, whatever the transcript's own lines are: stretches
of speech between pauses (inter-pausal units) joined. The transcript says that and what the speaker said; the audio
says from when to when. Sounds that nobody transcribed (laughter, noise, the other speaker's voice leaking in) make no
turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bystander.schemas.sid_params import FindTurns
from bystander.tasks.audio.leakage import predict_leak
from bystander.tasks.audio.speech_activity import FRAME_S, Levels, Mask, list_runs, mark_spans
from bystander.tasks.stages.transcript_atoms import Atom

_Spans = npt.NDArray[np.int64]
"""Stretches of speech as first frames and frames after the last: shape (spans, 2)."""
_Piece = tuple[list[Atom], _Spans]

_EDGE_ABOVE_FLOOR_DB = 4.0
_EDGE_ABOVE_LEAK_DB = 6.0
_EDGE_BELOW_LOUD_DB = 32.0
"""An edge of speech is where the level comes this near the speaker's loud frames (95th percentile), above the noise and
above what leaks in of the other voice: detectors that end late, or hear the leak, move no edge."""
_REACH_FRAMES = 10
"""How far an edge of the detector's moves outwards to where the energy already shows the speech."""


@dataclass(frozen=True, slots=True)
class Hearing:
    """What can be heard in a channel, frame by frame.

    Speech as the detector and as the energy have it, levels, the noise floor, and the level of what leaks in of the
    other voice, in dBFS.
    """

    speech: Mask
    energetic: Mask
    levels: Levels
    floor: Levels
    leak: Levels


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


def subtract_leak(own: Hearing, other: Hearing, atoms: Sequence[Atom], params: FindTurns) -> Hearing:
    """Return what is heard in a channel with the level of the other voice's leak, measured between the `atoms`."""
    told = np.array([[atom.start_s, atom.end_s] for atom in atoms], np.float64).reshape(-1, 2)
    slack = np.array([-params.transcript_slack_s, params.transcript_slack_s])
    may_speak = mark_spans(told + slack, len(own.levels))
    return replace(own, leak=predict_leak(own.levels, own.floor, other.levels, other.speech, may_speak))


def build_turns(channel: int, atoms: Sequence[Atom], hearing: Hearing, params: FindTurns) -> list[Turn]:
    """Return the turns of a channel, in order, with more than `max_pause_s` between them.

    Each atom takes the detector's speech within its own times and up to `transcript_slack_s` around, but not what lies
    within its neighbours', and within its own times also what the energy shows: detectors miss a soft "mm" that opens a
    turn, and a clip must not begin after it. Edges are set by level (see `_EDGE_BELOW_LOUD_DB`). A word that cannot be
    heard so goes with the word before it in its utterance, or the one after it; an utterance of which nothing can be
    heard is left out.
    """
    frames = len(hearing.levels)
    loud = _measure_loud(atoms, hearing)
    edge = np.maximum(hearing.floor + _EDGE_ABOVE_FLOOR_DB, hearing.leak + _EDGE_ABOVE_LEAK_DB)
    audible = hearing.levels >= np.maximum(edge, loud - _EDGE_BELOW_LOUD_DB)
    speech = _widen(hearing.speech, hearing.energetic & audible)
    slack = round(params.transcript_slack_s / FRAME_S)
    spans_of: list[_Spans] = []
    for at, atom in enumerate(atoms):
        start, end = round(atom.start_s / FRAME_S), min(frames, round(atom.end_s / FRAME_S))
        before = round(atoms[at - 1].end_s / FRAME_S) if at else 0
        after = round(atoms[at + 1].start_s / FRAME_S) if at + 1 < len(atoms) else frames
        first, last = max(start - slack, min(start, before)), min(end + slack, max(end, after))
        first, last = max(0, first), min(frames, last)
        heard = speech[first:last].copy()
        heard[start - first : end - first] |= hearing.energetic[start:end]
        spans_of.append(_trim(heard, audible[first:last]) + first)
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


def _widen(speech: Mask, energetic: Mask) -> Mask:
    """Return `speech` with each run's edges moved outwards, at most `_REACH_FRAMES`, along energetic frames."""
    widened = speech.copy()
    for start, end in list_runs(speech).tolist():
        first, last = max(0, start - _REACH_FRAMES), min(len(speech), end + _REACH_FRAMES)
        before, after = np.flatnonzero(~energetic[first:start]), np.flatnonzero(~energetic[end:last])
        widened[first + int(before[-1]) + 1 if len(before) else first : start] = True
        widened[end : end + int(after[0]) if len(after) else last] = True
    return widened


def _trim(heard: Mask, audible: Mask) -> _Spans:
    """Return the runs of what is heard, from its first audible frame to its last."""
    sounding = np.flatnonzero(heard & audible)
    if not len(sounding):
        return np.empty((0, 2), np.int64)
    start, end = int(sounding[0]), int(sounding[-1]) + 1
    return list_runs(heard[start:end]) + start


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
