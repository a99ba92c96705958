"""Transcripts written, placed and checked against the speech of the channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.engines import EngineIdentity, RecognitionReply, RecognitionRequest, RowFault
from bystander.schemas.sid import DECODED, RECORDING
from bystander.schemas.sid_params import TranscribeRecordings
from bystander.schemas.stages import StageOutput
from bystander.tasks.stages.heard_utterances import HeardUtterance, cut_utterances
from bystander.tasks.stages.transcribe_recordings import STAGE
from bystander.tasks.stages.untimed_turns import place_turns
from conversations import Piece, make_channels, make_recording, make_utterance, make_word
from scripted_engines import make_context

RATE = 8000
TALK: list[Piece] = [
    (0, 0.5, 2.5, "so how was the trip"),
    (1, 2.3, 4.0, "it was long but fine"),
    (0, 4.6, 5.2, "good"),
    (1, 6.0, 8.0, "we went by train and back"),
    (0, 8.8, 10.4, "i like trains a lot"),
]
SECONDS = 11.0


class ScriptedRecogniser:
    """Hears the texts that a test gives it, one after the other, and keeps what it is asked."""

    identity = EngineIdentity("recogniser", "scripted", "scripted", "1")

    def __init__(self, *texts: str | RecognitionReply | RowFault) -> None:
        self._texts = list(texts)
        self.requests: list[RecognitionRequest] = []

    def recognise(self, requests: Sequence[RecognitionRequest], on_reply: Any = None) -> list[Any]:
        self.requests += requests
        replies = [self._texts.pop(0) for _ in requests]
        return [RecognitionReply(one) if isinstance(one, str) else one for one in replies]

    def close(self) -> None: ...


def make_rows(utterances: Sequence[Any], values: np.ndarray | None = None, **columns: Any) -> pa.Table:
    if values is None:
        values = make_channels(TALK, SECONDS, RATE, leak=0.05)
    recording = make_recording([], SECONDS, RATE, values=values, **columns)
    row = {name: recording.get(name) for name in DECODED.names}
    row |= {"audio_files": ["x"], "audio_digests": ["d"], "utterances": list(utterances)}
    row["transcript_source"] = "ctm" if utterances else None
    return pa.Table.from_pylist([row], schema=DECODED)


def run(rows: pa.Table, recogniser: Any = None, **params: Any) -> StageOutput:
    engines = {} if recogniser is None else {"recogniser": recogniser}
    return STAGE(rows, make_context(TranscribeRecordings(**params), **engines))


def keep(rows: pa.Table, recogniser: Any = None, **params: Any) -> dict[str, Any]:
    output = run(rows, recogniser, **params)
    assert output.rejected.to_pylist() == []
    assert output.kept.schema == RECORDING
    (row,) = output.kept.to_pylist()
    assert (row["synthetic"], row["truths"]) == (False, [])
    return dict(row)


def reject(rows: pa.Table, recogniser: Any = None, **params: Any) -> tuple[str, str]:
    (row,) = run(rows, recogniser, **params).rejected.to_pylist()
    return row["reject_reason"], row["reject_detail"]


def move(seconds: float, pieces: Sequence[Piece] = TALK) -> list[dict[str, Any]]:
    return [make_utterance(c, start + seconds, end + seconds, text) for c, start, end, text in pieces]


# ---- without a transcript --------------------------------------------------------------------------------------


def test_the_recogniser_writes_what_is_missing() -> None:
    recogniser = ScriptedRecogniser(*(text for *_, text in TALK))
    row = keep(make_rows([], language="zh"), recogniser)
    assert row["transcript_source"] == "recogniser"
    assert [(one["channel"], one["text"]) for one in row["utterances"]] == [(c, text) for c, _, _, text in TALK]
    for one, (_, start, end, _) in zip(row["utterances"], TALK, strict=True):
        assert one["start_s"] == pytest.approx(start, abs=0.06)
        assert one["end_s"] == pytest.approx(end, abs=0.06)
        assert one["words"] == []
    assert {(one.language, one.sampling_rate) for one in recogniser.requests} == {("zh", RATE)}
    lengths = [len(one.samples) / RATE for one in recogniser.requests]
    assert lengths == pytest.approx([end - start + 0.3 for _, start, end, _ in TALK], abs=0.1)


def test_what_the_recogniser_makes_up_is_left_out() -> None:
    made_up = RecognitionReply("Thank you for watching.", mean_logprob=-1.4, no_speech_prob=0.9)
    row = keep(make_rows([]), ScriptedRecogniser("so", made_up, "", "[music]", "yes"))
    assert [one["text"] for one in row["utterances"]] == ["so", "yes"]
    assert reject(make_rows([]), ScriptedRecogniser(*[""] * 5))[0] == "no_speech_recognised"


def test_a_recogniser_that_fails_or_is_not_there_is_a_reject() -> None:
    fault = RowFault("unsupported_language", "hears en only")
    assert reject(make_rows([]), ScriptedRecogniser("so", fault, "a", "b", "c")) == (
        "recogniser_fault",
        "channel 1, 2.28 to 4.00 s: unsupported_language: hears en only",
    )
    reason, detail = reject(make_rows([]))
    assert reason == "no_recogniser"
    assert "it has no transcript" in detail


def test_cuts_long_speech_at_its_longest_pause() -> None:
    speech = np.ones(3000, bool)
    speech[1200:1230] = speech[1800:1820] = False
    params = TranscribeRecordings(max_utterance_s=20)
    assert cut_utterances(speech, params) == [(0, 1200), (1230, 3000)]
    assert cut_utterances(np.ones(3000, bool), params) == [(0, 1500), (1500, 3000)]


@given(st.lists(st.tuples(st.integers(1, 900), st.integers(1, 120)), max_size=12), st.floats(2, 30))
def test_utterances_cover_the_speech_once_and_keep_to_the_limit(runs: list[tuple[int, int]], limit: float) -> None:
    speech = np.concatenate([np.zeros(0, bool), *(np.repeat([True, False], run) for run in runs)])
    cut = cut_utterances(speech, TranscribeRecordings(max_utterance_s=limit, min_utterance_s=0.01))
    covered = np.zeros(len(speech), int)
    for start, end in cut:
        assert 0 < end - start <= round(limit * 100)
        covered[start:end] += 1
    assert covered.max(initial=0) <= 1
    assert covered[speech].all()
    assert cut == sorted(cut)


# ---- with a transcript -----------------------------------------------------------------------------------------


def test_keeps_a_transcript_that_fits() -> None:
    words = [make_word("so", 0.5, 0.9), make_word("how", 0.9, 2.4)]
    utterances = [make_utterance(0, 0.5, 2.5, "so how", words), *move(0)[1:]]
    row = keep(make_rows(utterances))
    assert row["utterances"] == utterances
    assert row["transcript_source"] == "ctm"
    assert row["speakers"] == ["ann", "bob"]


def test_rejects_a_transcript_whose_speakers_are_exchanged() -> None:
    exchanged = [{**one, "channel": 1 - one["channel"]} for one in move(0)]
    reason, detail = reject(make_rows(exchanged))
    assert reason == "channels_swapped"
    assert "in the order of the channels in a manifest" in detail
    row = keep(make_rows(exchanged), exchange_swapped=True)
    assert row["utterances"] == move(0)
    assert row["speakers"] == ["bob", "ann"]


@pytest.mark.parametrize("seconds", [-0.5, 0.6])
def test_says_by_how_much_a_transcript_is_shifted(seconds: float) -> None:
    reason, detail = reject(make_rows(move(seconds)), min_transcript_overlap=0.8)
    assert reason == "transcript_shifted"
    way = "taken from" if seconds > 0 else "added to"
    assert f"fit when {abs(seconds):.1f} s are {way} them" in detail


def test_rejects_the_transcript_of_another_recording() -> None:
    other = [(0, 3.0, 4.5, "x"), (1, 0.5, 2.0, "x"), (1, 4.2, 5.8, "x"), (0, 6.2, 7.8, "x"), (1, 8.5, 10.5, "x")]
    assert reject(make_rows(move(0, other)), exchange_swapped=False)[0] in {
        "transcript_disagrees",
        "channels_swapped",
    }
    everywhere = [(channel, 0.0, SECONDS, "x") for channel in (0, 1)]
    assert reject(make_rows(move(0, everywhere)))[0] == "transcript_disagrees"
    late = reject(make_rows([*move(0), make_utterance(0, 12.0, 13.0, "bye")]))
    assert late[0] == "transcript_outside_audio"
    assert "'bye' ends at 13.00 s and the audio at 11.00 s" in late[1]


def test_takes_chosen_stretches_where_contrast_is_not_asked_for() -> None:
    few = move(0, [(0, 1.2, 1.8, "how"), (1, 6.8, 7.2, "train")])
    assert reject(make_rows(few))[0] == "transcript_disagrees"
    assert keep(make_rows(few), min_transcript_contrast=-1)["utterances"] == few


# ---- with a transcript without times ---------------------------------------------------------------------------


def make_turns(*turns: tuple[int, str]) -> list[dict[str, Any]]:
    return [make_utterance(channel, None, None, text) for channel, text in turns]


def test_places_turns_by_what_is_heard() -> None:
    turns = make_turns(
        (0, "So, how was the trip? Good!"),
        (1, "It was (uh) long but fine. We went by train -- and back."),
        (0, "I like trains."),
    )
    heard = ("so how was a trip", "it was long and fine", "good", "we went by train", "i like trains a lot")
    row = keep(make_rows(turns), ScriptedRecogniser(*heard))
    assert [(one["channel"], one["text"]) for one in row["utterances"]] == [
        (0, "So, how was the trip?"),
        (1, "It was uh long but fine."),
        (0, "Good!"),
        (1, "We went by train and back."),
        (0, "I like trains."),
    ]
    assert row["utterances"][2]["start_s"] == pytest.approx(4.6, abs=0.06)
    assert row["transcript_source"] == "ctm"


def test_places_chinese_turns() -> None:
    heard = [HeardUtterance(0, 1.0, 2.0, "今天天气很好"), HeardUtterance(0, 4.0, 5.0, "我们走吧")]
    placed = place_turns(make_turns((0, "今天天气真好，我们走吧。")), heard, 0.5)
    assert placed == [
        make_utterance(0, 1.0, 2.0, "今天天气真好，"),
        make_utterance(0, 4.0, 5.0, "我们走吧。"),
    ]


def test_rejects_turns_that_are_not_heard() -> None:
    turns = make_turns((0, "nothing of this is said"), (1, "nor this"))
    assert reject(make_rows(turns), ScriptedRecogniser(*(text for *_, text in TALK)))[0] == "transcript_disagrees"
    reason, detail = reject(make_rows(turns))
    assert reason == "no_recogniser"
    assert "its transcript has no times" in detail


@given(st.lists(st.lists(st.sampled_from("so we go by train".split()), min_size=1, max_size=6), min_size=1, max_size=6))
def test_what_is_heard_word_for_word_gets_its_own_times(texts: list[list[str]]) -> None:
    heard = [HeardUtterance(at % 2, at * 2.0, at * 2.0 + 1, " ".join(words)) for at, words in enumerate(texts)]
    turns = make_turns(*((at % 2, " ".join(words)) for at, words in enumerate(texts)))
    placed = place_turns(turns, heard, 0.5)
    assert placed == [one.describe() for one in heard]
