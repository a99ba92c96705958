"""Two speakers' clips on one time line: who begins when, who stops, and what is then true of the user's turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples, SpokenWord
from bystander.schemas.sid import UNINTERRUPTED
from bystander.schemas.sid_params import SpeakConversations
from bystander.tasks.audio.coding import quantise
from bystander.tasks.audio.levels import convert_from_db, measure_peak, measure_rms_dbfs
from bystander.tasks.audio.room_tone import make_room_tone
from bystander.tasks.audio.trimming import fade_edges
from bystander.tasks.stages.conversation_clips import LineClip
from bystander.tasks.texts.turn_words import find_turn_words, split_turn_words

ASSISTANT, USER = 0, 1
"""Channels."""
_PEAK = 0.89
_CUT_AFTER_S = 0.03
_CUT_FADE_S = 0.03
_LEAST_CUT_S = 0.3
"""Less than this is not worth stopping for: the assistant finishes."""
_SECOND_AFTER_S = (1.2, 2.5)
_LEAST_LEFT_S = 0.4
_TRANSCRIPT_STEP_S = 0.1
"""Times of utterances are given as a transcriber gives them: no more finely than this, and rather too long."""


@dataclass(frozen=True, slots=True)
class UserTurn:
    """The user's clips of one turn, the pause before each but the first, and the position of the word that breaks."""

    text: str
    clips: tuple[LineClip, ...]
    gap_s: float
    category: str
    break_word_index: int | None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Both channels, shape (n, 2), int16, and the `UTTERANCE` and `TRUTH` values that go with them."""

    channels: npt.NDArray[np.int16]
    utterances: list[dict[str, Any]]
    truths: list[dict[str, Any]]


@dataclass(slots=True)
class _TimeLine:
    """Clips of one channel, each with its first sample's place in the recording."""

    placed: list[tuple[int, Samples]] = field(default_factory=list)

    def place(self, samples: Samples, rate: int, mark_s: float, at_s: float) -> float:
        """Put a clip where its time `mark_s` falls on `at_s`; return its own start, which is a whole sample."""
        first = max(0, round((at_s - mark_s) * rate))
        self.placed.append((first, samples))
        return first / rate

    def render(self, length: int, gain: float) -> Samples:
        track = np.zeros(length, np.float32)
        for first, samples in self.placed:
            track[first : first + len(samples)] += samples[: length - first] * np.float32(gain)
        return track

    @property
    def end(self) -> int:
        return max((first + len(samples) for first, samples in self.placed), default=0)


def lay_out(
    assistant: LineClip,
    turn: UserTurn,
    second: LineClip | None,
    rng: np.random.Generator,
    params: SpeakConversations,
) -> Conversation:
    """Place the user's turn over the assistant's, let the assistant react, and add levels and room tone.

    Everything is drawn from `rng` in one order, whatever the clips are. `second` is a further backchannel of the user,
    said if the assistant is still talking then.
    """
    rate = params.sampling_rate
    lead_s, tail_s = rng.uniform(*params.lead_s), rng.uniform(*params.lead_s)
    share, yields = rng.uniform(*params.onset_share), rng.random() < params.yield_share
    yield_s, pause_s = rng.uniform(*params.yield_s), rng.uniform(*_SECOND_AFTER_S)
    levels = rng.uniform(*params.level_dbfs, size=2)
    tones = rng.uniform(*params.room_tone_dbfs, size=2)

    user = _TimeLine()
    onset_s = lead_s + share * (assistant.end_s - assistant.start_s)
    words, end_s = _place_turn(turn, onset_s, user, rate)
    truths = [_make_truth(turn, words, end_s)]
    utterances = [_make_utterance(USER, truths[0]["start_s"], end_s, turn.text)]

    break_s = truths[0]["break_time_s"]
    said, samples, said_end_s = assistant.text, assistant.samples, assistant.end_s
    if break_s is not None and yields:
        said, samples, said_end_s = _stop_at(assistant, break_s + yield_s - lead_s + assistant.start_s, rate)
    talk = _TimeLine()
    shift_s = talk.place(samples, rate, assistant.start_s, lead_s)
    utterances.append(_make_utterance(ASSISTANT, shift_s + assistant.start_s, shift_s + said_end_s, said))
    if second is not None and end_s + pause_s + (second.end_s - second.start_s) + _LEAST_LEFT_S < shift_s + said_end_s:
        alone = UserTurn(second.text, (second,), 0.0, UNINTERRUPTED, None)
        words, end_s = _place_turn(alone, end_s + pause_s, user, rate)
        truths.append(_make_truth(alone, words, end_s))
        utterances.append(_make_utterance(USER, truths[1]["start_s"], end_s, alone.text))

    length = max(user.end, talk.end) + round(tail_s * rate)
    tracks = [
        line.render(length, _find_gain([samples for _, samples in line.placed], float(level)))
        for line, level in zip((talk, user), levels, strict=True)
    ]
    leak = 0.0 if params.crosstalk_db is None else convert_from_db(-params.crosstalk_db)
    heard = [
        track + np.float32(leak) * other + make_room_tone(length, rate, float(tone), rng)
        for track, other, tone in zip(tracks, tracks[::-1], tones, strict=True)
    ]
    for utterance in utterances:
        utterance["end_s"] = min(utterance["end_s"], length / rate)
    utterances.sort(key=lambda utterance: (utterance["start_s"], utterance["channel"]))
    return Conversation(quantise(np.stack(heard, axis=1)), utterances, truths)


def _place_turn(turn: UserTurn, onset_s: float, line: _TimeLine, rate: int) -> tuple[list[SpokenWord], float]:
    """Place a turn's clips and return its words, in the recording, and its end."""
    words: list[SpokenWord] = []
    at_s, end_s = onset_s, onset_s
    for clip in turn.clips:
        shift_s = line.place(clip.samples, rate, clip.start_s, at_s)
        end_s = shift_s + clip.end_s
        if clip.words is not None:
            words += [SpokenWord(w.word, shift_s + w.start_s, shift_s + w.end_s) for w in clip.words]
        else:  # the start of a clip's first word is known without the engine's help
            first, *rest = split_turn_words(clip.text)
            words.append(SpokenWord(first, shift_s + clip.start_s, math.nan))
            words += [SpokenWord(name, math.nan, math.nan) for name in rest]
        at_s = end_s + turn.gap_s
    return words, end_s


def _make_truth(turn: UserTurn, words: Sequence[SpokenWord], end_s: float) -> dict[str, Any]:
    index = turn.break_word_index
    return {
        "channel": USER,
        "start_s": words[0].start_s,
        "end_s": end_s,
        "category": turn.category,
        "break_word_index": index,
        "break_time_s": None if index is None else words[index].start_s,
        "words": [
            {"word": word.word, "start_s": _or_none(word.start_s), "end_s": _or_none(word.end_s), "score": None}
            for word in words
        ],
    }


def _or_none(seconds: float) -> float | None:
    return None if math.isnan(seconds) else seconds


def _make_utterance(channel: int, start_s: float, end_s: float, text: str) -> dict[str, Any]:
    steps = (math.floor(start_s / _TRANSCRIPT_STEP_S), math.ceil(end_s / _TRANSCRIPT_STEP_S))
    return {
        "channel": channel,
        "start_s": round(max(0, steps[0]) * _TRANSCRIPT_STEP_S, 3),
        "end_s": round(steps[1] * _TRANSCRIPT_STEP_S, 3),
        "text": text,
        "words": [],
    }


def _stop_at(clip: LineClip, stop_s: float, rate: int) -> tuple[str, Samples, float]:
    """Return what is said of a clip, its samples and its end, if the speaker stops after the word said at `stop_s`."""
    places = find_turn_words(clip.text)
    if clip.words is None or len(clip.words) != len(places):
        return clip.text, clip.samples, clip.end_s
    for word, place in zip(clip.words, places, strict=True):
        if word.end_s >= stop_s:
            if clip.end_s - word.end_s < _LEAST_CUT_S:
                break
            said = clip.samples[: round((word.end_s + _CUT_AFTER_S) * rate)]
            return clip.text[: place.end], fade_edges(said, round(_CUT_FADE_S * rate)), word.end_s
    return clip.text, clip.samples, clip.end_s


def _find_gain(clips: Sequence[Samples], level_dbfs: float) -> float:
    """Return the factor that brings a speaker's clips to a level, or as near to it as their peaks allow."""
    joined = np.concatenate(clips)
    gain = convert_from_db(level_dbfs - measure_rms_dbfs(joined))
    peak = measure_peak(joined)
    return min(gain, _PEAK / peak) if peak > 0 else gain
