"""The text classifier: what it can learn, what it must not see, and when it declines."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.tasks.metrics.separability import measure_separability
from bystander.tasks.metrics.transcript_classifier import (
    FOLDS,
    MIN_ROWS_A_CLASS,
    Transcript,
    group_rows,
    normalise_key,
    score_transcripts,
)

WORDS = "lamp radio window garden kettle stairs piano harbour".split()


def make_rows(count, draw, keys=lambda i: (f"query {i}",)):
    """`count` rows of alternating class with random requests; `draw(two_speakers, rng)` gives the second text."""
    rng = random.Random(4)
    return [
        Transcript(f"r{i:03d}", " ".join(rng.choices(WORDS, k=5)), draw(i % 2 == 0, rng), i % 2 == 0, keys(i))
        for i in range(count)
    ]


def measure(rows, scores):
    return measure_separability(scores, [row.two_speakers for row in rows], seed=1).auc


def test_learns_words_that_give_the_class_away():
    rows = make_rows(60, lambda two, rng: "are you sure" if two else "and two more")
    assert measure(rows, score_transcripts(rows, seed=1).scores) == 1


def test_is_near_chance_where_the_words_say_nothing():
    rows = make_rows(300, lambda two, rng: " ".join(rng.choices(WORDS, k=4)))
    assert 0.35 < measure(rows, score_transcripts(rows, seed=1).scores) < 0.65


def test_twins_have_equal_scores():
    rows = [
        Transcript(f"{name}{i}", f"turn on lamp {i}", WORDS[i % 8], name == "pair", (i,))
        for i in range(30)
        for name in ("pair", "single")
    ]
    # Lines that only two people say, so that there is something to learn.
    rows += [Transcript(f"alone{i}", f"turn on lamp {i}", WORDS[i % 4] + " there", True, (i,)) for i in range(30, 60)]
    scores = score_transcripts(rows, seed=3).scores
    assert scores[:60:2] == scores[1:60:2]
    assert len(set(scores[:60])) > 10
    assert measure(rows[:60], scores[:60]) == 0.5
    assert measure(rows, scores) > 0.7


def test_rows_that_share_a_key_are_never_learnt_from():
    # Each request has two rows of the same class and a word of its own, which a classifier that saw one would know.
    rng = random.Random(0)
    rows = []
    for i in range(80):
        word = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=12))
        rows += [Transcript(f"{i}-{j}", f"{word} {word}", f"{word}{j}", i % 2 == 0, (i,)) for j in range(2)]
    tied = measure(rows, score_transcripts(rows, seed=1).scores)
    loose = [Transcript(row.id, row.primary, row.third_party, row.two_speakers) for row in rows]
    assert measure(loose, score_transcripts(loose, seed=1).scores) > 0.9
    assert tied < 0.65


@settings(max_examples=5, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rng):
    rows = make_rows(40, lambda two, rng: " ".join(rng.choices(WORDS[:6] if two else WORDS[2:], k=3)))
    scores = dict(zip([row.id for row in rows], score_transcripts(rows, seed=2).scores, strict=True))
    rng.shuffle(rows)
    assert score_transcripts(rows, seed=2).scores == tuple(scores[row.id] for row in rows)


def test_declines_with_too_few_rows_of_a_class():
    rows = make_rows(2 * MIN_ROWS_A_CLASS, lambda two, rng: "fine")
    assert score_transcripts(rows, seed=1).scores is not None
    found = score_transcripts(rows[:-1], seed=1)
    assert (found.scores, found.reason) == (None, "9 one-speaker rows; the classifier needs 10")
    two = [row for row in rows if row.two_speakers]
    assert score_transcripts(two, seed=1).reason == "0 one-speaker rows; the classifier needs 10"
    assert score_transcripts([], seed=1).reason == "0 two-speaker rows; the classifier needs 10"


def test_declines_when_a_class_comes_from_few_requests():
    rows = make_rows(40, lambda two, rng: "fine", keys=lambda i: (("same", i % 4) if i % 2 else i,))
    assert (
        score_transcripts(rows, seed=1).reason
        == f"the one-speaker rows come from 2 requests; the classifier needs {FOLDS}"
    )


def test_groups_follow_chains_of_keys():
    groups = group_rows([("a",), ("b",), ("a", "c"), ("c",), (), ("b", "d")])
    assert [list(np.flatnonzero(groups == group)) for group in dict.fromkeys(groups)] == [[0, 2, 3], [1, 5], [4]]
    assert list(group_rows([(), ()])) == [0, 1]


@pytest.mark.parametrize("text", ["Turn it UP, please...", "turn it up please", " turn  it-up _please_ "])
def test_keys_ignore_case_and_punctuation(text):
    assert normalise_key(text) == "turn it up please"
