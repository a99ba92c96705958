"""Turns of two speakers whose speech is known: which are found, from when to when, and with which words."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.sid import RECORDING, TURNS_FOUND
from bystander.schemas.sid_engine_configs import SileroVadConfig
from bystander.schemas.sid_params import FindTurns
from bystander.tasks.audio.coding import quantise
from bystander.tasks.audio.resampling import resample
from bystander.tasks.audio.trimming import find_speech
from bystander.tasks.engines.registry import open_vad
from bystander.tasks.stages.find_turns import STAGE
from conversations import RATE, make_channels, make_recording, make_utterance, make_word
from scripted_engines import make_context
from tpi_rows import make_rows

TALK = (0, 1.0, 6.0, "so the train to the coast leaves at nine")
NEAR = 0.03


class ScriptedVad:
    """Hears speech where it is told to, in each of the two channels in turn."""

    identity = EngineIdentity("vad", "scripted", "scripted", "1")

    def __init__(self, *answers):
        self._answers = list(answers)

    def find_speech(self, requests):
        return [
            answer if isinstance(answer, RowFault) else np.array(answer, float).reshape(-1, 2)
            for answer in (self._answers.pop(0) for _ in requests)
        ]

    def close(self): ...


def run(row, vad=None, **params):
    engines = {} if vad is None else {"vad": vad}
    return STAGE(make_rows(RECORDING, [row]), make_context(FindTurns(**params), **engines))


def find(row, vad=None, **params):
    output = run(row, vad, **params)
    assert output.kept.schema == TURNS_FOUND
    assert not len(output.rejected), output.rejected["reject_detail"].to_pylist()
    return output.kept["turns"][0].as_py()


def reject(row, vad=None, **params):
    (rejected,) = run(row, vad, **params).rejected.to_pylist()
    return rejected["reject_reason"], rejected["reject_detail"]


def test_finds_the_turn_that_begins_while_the_other_speaks():
    (turn,) = find(make_recording([TALK, (1, 3.0, 3.6, "wait, which coast")], 8))
    assert turn["channel"] == 1
    assert turn["text"] == "wait, which coast"
    (span,) = turn["speech"]
    assert span["start_s"] == pytest.approx(3.0, abs=NEAR)
    assert span["end_s"] == pytest.approx(3.6, abs=NEAR)
    assert turn["start_s"] == pytest.approx(2.7, abs=NEAR)
    assert turn["end_s"] == pytest.approx(3.9, abs=NEAR)
    assert turn["other_text"] == TALK[3]
    assert turn["other_start_s"] == pytest.approx(1.0, abs=NEAR)
    assert turn["other_end_s"] == pytest.approx(6.0, abs=NEAR)
    assert turn["overlap_s"] == pytest.approx(0.6, abs=NEAR)


def test_looks_in_both_directions():
    pieces = [(0, 1, 4, "a long story"), (1, 3, 6, "and another"), (0, 5.5, 8, "that goes on"), (1, 10, 11, "later")]
    first, second = find(make_recording(pieces, 12))
    assert (first["channel"], first["text"], first["other_text"]) == (1, "and another", "a long story")
    assert (second["channel"], second["text"], second["other_text"]) == (0, "that goes on", "and another")
    assert second["overlap_s"] == pytest.approx(0.5, abs=NEAR)


def test_pauses_up_to_the_limit_join_and_longer_ones_part():
    pieces = [TALK, (1, 2.0, 2.4, "yeah"), (1, 2.8, 3.4, "but no"), (1, 4.2, 4.8, "it is full")]
    joined, apart = find(make_recording(pieces, 8))
    assert joined["text"] == "yeah but no"
    assert [round(span["start_s"], 1) for span in joined["speech"]] == [2.0, 2.8]
    assert apart["text"] == "it is full"
    (whole,) = find(make_recording(pieces, 8), max_pause_s=1.0)
    assert whole["text"] == "yeah but no it is full"


def test_backchannels_in_a_short_pause_of_the_other_leave_the_others_turn_whole():
    pieces = [(0, 1, 3, "so"), (0, 3.4, 6, "and then"), (1, 2.5, 3.3, "mhm right"), (1, 9, 10, "bye")]
    (turn,) = find(make_recording(pieces, 11))
    assert turn["text"] == "mhm right"
    assert turn["other_text"] == "so and then"
    assert turn["other_end_s"] == pytest.approx(6, abs=NEAR)


def test_who_goes_on_after_a_backchannel_has_not_interrupted_it():
    pieces = [(0, 1, 3, "so I went"), (1, 2.9, 3.8, "mhm"), (0, 3.6, 6, "and then")]
    (turn,) = find(make_recording(pieces, 8))
    assert turn["text"] == "mhm"
    assert [one["text"] for one in find(make_recording(pieces, 8), max_backchannel_s=0.5)] == ["mhm", "and then"]


def test_of_two_that_begin_together_neither_interrupts():
    reason, detail = reject(make_recording([(0, 1, 3, "shall we"), (1, 1.05, 3, "I think")], 5))
    assert reason == "no_overlap"
    assert "2 turns" in detail


def test_a_turn_in_a_pause_of_the_other_overlaps_nothing():
    pieces = [(0, 1, 3, "so"), (0, 4, 6, "and then"), (1, 3.2, 3.8, "yes")]
    assert reject(make_recording(pieces, 8), max_pause_s=1.2)[0] == "no_overlap"


def test_words_with_times_may_part_an_utterance_and_take_its_own_spelling_when_whole():
    words = [make_word("yeah", 2.0, 2.4), make_word("[laughter]", 2.5, 2.9), make_word("but", 4.0, 4.3)]
    words += [make_word("no", None, None), make_word("wait", 4.4, 4.9)]
    row = make_recording([TALK, (1, 2.0, 2.4, "x"), (1, 4.0, 4.9, "x")], 8)
    row["utterances"] = [make_utterance(*TALK), make_utterance(1, 2.0, 4.9, "Yeah, [laughter] but no, wait!", words)]
    first, second = find(row)
    assert (first["text"], second["text"]) == ("yeah", "but no wait")
    assert [word["word"] for word in second["words"]] == ["but", "no", "wait"]
    assert [word["start_s"] for word in second["words"]] == [4.0, None, 4.4]
    (whole,) = find(row, max_pause_s=2)
    assert whole["text"] == "Yeah, but no, wait!"


def test_chinese_is_joined_without_spaces():
    row = make_recording([TALK, (1, 2.0, 2.4, "嗯"), (1, 2.7, 3.4, "那个 不行")], 8, language="zh")
    assert find(row)[0]["text"] == "嗯那个不行"


def test_an_utterance_of_sounds_alone_is_no_turn():
    pieces = [TALK, (1, 2.0, 2.6, "[laughter]"), (1, 3.0, 3.4, "<noise>"), (1, 5, 5.5, "{um} okay (laughs)")]
    (turn,) = find(make_recording(pieces, 8))
    assert turn["text"] == "okay"


def test_speech_that_nobody_transcribed_is_no_turn():
    pieces = [TALK, (1, 2.0, 2.8, "what"), (1, 4.0, 5.0, "hm")]
    row = make_recording(pieces, 8)
    row["utterances"] = row["utterances"][:2]
    assert [turn["text"] for turn in find(row)] == ["what"]


def test_boundaries_come_from_the_audio_where_the_transcript_is_loose():
    row = make_recording([TALK, (1, 3.0, 3.6, "hold on")], 8)
    row["utterances"] = [make_utterance(0, 0.8, 6.3, TALK[3]), make_utterance(1, 2.8, 3.8, "hold on")]
    (turn,) = find(row)
    (span,) = turn["speech"]
    assert (span["start_s"], span["end_s"]) == (pytest.approx(3.0, abs=NEAR), pytest.approx(3.6, abs=NEAR))


def test_the_other_voice_leaking_in_moves_no_edge():
    pieces = [TALK, (1, 3.0, 3.6, "hold on")]
    values = make_channels(pieces, 8, leak=0.03)
    row = make_recording(pieces, 8, values=values)
    row["utterances"] = [make_utterance(0, 0.8, 6.3, TALK[3]), make_utterance(1, 2.9, 3.8, "hold on")]
    (turn,) = find(row, ScriptedVad([[1.0, 6.0]], [[1.0, 6.0]]))
    (span,) = turn["speech"]
    assert (span["start_s"], span["end_s"]) == (pytest.approx(3.0, abs=NEAR), pytest.approx(3.6, abs=NEAR))


def test_takes_the_detectors_word_before_the_energys():
    pieces = [TALK, (1, 3.0, 3.6, "hold on")]
    loose = [make_utterance(*TALK), make_utterance(1, 2.9, 3.65, "hold on")]
    values = make_channels([*pieces, (1, 3.7, 3.9, "a door slams")], 8)
    row = make_recording(pieces, 8, values=values, utterances=loose)
    (turn,) = find(row, ScriptedVad([[1.0, 6.0]], [[3.0, 3.6]]))
    assert turn["speech"][-1]["end_s"] == pytest.approx(3.6, abs=NEAR)
    (turn,) = find(row)
    assert turn["speech"][-1]["end_s"] == pytest.approx(3.9, abs=NEAR)


def test_a_soft_opening_that_the_detector_misses_belongs_to_the_turn():
    pieces = [TALK, (1, 2.6, 2.8, "mm"), (1, 3.2, 3.8, "no")]
    row = make_recording(pieces, 8, utterances=[make_utterance(*TALK), make_utterance(1, 2.5, 3.9, "mm, no")])
    (turn,) = find(row, ScriptedVad([[1.0, 6.0]], [[3.2, 3.8]]))
    assert turn["speech"][0]["start_s"] == pytest.approx(2.6, abs=NEAR)
    assert len(turn["speech"]) == 2


def test_a_turn_that_the_detector_misses_is_found_by_its_energy():
    row = make_recording([TALK, (1, 3.0, 3.3, "mm")], 8)
    (turn,) = find(row, ScriptedVad([[1.0, 6.0]], []))
    assert turn["speech"][0]["start_s"] == pytest.approx(3.0, abs=NEAR)


def test_notes_near_silence_without_speech_and_without_digital_silence():
    pieces = [TALK, (1, 3.0, 3.6, "hold on"), (1, 9, 9.5, "right")]
    values = make_channels(pieces, 14)
    values[round(11 * RATE) :] = 0
    (kept,) = run(make_recording(pieces, 14, values=values)).kept.to_pylist()
    spans = {0: [], 1: []}
    for silence in kept["silences"]:
        spans[silence["channel"]].append((round(silence["start_s"], 1), round(silence["end_s"], 1)))
    assert spans == {0: [(0.0, 0.8), (6.2, 11.0)], 1: [(0.0, 2.8), (3.8, 8.8), (9.7, 11.0)]}


def test_loud_noise_is_no_silence():
    pieces = [TALK, (1, 3.0, 3.6, "hold on")]
    (kept,) = run(make_recording(pieces, 8, values=make_channels(pieces, 8, floor=0.02))).kept.to_pylist()
    assert kept["silences"] == []
    (kept,) = run(make_recording(pieces, 8), max_silence_dbfs=-80).kept.to_pylist()
    assert kept["silences"] == []


def test_names_what_is_wrong_with_a_recording():
    overlap = [TALK, (1, 3.0, 3.6, "hold on")]
    row = make_recording(overlap, 8)
    assert reject({**row, "audio": {"bytes": b"RIFF", "path": "x"}})[0] == "unreadable_audio"
    mono = make_recording(overlap, 8, values=make_channels(overlap, 8)[:, :1])
    assert reject(mono) == ("unreadable_audio", "1 channels, where each of two speakers has one")
    untimed = {**row, "utterances": [make_utterance(0, None, None, "a"), make_utterance(1, None, None, "b")]}
    assert reject(untimed)[0] == "transcript_without_times"
    shifted = {**row, "utterances": [make_utterance(1, 6.5, 7.5, "a")]}
    assert reject(shifted)[0] == "transcript_not_heard"
    assert reject({**row, "utterances": row["utterances"][:1]})[0] == "one_speaker"
    assert reject(make_recording([TALK, (1, 7, 8, "yes")], 9))[0] == "no_overlap"
    assert reject(row, min_turn_s=2)[0] == "turns_out_of_bounds"
    assert reject(row, max_turn_s=0.5)[0] == "turns_out_of_bounds"
    assert reject(row, ScriptedVad(RowFault("non_finite_audio"), []))[0] == "vad_fault"
    assert len(STAGE.reasons) == 7


LENGTHS = st.tuples(st.floats(0.05, 1.5), st.floats(0.1, 3.0))


@settings(max_examples=40)
@given(
    first=st.lists(LENGTHS, min_size=1, max_size=6),
    second=st.lists(LENGTHS, min_size=1, max_size=6),
    pause=st.floats(0, 1.0),
    margin=st.floats(0, 1.0),
    rate=st.sampled_from([8000, 22050]),
)
def test_clips_of_a_speaker_share_nothing_and_lie_in_the_recording(first, second, pause, margin, rate):
    pieces = []
    for channel, lengths in enumerate((first, second)):
        at = 0.0
        for number, (gap, length) in enumerate(lengths):
            pieces.append((channel, at + gap, at + gap + length, f"word {number}"))
            at += gap + length
    seconds = max(piece[2] for piece in pieces) + 0.2
    row = make_recording(pieces, seconds, rate)
    output = run(row, max_pause_s=pause, margin_s=margin, min_turn_s=0.05)
    for kept in output.kept.to_pylist():
        for channel in (0, 1):
            turns = [turn for turn in kept["turns"] if turn["channel"] == channel]
            assert turns == sorted(turns, key=lambda turn: turn["start_s"])
            for one, following in pairwise(turns):
                assert one["end_s"] <= following["start_s"] + 1e-9
        for turn in kept["turns"]:
            assert 0 <= turn["start_s"] <= turn["speech"][0]["start_s"] + 1e-9
            assert turn["speech"][-1]["end_s"] <= turn["end_s"] + 1e-9 <= kept["duration_s"] + 2e-9
            assert turn["other_start_s"] < turn["speech"][0]["start_s"] < turn["other_end_s"]
            assert turn["overlap_s"] >= 0.1 - 1e-9
            assert turn["text"]
        for silence in kept["silences"]:
            assert 0 <= silence["start_s"] < silence["end_s"] <= kept["duration_s"]


def test_a_row_does_not_depend_on_its_neighbours():
    rows = [make_recording([TALK, (1, 2.0 + k / 2, 3 + k / 2, "well")], 8, recording_id=f"rec-{k}") for k in range(3)]
    whole = STAGE(make_rows(RECORDING, rows), make_context(FindTurns())).kept.to_pylist()
    assert whole == [row for one in rows for row in run(one).kept.to_pylist()]
    assert len(STAGE(make_rows(RECORDING, []), make_context(FindTurns())).kept) == 0


REAL = [parent / "shared/data/speech_transcribed" for parent in Path(__file__).resolve().parents]
REAL = next((folder for folder in REAL if folder.is_dir()), None)


@pytest.mark.skipif(REAL is None, reason="needs ../shared/data")
@pytest.mark.parametrize("leak_db", [None, 30, 20])
def test_finds_real_voices_with_silero(leak_db):
    tracks, truth = make_real_conversation(leak_db)
    row = make_recording([], 0, values=quantise(tracks.astype(np.float32)))
    off = iter(np.random.default_rng(1).uniform(-0.15, 0.15, 40))
    row["utterances"] = [
        make_utterance(channel, start + next(off), end + next(off), f"line {at}")
        for at, (channel, start, end) in enumerate(truth)
    ]
    turns = find(row, open_vad(SileroVadConfig()))
    expected = [(start, end) for channel, start, end in truth if channel == 1]
    assert [turn["channel"] for turn in turns] == [1] * len(expected)
    for turn, (start_s, end_s) in zip(turns, expected, strict=True):
        assert turn["speech"][0]["start_s"] == pytest.approx(start_s, abs=0.1)
        assert turn["speech"][-1]["end_s"] == pytest.approx(end_s, abs=0.2)
        assert turn["start_s"] <= start_s
        assert turn["end_s"] >= end_s - 0.05


def make_real_conversation(leak_db):
    """Return two channels, shape (n, 2): a reader on one, and short stretches of another over each of their lines."""

    def load(name):
        samples, rate = soundfile.read(REAL / name, dtype="float32", always_2d=True)
        speech = resample(np.ascontiguousarray(samples[:, 0]), rate, RATE)
        return 0.05 * speech / np.sqrt(np.mean(speech**2))

    talk, voice = load("lhotse/2412-153948-0000.flac"), load("lhotse/LJ002-0020.wav")
    first, last = find_speech(talk, RATE, 40)[[0, -1], [0, 1]]
    talk = talk[first:last]
    stretches = [voice[a:b] for a, b in find_speech(voice, RATE, 30) if 0.35 < (b - a) / RATE < 2]
    rounds = min(3, len(stretches))
    tracks = np.zeros((round((rounds * (len(talk) / RATE + 1.5) + 1) * RATE), 2))
    truth, at = [], RATE
    for stretch in stretches[:rounds]:
        tracks[at : at + len(talk), 0] = talk
        begin = at + round(1.5 * RATE)
        tracks[begin : begin + len(stretch), 1] = stretch
        truth += [(0, at / RATE, (at + len(talk)) / RATE), (1, begin / RATE, (begin + len(stretch)) / RATE)]
        at += len(talk) + round(1.5 * RATE)
    if leak_db is not None:
        tracks = tracks + tracks[:, ::-1] * 10 ** (-leak_db / 20)
    return tracks + 0.0005 * np.random.default_rng(0).standard_normal(tracks.shape), truth
