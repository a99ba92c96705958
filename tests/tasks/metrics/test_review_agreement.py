from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from bystander.schemas.review import RowReview
from bystander.tasks.metrics.review_agreement import find_disagreements, measure_review_agreement

# What three annotators said of twelve rows; a dot stands for nothing.
TABLE = {"a": "aaarra.aaarr", "b": "aarrraaraar.", "c": ".aarrrar..rr"}
VERDICTS = {"a": "accept", "r": "reject"}


def make_reviews(table: dict[str, str]) -> dict[str, dict[str, RowReview]]:
    return {
        name: {
            f"row-{at:02}": RowReview.model_validate({"verdict": VERDICTS.get(letter)})
            for at, letter in enumerate(letters)
        }
        for name, letters in table.items()
    }


def compute_alpha(table: dict[str, str]) -> float:
    """Nominal alpha by its definition: over all pairs of values in a row, and over all pairs of values there are."""
    rows = ["".join(column).replace(".", "") for column in zip(*table.values(), strict=True)]
    rows = [row for row in rows if len(row) > 1]
    everything = "".join(rows)
    observed = sum(sum(a != b for a, b in itertools.permutations(row, 2)) / (len(row) - 1) for row in rows)
    expected = sum(a != b for a, b in itertools.permutations(everything, 2)) / (len(everything) - 1)
    return 1 - observed / expected


def test_figures_are_those_of_their_definitions() -> None:
    found = measure_review_agreement(make_reviews(TABLE), seed=1)
    assert found.judged == {"a": 11, "b": 11, "c": 9}
    assert found.alpha.value == pytest.approx(compute_alpha(TABLE), abs=1e-12)
    assert found.alpha.low is not None
    assert found.alpha.high is not None
    assert found.alpha.low < compute_alpha(TABLE) < found.alpha.high <= 1
    for pair in found.pairs:
        both = [
            (one, other)
            for one, other in zip(TABLE[pair.first], TABLE[pair.second], strict=True)
            if "." not in (one, other)
        ]
        first, second = zip(*both, strict=True)
        assert pair.kappa.value == pytest.approx(cohen_kappa_score(first, second))
        assert pair.raw.value == pytest.approx(sum(a == b for a, b in both) / len(both))
        assert pair.kappa.n == len(both)
    assert [(pair.first, pair.second) for pair in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert find_disagreements(make_reviews(TABLE)) == found.disagreements
    expected = [at for at, column in enumerate(zip(*TABLE.values(), strict=True)) if len({*column} - {"."}) > 1]
    assert [int(row[4:]) for row in found.disagreements] == expected


@settings(max_examples=20)
@given(st.lists(st.text("ar.", min_size=3, max_size=3), min_size=2, max_size=12), st.integers(0, 9))
def test_neither_names_nor_order_change_alpha_or_its_interval(columns: list[str], shuffle: int) -> None:
    table = dict(zip("abc", map("".join, zip(*columns, strict=True)), strict=True))
    found = measure_review_agreement(make_reviews(table), seed=3, n_resamples=50)
    random.Random(shuffle).shuffle(columns)
    moved = dict(zip("zyx", map("".join, zip(*columns, strict=True)), strict=True))
    again = measure_review_agreement(make_reviews(moved), seed=3, n_resamples=50)
    assert found.alpha == again.alpha
    assert found.raw == again.raw
    if found.alpha.value is not None:
        assert found.alpha.value == pytest.approx(compute_alpha(table), abs=1e-9)


def test_reasons_count_as_labels_of_their_own() -> None:
    def say(*reasons: str | None) -> dict[str, RowReview]:
        made: dict[str, Any] = {
            f"row-{at}": {"verdict": "reject" if reason else "accept", "reason": reason}
            for at, reason in enumerate(reasons)
        }
        return {row: RowReview.model_validate(review) for row, review in made.items()}

    reviews = {
        "a": say("bad_audio", "bad_audio", None, "other", "other"),
        "b": say("bad_audio", "wrong_text", None, None),
    }
    found = measure_review_agreement(reviews, seed=0)
    assert found.raw.value == pytest.approx(0.75)
    assert found.alpha_with_reasons.value is not None
    assert found.alpha.value is not None
    assert found.alpha_with_reasons.value < found.alpha.value
    counts = {one.reason: (one.rows, one.judged_by_several, one.unanimous) for one in found.reasons}
    assert counts == {"bad_audio": (2, 2, 1), "other": (2, 1, 0), "wrong_text": (1, 1, 0)}
    assert found.disagreements == ("row-3",)


def test_what_is_undefined_says_why() -> None:
    nobody = measure_review_agreement({}, seed=0)
    assert (nobody.alpha.value, nobody.alpha.reason) == (None, "no row was judged by two annotators")
    apart = measure_review_agreement(make_reviews({"a": "ar..", "b": "..ar"}), seed=0)
    assert apart.pairs[0].kappa.reason == "they judged no row in common"
    same = measure_review_agreement(make_reviews({"a": "aaa", "b": "aaa"}), seed=0)
    assert (same.raw.value, same.alpha.value) == (1.0, None)
    assert same.alpha.reason is not None
