"""Scripts become recordings: with fakes, whose code tells exactly what is said when, and a few with Kokoro."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from bystander.schemas.engines import SpeechEngine, SpeechReply, SpeechRequest
from bystander.schemas.recogniser_configs import FakeRecogniserConfig
from bystander.schemas.sid import SCRIPTED
from bystander.schemas.sid_params import SpeakConversations
from bystander.schemas.speech_engine_configs import FakeSpeechConfig, KokoroSpeechConfig
from bystander.schemas.stages import StageOutput
from bystander.schemas.tpi_params import SynthesiseSpeech
from bystander.storage.model_store import ModelStore
from bystander.tasks.audio.channels import decode_channels
from bystander.tasks.audio.coding import dequantise
from bystander.tasks.audio.speech_edges import find_sounding
from bystander.tasks.engines.fake_speech import FakeRecogniser, FakeSpeechEngine, SpeechFlaw, decode_speech
from bystander.tasks.engines.kokoro import KokoroSpeechEngine
from bystander.tasks.stages.conversation_clips import cut_clip
from bystander.tasks.stages.speak_conversations import STAGE, join_turn
from bystander.tasks.texts.turn_words import split_turn_words
from scripted_engines import make_context

ANSWER = "The nearest station is two streets away, and the first train leaves at half past five in the morning."
ANSWER_ZH = "最近的车站离这里有两条街，早上第一班车五点半出发，晚上最后一班十一点。"
QUIET = {"room_tone_dbfs": (-90.0, -90.0)}


def make_row(number: int = 0, **columns: Any) -> dict[str, Any]:
    row = {
        "recording_id": f"rec-{number}",
        "language": "en",
        "category": "middle",
        "draw": number,
        "assistant_text": ANSWER,
        "backchannel": "Mm-hmm.",
        "substance": "Find a later one.",
        "gap_s": 0.4,
    }
    return {**row, **columns}


BEGINNING = {"category": "beginning", "backchannel": "", "gap_s": None}
JOINED = {"backchannel": "Okay,", "substance": "show me another one.", "gap_s": None}
UNINTERRUPTED = {"category": "uninterrupted", "substance": "", "gap_s": None}
CASES = {"beginning": BEGINNING, "gap": {}, "joined": JOINED, "uninterrupted": UNINTERRUPTED}


def speak(
    rows: list[dict[str, Any]],
    engine: SpeechEngine | None = None,
    recogniser: Any = None,
    seed: int = 1,
    **settings: Any,
) -> StageOutput:
    engines: dict[Any, Any] = {"speech": engine or FakeSpeechEngine(FakeSpeechConfig(languages=("en", "zh")))}
    if recogniser is not None:
        engines["recogniser"] = recogniser
    return STAGE(pa.Table.from_pylist(rows, SCRIPTED), make_context(SpeakConversations(**settings), seed, **engines))


def read_channels(row: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    values, rate = decode_channels(row["audio"]["bytes"])
    assert rate == row["sampling_rate"]
    assert len(values) / rate == row["duration_s"]
    assert values.shape[1] == 2
    return dequantise(np.ascontiguousarray(values[:, 0])), dequantise(np.ascontiguousarray(values[:, 1]))


def test_each_category_has_its_truth() -> None:
    output = speak([make_row(i, **columns) for i, columns in enumerate(CASES.values())], second_backchannel_share=0)
    assert len(output.rejected) == 0
    rows = dict(zip(CASES, output.kept.to_pylist(), strict=True))
    for name, row in rows.items():
        (truth,) = row["truths"]
        words = [word["word"] for word in truth["words"]]
        script = make_row(**CASES[name])
        assert words == split_turn_words(join_turn(script))
        assert (row["synthetic"], row["transcript_source"], row["source"]) == (True, "script", "synthetic")
        assert len(set(row["speakers"])) == 2
        assert truth["category"] == script["category"]
        index = truth["break_word_index"]
        assert index == {"beginning": 0, "gap": 1, "joined": 1, "uninterrupted": None}[name]
        assert truth["break_time_s"] == (None if index is None else truth["words"][index]["start_s"])
        starts = [word["start_s"] for word in truth["words"]]
        assert starts == sorted(starts)
        assert starts[0] == truth["start_s"]
        assert starts[-1] < truth["end_s"] < row["duration_s"]


@pytest.mark.parametrize("name", CASES)
def test_channels_say_what_the_transcript_says_where_the_truth_says(name: str) -> None:
    (row,) = speak([make_row(**CASES[name])], yield_share=0, second_backchannel_share=0, **QUIET).kept.to_pylist()
    assistant, user = read_channels(row)
    texts = {utterance["channel"]: utterance["text"] for utterance in row["utterances"]}
    assert decode_speech(assistant, 16000) == texts[0] == ANSWER
    (truth,) = row["truths"]
    sounding = find_sounding(user, 16000)
    assert sounding[0, 0] == pytest.approx(truth["start_s"], abs=0.01)
    assert sounding[-1, 1] == pytest.approx(truth["end_s"], abs=0.01)
    if truth["break_time_s"] is None:
        assert decode_speech(user, 16000) == texts[1]
        return
    after = user[round((truth["break_time_s"] - 0.003) * 16000) :]
    assert decode_speech(after, 16000) == make_row(**CASES[name])["substance"]


def test_the_pause_of_the_script_lies_before_the_break() -> None:
    (row,) = speak([make_row(gap_s=0.5)], **QUIET).kept.to_pylist()
    _, user = read_channels(row)
    break_s = row["truths"][0]["break_time_s"]
    (before,) = [end for start, end in find_sounding(user, 16000) if start < break_s - 0.1]
    assert break_s - before == pytest.approx(0.5, abs=0.01)


def test_the_user_overlaps_the_assistant_and_an_interrupted_one_may_stop() -> None:
    rows = [make_row(i, **BEGINNING) for i in range(40)]
    spoken = speak(rows, yield_share=0.5).kept.to_pylist()
    stopped = 0
    for row in spoken:
        (assistant,) = [u for u in row["utterances"] if u["channel"] == 0]
        (user,) = [u for u in row["utterances"] if u["channel"] == 1]
        break_s = row["truths"][0]["break_time_s"]
        assert assistant["start_s"] + 0.5 < break_s < assistant["end_s"] - 0.2
        assert abs(user["start_s"] - break_s) <= 0.11
        assert ANSWER.startswith(assistant["text"])
        if assistant["text"] != ANSWER:
            stopped += 1
            assert 0.2 < assistant["end_s"] - break_s < 2
            heard = read_channels(row)[0][: round(assistant["end_s"] * 16000)]
            assert decode_speech(heard, 16000).startswith(assistant["text"][:20])
    assert 8 <= stopped <= 32


def test_a_listening_user_may_acknowledge_twice() -> None:
    rows = [make_row(i, **UNINTERRUPTED) for i in range(30)]
    spoken = speak(rows, second_backchannel_share=1).kept.to_pylist()
    twice = [row for row in spoken if len(row["truths"]) == 2]
    assert len(twice) >= 10
    for row in twice:
        first, second = row["truths"]
        assert second["start_s"] > first["end_s"] + 1
        assert {truth["break_time_s"] for truth in row["truths"]} == {None}
        assert [u["text"] for u in row["utterances"] if u["channel"] == 1] == ["Mm-hmm."] * 2
        assert second["end_s"] < next(u for u in row["utterances"] if u["channel"] == 0)["end_s"]
    assert all(len(row["truths"]) == 1 for row in speak(rows, second_backchannel_share=0).kept.to_pylist())


def test_silence_is_room_tone_and_levels_are_as_asked() -> None:
    settings = {"level_dbfs": (-25.0, -25.0), "room_tone_dbfs": (-60.0, -60.0)}
    (row,) = speak([make_row(**BEGINNING)], **settings).kept.to_pylist()
    for channel in read_channels(row):
        edge = channel[:3000]
        assert 20 * np.log10(np.sqrt(np.mean(edge**2))) == pytest.approx(-60, abs=2)
        (start, *_), (*_, end) = find_sounding(channel, 16000, 30).T
        said = channel[round(start * 16000) : round(end * 16000)]
        assert 20 * np.log10(np.sqrt(np.mean(said**2))) == pytest.approx(-25, abs=1)


def test_crosstalk_is_heard_only_where_it_is_asked_for() -> None:
    levels = []
    for crosstalk in (None, 20.0):
        (row,) = speak([make_row(**BEGINNING)], yield_share=0, crosstalk_db=crosstalk, **QUIET).kept.to_pylist()
        assistant, user = read_channels(row)
        alone = slice(round(1.0 * 16000), round((row["truths"][0]["start_s"] - 0.1) * 16000))
        levels.append(20 * np.log10(np.sqrt(np.mean(user[alone] ** 2)) / np.sqrt(np.mean(assistant[alone] ** 2))))
    assert levels[0] < -50
    assert levels[1] == pytest.approx(-20, abs=1)


def test_rows_depend_on_their_id_and_the_seed_alone() -> None:
    rows = [make_row(i, **columns) for i, columns in enumerate(CASES.values())]
    together = speak(rows).kept.to_pylist()
    apart = [speak([row]).kept.to_pylist()[0] for row in reversed(rows)]
    assert together == apart[::-1]
    others = speak(rows, seed=2).kept.to_pylist()
    assert all(one["audio"] != other["audio"] for one, other in zip(together, others, strict=True))


def test_mandarin_is_spoken_by_mandarin_voices() -> None:
    columns = {"language": "zh", "assistant_text": ANSWER_ZH, "backchannel": "嗯，", "substance": "周日开门吗？"}
    engine = FakeSpeechEngine(FakeSpeechConfig(languages=("en", "zh")))
    (row,) = speak([make_row(**columns, gap_s=None)], engine).kept.to_pylist()
    chinese = {voice.id for voice in engine.voices if voice.language == "zh"}
    assert set(row["speakers"]) <= chinese
    (truth,) = row["truths"]
    assert [word["word"] for word in truth["words"]] == list("嗯周日开门吗")
    assert truth["break_word_index"] == 1
    assert next(u["text"] for u in row["utterances"] if u["channel"] == 1) == "嗯，周日开门吗？"


def test_voices_to_avoid_are_not_drawn() -> None:
    rows = [make_row(i, **UNINTERRUPTED) for i in range(10)]
    voices = [f"fake_{i:02d}" for i in range(8)]
    spoken = speak(rows, FakeSpeechEngine(FakeSpeechConfig()), avoid_voices=(*voices[:5], "of another engine"))
    assert {voice for row in spoken.kept.to_pylist() for voice in row["speakers"]} == set(voices[5:])
    assert set(reasons(speak(rows, avoid_voices=tuple(voices)))) == {"no_voices_for_language"}


def test_utterances_tell_no_more_than_a_transcriber_does() -> None:
    (row,) = speak([make_row()]).kept.to_pylist()
    assert len(row["utterances"]) == 2  # one for the user's turn, whose pause is not to be seen in it
    for utterance in row["utterances"]:
        assert utterance["words"] == []
        for time in (utterance["start_s"], utterance["end_s"]):
            assert abs(time * 10 - round(time * 10)) < 1e-6


# ---- rejects ------------------------------------------------------------------------------------------------


class Untimed(FakeSpeechEngine):
    def synthesise(self, requests: Any, on_reply: Any = None) -> Any:
        return [
            SpeechReply(reply.samples, reply.sampling_rate) if isinstance(reply, SpeechReply) else reply
            for reply in super().synthesise(requests, on_reply)
        ]


def reasons(output: StageOutput) -> list[str]:
    return list(output.rejected["reject_reason"].to_pylist())


def test_rows_that_cannot_be_spoken_say_why() -> None:
    rows = [
        make_row(0, language="fr"),
        make_row(1, backchannel="", substance=""),
        make_row(2, assistant_text="..."),
        make_row(3, assistant_text="na " * 1000),
    ]
    output = speak(rows)
    assert reasons(output) == ["no_voices_for_language", "empty_script", "empty_script", "text_too_long_to_speak"]


def test_without_word_times_only_joined_turns_are_lost_and_no_assistant_stops() -> None:
    rows = [make_row(i, **columns) for i, columns in enumerate(CASES.values())]
    output = speak(rows, Untimed(FakeSpeechConfig()), yield_share=1)
    assert reasons(output) == ["no_word_times"]
    kept = {row["recording_id"]: row for row in output.kept.to_pylist()}
    assert kept["rec-1"]["truths"][0]["break_time_s"] is not None
    assert [word["start_s"] is None for word in kept["rec-1"]["truths"][0]["words"]] == [False, False, True, True, True]
    assert all(ANSWER in [u["text"] for u in row["utterances"]] for row in kept.values())


@pytest.mark.parametrize(
    ("flaw", "reason"),
    [(SpeechFlaw.SILENT, "silent"), (SpeechFlaw.CLIPPED, "clipped"), (SpeechFlaw.GIBBERISH, "misrecognised")],
)
def test_bad_clips_are_spoken_again_and_then_given_up(flaw: SpeechFlaw, reason: str) -> None:
    tries = itertools.count()

    def spoil(request: SpeechRequest) -> SpeechFlaw | None:
        return flaw if request.text == "Find a later one." and next(tries) < 2 else None

    recogniser = FakeRecogniser(FakeRecogniserConfig())
    checks = SynthesiseSpeech(max_wer=0.0, max_attempts=3)
    assert len(speak([make_row()], FakeSpeechEngine(FakeSpeechConfig(), spoil), recogniser, checks=checks).kept) == 1
    assert next(tries) == 3
    tries = itertools.count()
    output = speak(
        [make_row()],
        FakeSpeechEngine(FakeSpeechConfig(), spoil),
        recogniser,
        checks=checks.model_copy(update={"max_attempts": 2}),
    )
    assert reasons(output) == [reason]
    assert "substance, attempt 2 of 2" in output.rejected["reject_detail"][0].as_py()


def test_a_clip_whose_sound_begins_elsewhere_is_refused() -> None:
    (reply,) = FakeSpeechEngine(FakeSpeechConfig()).synthesise(
        [SpeechRequest("Hi there.", "fake_00", 1, word_times=True)]
    )
    assert isinstance(reply, SpeechReply)
    late = SpeechReply(np.concatenate([np.zeros(12000, np.float32), reply.samples]), 24000, reply.words)
    fault = cut_clip("Hi there.", late, 16000)
    assert getattr(fault, "reason", None) == "words_not_in_place"


@pytest.mark.parametrize(
    "settings",
    [
        {"onset_share": (0.5, 0.2)},
        {"onset_share": (0.0, 0.5)},
        {"level_dbfs": (-20.0, -3.0)},
        {"room_tone_dbfs": (-50, -20)},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SpeakConversations(**settings)


# ---- Kokoro -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kokoro() -> Iterator[SpeechEngine]:
    engine = KokoroSpeechEngine(KokoroSpeechConfig(languages=("en", "zh")), ModelStore().resolve)
    yield engine
    engine.close()


@pytest.mark.models
def test_breaks_of_real_voices_lie_where_sound_rises(kokoro: SpeechEngine) -> None:
    english = {"assistant_text": "Two trains leave before noon tomorrow."}
    chinese = {"language": "zh", "assistant_text": "明天中午以前有两班火车。"}
    rows = [
        make_row(0, **english, backchannel="Right,", substance="find me another.", gap_s=None),
        make_row(1, **chinese, backchannel="嗯。", substance="等一下。", gap_s=0.3),
    ]
    output = speak(rows, kokoro, yield_share=0, **QUIET)
    assert reasons(output) == []
    for row, script in zip(output.kept.to_pylist(), rows, strict=True):
        _, user = read_channels(row)
        (truth,) = row["truths"]
        rises = find_sounding(user, 16000)[:, 0]
        assert min(abs(rises - truth["break_time_s"])) < 0.05
        assert rises[0] == pytest.approx(truth["start_s"], abs=0.02)
        before = user[round((truth["break_time_s"] - 0.04) * 16000) : round((truth["break_time_s"] - 0.005) * 16000)]
        after = user[round(truth["break_time_s"] * 16000) : round((truth["break_time_s"] + 0.15) * 16000)]
        assert np.sqrt(np.mean(after**2)) > 10 * np.sqrt(np.mean(before**2))
        assert [word["word"] for word in truth["words"]] == split_turn_words(join_turn(script))
        assert all(word["start_s"] < word["end_s"] for word in truth["words"])
