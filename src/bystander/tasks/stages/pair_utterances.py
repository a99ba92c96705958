"""Stage `pair_utterances`: an utterance and the one that comes next, of another speaker, become a pair."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import RowFault
from bystander.schemas.identity import make_id
from bystander.schemas.real_world import PAIR, UTTERANCE
from bystander.schemas.real_world_params import PairUtterances
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.texts.request_forms import asks_or_requests
from bystander.tasks.texts.transcript_sentences import ends_sentence, is_upper_case, write_sentence

NAME = "pair_utterances"
_SHORTEST_S = 0.05
"""Of speech: a shorter stretch with words is an error of the times."""
_FEW_WORDS = 3
"""Speech of fewer words may be as fast or slow as it likes."""


def pair_utterances(rows: pa.Table, context: StageContext) -> StageOutput:
    """Pair each utterance with the next one to start in its recording, if somebody else says that.

    The first one is the primary's: with it go earlier utterances of the same turn, until a sentence ends; where the
    transcript has no marks, only as many as make three words. With the second one go later ones of its turn likewise.
    A turn is what one speaker says with pauses up to `max_join_pause_s`.

    Rows are utterances. Rows of a recording must be in one table. Columns read: all of UTTERANCE. Written: those of
    PAIR; the texts are made speakable.

    Reject reasons, the first that holds:
        invalid_row: its file has a wrong or missing field there.
        vocal_sound_only: a laugh, a cough, no word.
        negative_length: it ends before it starts, or right then.
        text_without_speech: words in less than 0.05 s.
        implausible_rate: more words a second than `max_words_per_s`, or fewer than `min_words_per_s`.
        own_overlap: it overlaps an earlier one of its speaker by more than `max_own_overlap_s`.
        no_next_turn: it is the last of its recording.
        same_speaker_goes_on: the next one is the same speaker's.
        long_pause: the next begins more than `max_gap_s` after its end.
        simultaneous_start: it is alone for less than `min_alone_s`.
        primary_goes_on: its speaker begins another before the other one is done, or is still speaking more than
            `max_goes_on_s` after that: the floor was kept.
        overlap_too_long: both speak at once for more than `max_overlap_s`.
        pair_too_long: both take more than `max_pair_s`.
    """
    params = cast(PairUtterances, context.params)
    table = rows.to_pylist()
    outcomes: list[Mapping[str, Any] | RowFault] = [RowFault("invalid_row")] * len(table)
    order = sorted(range(len(table)), key=lambda i: (table[i]["corpus"], table[i]["recording"]))
    for _, group in groupby(order, key=lambda i: (table[i]["corpus"], table[i]["recording"])):
        _Recording([(i, table[i]) for i in group], params).pair(outcomes)
    return split_rows(NAME, rows, outcomes, PAIR)


@dataclass(slots=True)
class _Said:
    """A usable utterance and its neighbours in its speaker's turn."""

    at: int
    row: Mapping[str, Any]
    before: _Said | None = None
    after: _Said | None = None

    @property
    def start_s(self) -> float:
        return cast(float, self.row["start_s"])

    @property
    def end_s(self) -> float:
        return cast(float, self.row["end_s"])


@dataclass(slots=True)
class _Part:
    """Utterances of one turn that are one side of a pair."""

    said: list[_Said] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(one.row["text"] for one in self.said)

    @property
    def source_text(self) -> str:
        return " ".join(one.row["source_text"] for one in self.said)

    @property
    def words(self) -> int:
        return len(self.text.split())


class _Recording:
    def __init__(self, rows: Sequence[tuple[int, Mapping[str, Any]]], params: PairUtterances) -> None:
        self._params = params
        self._rows = rows
        self._said: list[_Said] = []
        self._speakers: list[str] = sorted({row["speaker"] for _, row in rows if row["speaker"]})

    def pair(self, outcomes: list[Mapping[str, Any] | RowFault]) -> None:
        """Set the outcome of every row."""
        self._sort_out(outcomes)
        starts = [one.start_s for one in self._said]
        longest = max((one.end_s - one.start_s for one in self._said), default=0.0)
        for place, one in enumerate(self._said):
            outcomes[one.at] = self._pair_one(place, starts, longest)

    def _sort_out(self, outcomes: list[Mapping[str, Any] | RowFault]) -> None:
        """Give faulty utterances their reason, and put the others in order of their starts."""
        usable = []
        for at, row in self._rows:
            fault = _find_fault(row, self._params)
            if fault is None:
                usable.append(_Said(at, row))
            else:
                outcomes[at] = fault
        usable.sort(key=lambda one: (one.start_s, one.end_s, one.row["speaker"], one.at))
        last: dict[str, _Said] = {}
        for one in usable:
            speaker = one.row["speaker"]
            before = last.get(speaker)
            if before is not None and before.end_s - one.start_s > self._params.max_own_overlap_s:
                outcomes[one.at] = RowFault(
                    "own_overlap", f"begins at {one.start_s:g} s, where {speaker} says another until {before.end_s:g} s"
                )
                continue
            if before is not None and one.start_s - before.end_s <= self._params.max_join_pause_s:
                before.after, one.before = one, before
            last[speaker] = one
            self._said.append(one)

    def _pair_one(self, place: int, starts: Sequence[float], longest: float) -> Mapping[str, Any] | RowFault:
        params, one = self._params, self._said[place]
        if place + 1 == len(self._said):
            return RowFault("no_next_turn")
        second = self._said[place + 1]
        gap_s = round(second.start_s - one.end_s, 6)
        if second.row["speaker"] == one.row["speaker"]:
            return RowFault("same_speaker_goes_on")
        if gap_s > params.max_gap_s:
            return RowFault("long_pause", f"{gap_s:.2f} s until the next turn")
        primary, third_party = _take_back(one), _take_on(second)
        start_s = primary.said[0].start_s
        end_s = max(third_party.said[-1].end_s, one.end_s)
        done_s = third_party.said[-1].end_s
        overlap_s = min(one.end_s, done_s) - second.start_s
        if round(second.start_s - start_s, 6) < params.min_alone_s:
            return RowFault("simultaneous_start", f"alone for {second.start_s - start_s:.2f} s")
        if one.after is not None and one.after.start_s < done_s:
            return RowFault("primary_goes_on", f"at {one.after.start_s:.2f} s")
        if one.end_s - done_s > params.max_goes_on_s:
            return RowFault("primary_goes_on", f"for {one.end_s - done_s:.2f} s after the other is done")
        if overlap_s > params.max_overlap_s:
            return RowFault("overlap_too_long", f"{overlap_s:.2f} s of both at once")
        if end_s - start_s > params.max_pair_s:
            return RowFault("pair_too_long", f"{end_s - start_s:.1f} s")
        return {
            **{name: one.row[name] for name in ("corpus", "recording", "place", "language", "licence")},
            "id": make_id(
                "real",
                one.row["corpus"],
                one.row["recording"],
                one.row["speaker"],
                second.row["speaker"],
                round(1000 * start_s),
                round(1000 * second.start_s),
            ),
            **_describe("primary", primary),
            **_describe("third_party", third_party),
            "others_s": self._measure_others(one, second, start_s, end_s, starts, longest),
            "speakers": json.dumps(self._speakers, ensure_ascii=False),
        }

    def _measure_others(
        self, one: _Said, second: _Said, start_s: float, end_s: float, starts: Sequence[float], longest: float
    ) -> float:
        """Return the seconds of speech of anybody else between two times."""
        own = {one.row["speaker"], second.row["speaker"]}
        near = self._said[bisect_right(starts, start_s - longest) : bisect_right(starts, end_s)]
        return sum(
            max(0.0, min(end_s, other.end_s) - max(start_s, other.start_s))
            for other in near
            if other.row["speaker"] not in own
        )


def _find_fault(row: Mapping[str, Any], params: PairUtterances) -> RowFault | None:
    if row["fault"] is not None:
        return RowFault("invalid_row", f"{row['place']}: {row['fault']}")
    length_s, words = row["end_s"] - row["start_s"], len(row["text"].split())
    if length_s <= 0:
        return RowFault("negative_length", f"{row['place']}: from {row['start_s']:g} s to {row['end_s']:g} s")
    if not words:
        return RowFault("vocal_sound_only", row["source_text"])
    if length_s < _SHORTEST_S:
        return RowFault("text_without_speech", f"{row['place']}: {words} words in {length_s:.3f} s")
    if words >= _FEW_WORDS and not params.min_words_per_s <= words / length_s <= params.max_words_per_s:
        return RowFault("implausible_rate", f"{row['place']}: {words / length_s:.2f} words a second")
    return None


def _take_back(last: _Said) -> _Part:
    """Return an utterance with those before it in its turn that belong to the same sentence."""
    part = _Part([last])
    while (before := part.said[0].before) is not None:
        if ends_sentence(before.row["text"]) or (_lacks_marks(last) and part.words >= _FEW_WORDS):
            break
        part.said.insert(0, before)
    return part


def _take_on(first: _Said) -> _Part:
    """Return an utterance with those after it in its turn that belong to the same sentence."""
    part = _Part([first])
    while (after := part.said[-1].after) is not None:
        # "Yes." may be all of the sentence, and not of what was said
        if part.words >= _FEW_WORDS and (ends_sentence(part.text) or _lacks_marks(first)):
            break
        part.said.append(after)
    return part


def _lacks_marks(one: _Said) -> bool:
    text = one.row["text"]
    return is_upper_case(text) or not any(mark in text for mark in ".?!")


def _describe(side: str, part: _Part) -> dict[str, Any]:
    first, last, text = part.said[0], part.said[-1], part.text
    return {
        f"{side}_speaker": first.row["speaker"],
        f"{side}_channel": first.row["channel"],
        f"{side}_start_s": first.start_s,
        f"{side}_end_s": last.end_s,
        f"{side}_source_text": part.source_text,
        f"{side}_text": write_sentence(text, asks_or_requests(text)),
    }


STAGE = Stage(
    name=NAME,
    version=1,
    reads=UTTERANCE,
    writes=PAIR,
    reasons=frozenset(
        {
            "invalid_row",
            "vocal_sound_only",
            "negative_length",
            "text_without_speech",
            "implausible_rate",
            "own_overlap",
            "no_next_turn",
            "same_speaker_goes_on",
            "long_pause",
            "overlap_too_long",
            "simultaneous_start",
            "primary_goes_on",
            "pair_too_long",
        }
    ),
    run=pair_utterances,
    params_type=PairUtterances,
)
