"""Turns cut from recordings: samples, times, and what is true of synthetic ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.errors import InputError
from bystander.schemas.sid import RECORDING, TURN, TURNS_FOUND
from bystander.schemas.sid_params import CutTurns, FindTurns
from bystander.tasks.audio.channels import decode_channels
from bystander.tasks.audio.coding import decode_audio, quantise
from bystander.tasks.stages.cut_turns import cut_turns, iterate_turns
from bystander.tasks.stages.find_turns import STAGE
from conversations import make_recording, make_utterance, make_word
from scripted_engines import make_context
from tpi_rows import make_rows

TALK = (0, 1.0, 6.0, "so the train to the coast leaves at nine")
KEEP_RATE = CutTurns(sampling_rate=None)


def find(*rows, **params):
    output = STAGE(make_rows(RECORDING, rows), make_context(FindTurns(**params)))
    assert not len(output.rejected)
    return output.kept


def cut(row, params=KEEP_RATE, **find_params):
    table = cut_turns(find(row, **find_params), params)
    assert table.schema == TURN
    return table.to_pylist()


def make_turn(start_s, end_s, channel=1, text="x", **fields):
    turn = {"channel": channel, "start_s": start_s, "end_s": end_s, "text": text, "words": [], "speech": []}
    return {**turn, "other_text": "y", "other_start_s": 0.0, "other_end_s": 1.0, "overlap_s": 0.5, **fields}


def test_a_turn_carries_its_channel_its_times_and_its_context():
    words = [make_word("hold", 3.0, 3.2), make_word("on", None, None)]
    row = make_recording([TALK, (1, 3.0, 3.6, "hold on")], 8)
    row["utterances"][1]["words"] = words
    (turn,) = cut(row)
    values, rate = decode_channels(row["audio"]["bytes"])
    start = round(turn["turn_start_s"] * rate)
    samples, clip_rate = decode_audio(turn["audio"]["bytes"])
    assert (clip_rate, turn["sampling_rate"], turn["duration_s"]) == (rate, rate, len(samples) / rate)
    assert np.array_equal(quantise(samples), values[start : start + len(samples), 1])
    assert turn["turn_start_s"] == pytest.approx(2.7, abs=0.03)
    assert turn["speech"][0]["start_s"] == pytest.approx(0.3, abs=0.03)
    assert [word["start_s"] for word in turn["transcript_words"]] == [pytest.approx(0.3, abs=0.03), None]
    assert turn["context_start_s"] == pytest.approx(1.0 - turn["turn_start_s"], abs=0.03)
    assert turn["context_end_s"] == pytest.approx(6.0 - turn["turn_start_s"], abs=0.03)
    assert (turn["text"], turn["context_text"]) == ("hold on", TALK[3])
    assert (turn["speaker"], turn["channel"], turn["recording_id"]) == ("bob", 1, "rec-1")
    assert turn["audio"]["path"] == f"{turn['id']}.flac"
    assert (turn["true_category"], turn["true_break_word_index"], turn["true_break_time_s"]) == (None, None, None)


def test_resamples_where_a_rate_is_asked_for():
    row = make_recording([TALK, (1, 3.0, 3.6, "hold on")], 8, 8000)
    (turn,) = cut(row, CutTurns(sampling_rate=16000))
    samples, rate = decode_audio(turn["audio"]["bytes"])
    assert (rate, turn["sampling_rate"]) == (16000, 16000)
    assert turn["duration_s"] == len(samples) / 16000 == pytest.approx(1.2, abs=0.05)


def test_ids_are_stable_and_tell_turns_apart():
    pieces = [TALK, (1, 2.0, 2.6, "well"), (1, 4.0, 4.6, "no")]
    first = [turn["id"] for turn in cut(make_recording(pieces, 8))]
    assert first == [turn["id"] for turn in cut(make_recording(pieces, 8), CutTurns(sampling_rate=16000))]
    assert len({*first, *(turn["id"] for turn in cut(make_recording(pieces, 8, recording_id="rec-2")))}) == 4


@settings(max_examples=30)
@given(
    spans=st.lists(st.tuples(st.floats(0, 2), st.floats(0.01, 1)), min_size=1, max_size=4),
    rate=st.sampled_from([8000, 11025, 44100]),
    batch=st.integers(1, 3),
)
def test_cut_audio_is_the_channels_own(spans, rate, batch):
    row = make_recording([(0, 0.5, 2.5, "a"), (1, 0.2, 1.5, "b")], 3, rate)
    turns = [make_turn(start, start + length, channel=at % 2) for at, (start, length) in enumerate(spans)]
    table = make_rows(TURNS_FOUND, [{**row, "turns": turns, "silences": []}])
    values, _ = decode_channels(row["audio"]["bytes"])
    batches = list(iterate_turns(table, KEEP_RATE, batch))
    assert all(len(one) <= batch for one in batches)
    rows = [turn for one in batches for turn in one.to_pylist()]
    assert len(rows) == len(turns)
    for turn, (start_s, length_s) in zip(rows, spans, strict=True):
        samples = quantise(decode_audio(turn["audio"]["bytes"])[0])
        start, end = round(start_s * rate), round((start_s + length_s) * rate)
        assert np.array_equal(samples, values[start:end, turn["channel"]])


def make_truth(words, break_at, **fields):
    times = [word for word in words if word["start_s"] is not None]
    truth = {
        "channel": 1,
        "start_s": times[0]["start_s"],
        "end_s": times[-1]["end_s"],
        "category": "uninterrupted" if break_at is None else "middle" if break_at else "beginning",
        "break_word_index": break_at,
        "break_time_s": None if break_at is None else words[break_at]["start_s"],
        "words": words,
    }
    return {**truth, **fields}


SCRIPT = [make_word("Yeah,", 2.0, 2.4), make_word("no", 2.9, 3.1), make_word("stop.", 3.1, 3.6)]


def tell_truth(text, script=SCRIPT, break_at=1, pieces=((1, 2.0, 2.4), (1, 2.9, 3.6)), **find_params):
    row = make_recording([TALK, *[(*piece, "x") for piece in pieces]], 8, synthetic=True)
    row["utterances"] = [make_utterance(*TALK), make_utterance(1, pieces[0][1], pieces[-1][2], text)]
    row["truths"] = [make_truth(SCRIPT, None, channel=0), make_truth(script, break_at)]
    return [
        (
            turn["true_category"],
            turn["true_break_word_index"],
            turn["true_break_time_s"] and round(turn["true_break_time_s"] + turn["turn_start_s"], 3),
        )
        for turn in cut(row, **find_params)
    ]


def test_the_truth_of_a_scripted_turn_goes_with_it():
    assert tell_truth("Yeah, no stop.") == [("middle", 1, 2.9)]
    assert tell_truth("Yeah, no stop.", break_at=0) == [("beginning", 0, 2.0)]
    assert tell_truth("Yeah, no stop.", break_at=None) == [("uninterrupted", None, None)]


def test_the_true_word_is_found_among_words_that_are_heard_otherwise():
    assert tell_truth("Oh yeah, no stop.") == [("middle", 2, 2.9)]
    assert tell_truth("Yeah, know stop.") == [("middle", None, 2.9)]
    chinese = [make_word("嗯", 2.0, 2.4), make_word("不行", 2.9, 3.6)]
    assert tell_truth("嗯，不行。", chinese) == [("middle", 1, 2.9)]


def test_a_script_found_as_two_turns_has_a_truth_for_each():
    row = make_recording([TALK, (1, 2.0, 2.4, "Yeah,"), (1, 3.4, 4.1, "no stop.")], 8, synthetic=True)
    script = [make_word("Yeah,", 2.0, 2.4), make_word("no", 3.4, 3.7), make_word("stop.", 3.7, 4.1)]
    row["truths"] = [make_truth(script, 1)]
    backchannel, clause = cut(row)
    assert (backchannel["true_category"], backchannel["true_break_word_index"]) == ("uninterrupted", None)
    assert (clause["true_category"], clause["true_break_word_index"]) == ("beginning", 0)
    assert clause["true_break_time_s"] + clause["turn_start_s"] == pytest.approx(3.4)


def test_real_recordings_have_no_truth_and_unscripted_turns_neither():
    row = make_recording([TALK, (1, 3.0, 3.6, "hold on")], 8, truths=[make_truth(SCRIPT, 1)])
    assert cut(row)[0]["true_category"] is None
    assert cut({**row, "synthetic": True, "truths": [make_truth(SCRIPT, 1, channel=0)]})[0]["true_category"] is None


def test_names_audio_that_cannot_be_read_and_rows_of_another_kind():
    table = find(make_recording([TALK, (1, 3.0, 3.6, "hold on")], 8))
    broken = make_rows(TURNS_FOUND, [{**table.to_pylist()[0], "audio": {"bytes": b"RIFF", "path": "x"}}])
    with pytest.raises(InputError, match="cannot be decoded"):
        cut_turns(broken, KEEP_RATE)
    with pytest.raises(ValueError, match="cut_turns: reads"):
        cut_turns(table.drop_columns(["turns"]), KEEP_RATE)
    assert len(cut_turns(table.slice(0, 0), KEEP_RATE)) == 0
