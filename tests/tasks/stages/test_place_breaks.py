"""Break times and categories from tags and alignments."""

from __future__ import annotations

import numpy as np
import pytest

from bystander.schemas.sid import ALIGNED, PLACED
from bystander.schemas.sid_params import PlaceBreaks
from bystander.tasks.audio.coding import encode_flac
from bystander.tasks.stages.place_breaks import STAGE
from bystander.tasks.texts.turn_words import find_turn_words, insert_break
from conversations import RATE, make_speech
from scripted_engines import make_context
from tpi_rows import make_rows

SPANS = [(0.3, 0.7), (1.1, 1.9)]
WORDS = [("yeah", 0.3, 0.7), ("but", 1.1, 1.3), ("no", 1.3, 1.9)]


def make_clip(spans=SPANS, seconds=2.2):
    samples = 0.0002 * np.random.default_rng(5).standard_normal(round(seconds * RATE))
    for start_s, end_s in spans:
        first, last = round(start_s * RATE), round(end_s * RATE)
        samples[first:last] += make_speech((last - first) / RATE)
    return {"bytes": encode_flac(samples.astype(np.float32), RATE), "path": "t.flac"}


def make_row(index, timed=WORDS, spans=SPANS, phones=True, **columns):
    text = "yeah, but no"
    row = {
        "audio": make_clip(spans),
        "duration_s": 2.2,
        "text": text,
        "text_with_break": insert_break(text, find_turn_words(text), index),
        "words": ["yeah,", "but", "no"],
        "break_word_index": index,
        "timed_words": [
            {"word": word, "start_s": start, "end_s": end, "score": 0.9, "in_vocabulary": True}
            for word, start, end in timed
        ],
        "phones": [
            {"phone": "x", "start_s": start + shift, "end_s": end, "word_index": at}
            for at, (_, start, end) in enumerate(timed)
            for shift in (0.05, 0.02)
        ]
        if phones
        else [],
        "speech": [{"start_s": start, "end_s": end} for start, end in spans],
    }
    return {**row, **columns}


def run(row, **params):
    return STAGE(make_rows(ALIGNED, [row]), make_context(PlaceBreaks(**params)))


def place(row, **params):
    output = run(row, **params)
    assert output.kept.schema == PLACED
    (kept,) = output.kept.to_pylist()
    return kept["category"], kept["total_nonbreak"], kept["break_time_s"]


def reject(row, **params):
    (rejected,) = run(row, **params).rejected.to_pylist()
    return rejected["reject_reason"]


def test_no_break_lasts_to_the_end():
    assert place(make_row(None)) == ("uninterrupted", True, 2.2)


def test_the_break_is_the_start_of_the_first_phone():
    assert place(make_row(1)) == ("middle", False, pytest.approx(1.12))
    assert place(make_row(2, phones=False)) == ("middle", False, 1.3)
    assert place(make_row(0)) == ("beginning", False, pytest.approx(0.32))


def test_a_first_word_long_after_the_first_sound_is_neither_beginning_nor_middle():
    late = [("yeah", 1.2, 1.3), ("but", 1.4, 1.5), ("no", 1.5, 1.9)]
    assert reject(make_row(0, late)) == "sound_before_break"
    assert place(make_row(0, late), beginning_within_s=1.0)[0] == "beginning"


def test_a_word_pulled_into_the_pause_before_it_is_far_from_speech():
    pulled = [WORDS[0], ("but", 0.72, 1.3), WORDS[2]]
    assert reject(make_row(1, pulled)) == "break_far_from_speech"
    assert place(make_row(1, pulled), max_distance_from_speech_s=0.5)[2] == pytest.approx(0.74)


def test_a_break_after_all_speech_is_far_from_it():
    late = [WORDS[0], WORDS[1], ("no", 1.95, 2.1)]
    assert reject(make_row(2, late)) == "break_far_from_speech"


def test_either_sight_of_the_speech_can_refuse_a_break():
    elsewhere = [{"start_s": 0.3, "end_s": 0.7}, {"start_s": 1.5, "end_s": 1.9}]
    assert reject(make_row(1, speech=elsewhere)) == "break_far_from_speech"
    assert reject(make_row(1, audio=make_clip([(0.3, 0.7), (1.5, 1.9)]))) == "break_far_from_speech"
    assert place(make_row(1, speech=[]))[2] == pytest.approx(1.12)


def test_a_clip_of_speech_from_end_to_end_is_no_trouble():
    assert place(make_row(1, spans=[(0.0, 2.2)]))[0] == "middle"


@pytest.mark.parametrize(
    ("timed", "reason"),
    [
        ([WORDS[0], ("but", -0.3, 0.2), WORDS[2]], "break_outside_clip"),
        ([WORDS[0], ("but", 2.2, 2.4), WORDS[2]], "break_outside_clip"),
        ([("yeah", 1.3, 1.4), ("but", 1.1, 1.3), WORDS[2]], "break_out_of_order"),
        ([WORDS[0], ("but", 1.3, 1.2), WORDS[2]], "break_out_of_order"),
        ([WORDS[0], ("but", None, None), WORDS[2]], "break_not_aligned"),
        (WORDS[:2], "break_not_aligned"),
    ],
)
def test_refuses_times_that_cannot_be(timed, reason):
    assert reject(make_row(1, timed, phones=False)) == reason


def test_refuses_a_tag_that_does_not_fit_its_text():
    assert reject(make_row(1, text_with_break="yeah, but <break>no")) == "tag_inconsistent"
    assert reject(make_row(None, text_with_break="yeah, <break>but no")) == "tag_inconsistent"
    assert reject(make_row(1, text_with_break="yeah <break>but no")) == "tag_inconsistent"
    assert reject(make_row(1, break_word_index=7)) == "tag_inconsistent"


def test_every_reason_is_met():
    assert len(STAGE.reasons) == 6
    assert len(STAGE(make_rows(ALIGNED, []), make_context(PlaceBreaks())).kept) == 0
