"""BLEU and ROUGE-L between two replies, with values worked out by hand."""

import math
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from bystander.tasks.metrics.reply_similarity import estimate_similarity, measure_similarity, split_words

LONG = " ".join(f"w{number}" for number in range(10_000))
HALF = " ".join(f"w{number}" if number < 5_000 else f"x{number}" for number in range(10_000))


@pytest.mark.parametrize(
    "reply", ["Yes.", "Okay sure", "Turn it off", "Which one do you mean?", "", "...", "  \n", "好的", "好", "é", LONG]
)
def test_identical_replies_score_the_maximum(reply):
    scores = measure_similarity(reply, reply)
    assert scores.bleu == scores.rouge_l == 1


@pytest.mark.parametrize(
    ("first", "second", "bleu", "rouge_l"),
    [
        # Precisions 2/3, 1/2, and 0 of 1 smoothed to 1/2; three words, so no order 4.
        ("the cat sat", "the cat slept", (2 / 3 * 1 / 2 * 1 / 2) ** (1 / 3), 2 / 3),
        # One way: precisions 1 and 1, brevity penalty exp(1 - 4/2). Other way: 2/4, 1/3, 0/2 and 0/1, smoothed to
        # 1/(2*2) and 1/(4*1), no penalty.
        ("a b c d", "a b", (math.exp(-1) + (1 / 2 * 1 / 3 * 1 / 4 * 1 / 4) ** (1 / 4)) / 2, 2 * 2 / 6),
        # Precisions 4/5, 3/4, 2/3, 1/2.
        ("we can do it now", "we can do it later", (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4), 4 / 5),
        # Case: 1 of 2 tokens, and 0 of 1 pairs smoothed to 1/2; ROUGE-L ignores case and punctuation.
        ("Yes.", "yes.", (1 / 2 * 1 / 2) ** (1 / 2), 1.0),
        ("yes", "no", 0.0, 0.0),
        ("", "yes", 0.0, 0.0),
        ("  ", "yes please", 0.0, 0.0),
        ("...", "", 0.0, 1.0),
    ],
)
def test_scores_match_hand_computed_values_in_either_order(first, second, bleu, rouge_l):
    for one, other in ((first, second), (second, first)):
        scores = measure_similarity(one, other)
        assert scores.bleu == pytest.approx(bleu, abs=1e-12)
        assert scores.rouge_l == pytest.approx(rouge_l, abs=1e-12)


@pytest.mark.parametrize(("second", "expected"), [("police kill the gunman", 3 / 4), ("the gunman kill police", 2 / 4)])
def test_rouge_l_gives_the_example_of_its_paper(second, expected):
    assert measure_similarity("police killed the gunman", second).rouge_l == pytest.approx(expected)


def test_splits_scripts_without_spaces_into_characters():
    scores = measure_similarity("你好世界", "你好世纪", "zh-CN")
    # Precisions 3/4, 2/3, 1/2, and 0 of 1 smoothed to 1/2.
    assert scores.bleu == pytest.approx((3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** (1 / 4))
    assert scores.rouge_l == pytest.approx(3 / 4)
    assert split_words("Café 24好的 don't_go") == ["café", "24", "好", "的", "don", "t", "go"]


def test_replies_of_ten_thousand_words_are_scored():
    scores = measure_similarity(LONG, HALF)
    # 5000 of 10000 words, and of the n-grams one less for each word more.
    precisions = [5000 / 10000, 4999 / 9999, 4998 / 9998, 4997 / 9997]
    assert scores.bleu == pytest.approx(math.prod(precisions) ** (1 / 4))
    assert scores.rouge_l == pytest.approx(1 / 2)
    assert measure_similarity(LONG, "").bleu == measure_similarity(LONG, "").rouge_l == 0


WORDS = st.lists(st.sampled_from(["Turn", "it", "off", "don't", "50%", "please.", "a_b", "?"]), max_size=12)


@given(WORDS, WORDS)
def test_rouge_l_is_that_of_rouge_score_with_its_own_tokenizer(first, second):
    one, other = " ".join([*first, "end"]), " ".join([*second, "end"])
    expected = RougeScorer(["rougeL"]).score(one, other)["rougeL"].fmeasure
    assert measure_similarity(one, other).rouge_l == pytest.approx(expected)


def test_long_replies_get_the_rouge_l_of_rouge_score():
    one = " ".join(f"w{number * number % 97}" for number in range(600))
    other = " ".join(f"w{number * 7 % 89}" for number in range(500))
    expected = RougeScorer(["rougeL"]).score(one, other)["rougeL"].fmeasure
    assert 0 < expected < 1
    assert measure_similarity(one, other).rouge_l == pytest.approx(expected, abs=1e-12)


@given(st.text(max_size=30), st.text(max_size=30))
def test_scores_stay_in_range_and_symmetric(first, second):
    scores = measure_similarity(first, second)
    assert 0 <= scores.bleu <= 1
    assert 0 <= scores.rouge_l <= 1
    back = measure_similarity(second, first)
    assert (back.bleu, back.rouge_l) == pytest.approx((scores.bleu, scores.rouge_l))


def test_scoring_opens_no_connection(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a score went to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert measure_similarity("set an alarm", "set a timer").rouge_l == pytest.approx(1 / 3)


def test_means_over_pairs():
    means = estimate_similarity([("yes", "yes"), ("yes", "no"), ("", ""), ("yes", "")], seed=3)
    assert means.bleu.mean == means.rouge_l.mean == 1 / 2
    assert means.bleu.n == 4
    assert 0 <= means.bleu.low < 1 / 2 < means.bleu.high <= 1


def test_means_without_pairs_and_over_one():
    none = estimate_similarity([], seed=3)
    assert (none.bleu.mean, none.bleu.low, none.rouge_l.high, none.rouge_l.n) == (None, None, None, 0)
    one = estimate_similarity([("a b c d", "a b")], seed=3)
    assert one.rouge_l.low == one.rouge_l.mean == one.rouge_l.high == pytest.approx(2 / 3)
