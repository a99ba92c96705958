from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.engines import RecognitionReply
from bystander.schemas.recogniser_configs import HallucinationGuards
from bystander.tasks.engines.hallucination_guards import (
    HeardClip,
    count_words,
    find_hallucination,
    guard_reply,
    measure_compression,
)

LOUD, FAINT = HeardClip(2.0, -15.0), HeardClip(2.0, -45.0)
GUARDS = HallucinationGuards()


def find(text: str, clip: HeardClip = LOUD, logprob: float = -0.2, doubt: float = 0.05) -> str | None:
    return find_hallucination(RecognitionReply(text, logprob, doubt), clip, GUARDS)


@pytest.mark.parametrize(
    "text",
    ["Thank you.", "Thanks for watching!", "Thank you for watching.", "you", "Bye-bye.", "谢谢观看。", "请 订阅"],
)
def test_a_phantom_phrase_is_one_only_where_there_is_hardly_any_speech(text: str) -> None:
    assert find(text) is None
    assert find(text, FAINT) == "phantom_phrase"
    assert find(text, doubt=0.4) == "phantom_phrase"


@pytest.mark.parametrize("text", ["Thank you for watching the kids.", "Can you?", "Lights off.", "谢谢你的帮助"])
def test_what_merely_holds_such_a_phrase_is_speech(text: str) -> None:
    assert find(text, FAINT, doubt=0.5) is None


def test_no_speech_takes_both_doubts() -> None:
    assert find("Turn it off.", logprob=-1.2, doubt=0.7) == "no_speech"
    assert find("Turn it off.", logprob=-0.9, doubt=0.7) is None
    assert find("Turn it off.", logprob=-1.2, doubt=0.5) is None


def test_loops_and_texts_that_cannot_have_been_said_are_found() -> None:
    clip = HeardClip(20.0, -15.0)
    assert find("and then we go to " * 12, clip) == "repetition"
    assert find("No, no, no, no, no, no.") is None
    assert find("对对对对对对") is None
    words = "set a timer for ten minutes and call my sister about the two tickets that we bought for her"
    assert find(words, HeardClip(2.5, -15.0)) is None
    assert find(words, HeardClip(1.0, -15.0)) == "too_many_words"
    assert find("请帮我把客厅的灯打开然后把空调调到二十六度", HeardClip(3.0, -15.0)) is None
    assert find("请帮我把客厅的灯打开然后把空调调到二十六度", HeardClip(0.5, -15.0)) == "too_many_words"


def test_each_rule_can_be_turned_off() -> None:
    off = HallucinationGuards(no_speech_prob=None, compression_ratio=None, words_per_s=None, phantom_phrases=False)
    for text in ("Thank you.", "and then we go to " * 30):
        assert find_hallucination(RecognitionReply(text, -3.0, 0.99), FAINT, off) is None


def test_what_is_withheld_is_kept_beside() -> None:
    reply = RecognitionReply("Thank you.", -0.4, 0.5, temperature=0.2)
    guarded = guard_reply(reply, LOUD, GUARDS)
    assert guarded == RecognitionReply("", -0.4, 0.5, 0.2, withheld="Thank you.", withheld_as="phantom_phrase")
    assert guard_reply(reply, LOUD, None) is reply
    assert guard_reply(guarded, LOUD, GUARDS) is guarded  # nothing is left to withhold


def test_repetition_of_a_long_clip_is_that_of_its_windows() -> None:
    long = RecognitionReply("turn it on please and leave it " * 12, -0.2, 0.05)
    clip = HeardClip(60.0, -15.0)
    assert find_hallucination(long, clip, GUARDS) == "repetition"
    assert find_hallucination(long, clip, GUARDS, repetition=1.4) is None


@given(text=st.text(max_size=80), doubt=st.floats(0, 1), logprob=st.floats(-5, 0), level=st.floats(-90, 0))
def test_any_text_is_judged_and_nothing_is_lost(text: str, doubt: float, logprob: float, level: float) -> None:
    reply = RecognitionReply(text, logprob, doubt)
    guarded = guard_reply(reply, HeardClip(1.0, level), GUARDS)
    assert (guarded.text or guarded.withheld or "") == text
    assert (guarded.withheld is None) == (guarded.withheld_as is None)
    assert (guarded.mean_logprob, guarded.no_speech_prob) == (logprob, doubt)
    assert count_words(text) >= 0
    assert measure_compression(text) >= 0
