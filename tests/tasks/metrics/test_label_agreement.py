"""Cohen's kappa of labels, with an interval over clusters."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from bystander.tasks.metrics.label_agreement import measure_association, measure_label_agreement

LABEL = st.sampled_from(["act", "confirm", "ignore"])
PAIRS = st.lists(st.tuples(LABEL, LABEL), min_size=2, max_size=40)


@settings(max_examples=50, deadline=None)
@given(pairs=PAIRS, order=st.randoms(use_true_random=False))
def test_kappa_is_that_of_scikit_learn_in_any_order(pairs: list[tuple[str, str]], order: object) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    found = measure_label_agreement(first, second, seed=1, clusters=range(len(pairs)), n_resamples=50)
    if len({*first, *second}) == 1:
        assert found.kappa is None
        assert found.reason is not None
        return
    assert found.kappa == pytest.approx(cohen_kappa_score(first, second), abs=1e-12)
    shuffled = list(range(len(pairs)))
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    again = measure_label_agreement(
        [first[i] for i in shuffled],
        [second[i] for i in shuffled],
        seed=1,
        clusters=[f"query {i}" for i in shuffled],
        n_resamples=50,
    )
    assert again == found


def test_rows_of_one_request_are_drawn_together() -> None:
    first = ["act", "ignore"] * 20
    second = [label if i < 28 else ("ignore" if label == "act" else "act") for i, label in enumerate(first)]
    alone = measure_label_agreement(first, second, seed=3, clusters=range(40))
    in_fours = measure_label_agreement(first, second, seed=3, clusters=[i // 4 for i in range(40)])
    assert alone.kappa == in_fours.kappa == pytest.approx(0.4)
    assert alone.low is not None
    assert alone.high is not None
    assert in_fours.low is not None
    assert in_fours.high is not None
    # Rows of a cluster are alike here, so there is less information than their number says.
    assert in_fours.low < alone.low < 0.4 < alone.high < in_fours.high


def test_nothing_to_compare_has_a_reason() -> None:
    assert measure_label_agreement([], [], seed=0, clusters=[]).reason == "0 rows; kappa needs at least 1"
    same = measure_label_agreement(["act"] * 3, ["act"] * 3, seed=0, clusters=range(3))
    assert (same.kappa, same.reason) == (None, "both label every row act, so agreement by chance is certain")


def test_association_does_not_look_at_names() -> None:
    assert measure_association(["act", "act", "ignore"], ["x", "x", "y"]) == pytest.approx(1.0)
    assert measure_association(["act", "act", "ignore", "ignore"], ["x", "y", "x", "y"]) == pytest.approx(0.0)
    assert measure_association(["act", "act"], ["x", "y"]) is None
