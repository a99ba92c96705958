from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.errors import StageContractError
from bystander.schemas.tpi_params import TpiTargets
from bystander.tasks.stages.select_quotas import Missing, Shortfall, find_missing, select_quotas

TIMINGS = ("after_completion", "within_sentence")


def make_pairs(cells):
    rows = [
        {"id": f"row-{i}", "scenario": scenario, "label": label, "timing": timing}
        for i, (scenario, label, timing) in enumerate(cells)
    ]
    names = ("id", "scenario", "label", "timing")
    return pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in names})


def make_negatives(twins):
    return pa.table(
        {
            "id": pa.array([f"neg-{i}" for i, _ in enumerate(twins)], pa.string()),
            "twin_id": pa.array(twins, pa.string()),
        }
    )


def make_grid(scenarios, labels, copies):
    return [(s, label, t) for _ in range(copies) for s in scenarios for label in labels for t in TIMINGS]


def count(selection, pairs, *names):
    chosen = set(selection.pairs)
    counts = {}
    for row in pairs.to_pylist():
        if row["id"] in chosen:
            key = tuple(row[name] for name in names)
            counts[key] = counts.get(key, 0) + 1
    return counts


def test_targets_hold_exactly():
    scenarios = ["a", "b", "c"]
    pairs = make_pairs(make_grid(scenarios, ["yes", "no"], 6))
    negatives = make_negatives([f"row-{i}" for i in range(0, 72, 5)])
    targets = TpiTargets(labels={"yes": 10, "no": 15}, hard_negatives=6)
    selection = select_quotas(pairs, negatives, targets, scenarios, 3)
    assert selection.shortfalls == ()
    assert find_missing(selection).nothing
    assert count(selection, pairs, "label") == {("yes",): 10, ("no",): 15}
    assert sorted(count(selection, pairs, "scenario").values()) == [8, 8, 9]
    assert sorted(count(selection, pairs, "timing").values()) == [12, 13]
    by_both = count(selection, pairs, "scenario", "timing")
    assert all(abs(by_both[s, TIMINGS[0]] - by_both[s, TIMINGS[1]]) <= 1 for s in scenarios)
    assert len(selection.hard_negatives) == 6
    assert set(selection.twins.values()) <= set(selection.pairs)
    assert selection.ids == selection.pairs + selection.hard_negatives
    assert len(set(selection.ids)) == 31


def test_a_short_label_is_not_filled_up_with_another():
    pairs = make_pairs(make_grid(["a", "b"], ["no"], 10) + [("a", "yes", TIMINGS[0])] * 2)
    targets = TpiTargets(labels={"yes": 4, "no": 4}, hard_negatives=1)
    selection = select_quotas(pairs, make_negatives([]), targets, ["a", "b"], 0)
    assert count(selection, pairs, "label") == {("yes",): 2, ("no",): 4}
    assert count(selection, pairs, "scenario") == {("a",): 3, ("b",): 3}
    assert selection.shortfalls == (
        Shortfall("label", "yes", 4, 2),
        Shortfall("scenario", "a", 4, 3),
        Shortfall("scenario", "b", 4, 3),
        Shortfall("hard_negative", "hard_negative", 1, 0),
    )
    assert [shortfall.sentence for shortfall in selection.shortfalls][::3] == [
        "label 'yes': 2 of 4 rows, 2 short.",
        "hard negatives: 0 of 1 rows, 1 short.",
    ]
    assert find_missing(selection) == Missing({"a": 1, "b": 1}, {"yes": 2}, 1)


def test_the_label_mix_of_one_scenario_makes_room_for_another():
    # Scenario a has only "no", so b must give all of "yes" though it has plenty of both.
    pairs = make_pairs([("a", "no", TIMINGS[i % 2]) for i in range(4)] + make_grid(["b"], ["yes", "no"], 4))
    selection = select_quotas(
        pairs, make_negatives([]), TpiTargets(labels={"yes": 4, "no": 4}, hard_negatives=0), ["a", "b"], 0
    )
    assert count(selection, pairs, "scenario", "label") == {("a", "no"): 4, ("b", "yes"): 4}


def test_rows_that_no_stratum_asks_for_change_nothing():
    pairs = make_pairs(make_grid(["a", "b"], ["yes", "no"], 3))
    more = pa.table(
        {"id": ["row-x", "row-y"], "scenario": ["z", "a"], "label": ["yes", "perhaps"], "timing": [TIMINGS[0]] * 2}
    )
    targets = TpiTargets(labels={"yes": 3, "no": 3}, hard_negatives=0)
    alone = select_quotas(pairs, make_negatives([]), targets, ["a", "b"], 1)
    assert select_quotas(pa.concat_tables([pairs, more]), make_negatives([]), targets, ["a", "b"], 1) == alone


def test_one_hard_negative_for_a_pair():
    pairs = make_pairs([("a", "yes", TIMINGS[0])])
    selection = select_quotas(
        pairs, make_negatives(["row-0", "row-0", "row-9"]), TpiTargets(labels={"yes": 1}, hard_negatives=3), ["a"], 0
    )
    assert len(selection.hard_negatives) == 1
    assert list(selection.twins.values()) == ["row-0"]


def test_no_rows_at_all():
    selection = select_quotas(
        make_pairs([]), make_negatives([]), TpiTargets(labels={"yes": 3}, hard_negatives=1), ["a", "b"], 0
    )
    assert selection.ids == ()
    assert find_missing(selection) == Missing({"a": 2, "b": 1}, {"yes": 3}, 1)


def test_ids_that_occur_twice_are_refused():
    pairs = make_pairs([("a", "yes", TIMINGS[0])])
    with pytest.raises(StageContractError, match="such as row-0"):
        select_quotas(pa.concat_tables([pairs, pairs]), make_negatives([]), TpiTargets(labels={"yes": 1}), ["a"], 0)


def test_the_seed_changes_the_choice():
    pairs = make_pairs(make_grid(["a", "b"], ["yes"], 10))
    targets = TpiTargets(labels={"yes": 10}, hard_negatives=0)
    choices = {select_quotas(pairs, make_negatives([]), targets, ["a", "b"], seed).ids for seed in range(4)}
    assert len(choices) == 4


CELLS = st.tuples(st.sampled_from("abc"), st.sampled_from(["yes", "no"]), st.sampled_from(TIMINGS))
CASES = st.fixed_dictionaries(
    {
        "cells": st.lists(CELLS, max_size=9),
        "twins": st.lists(st.integers(0, 8), max_size=5, unique=True),
        "labels": st.tuples(st.integers(0, 4), st.integers(1, 4)),
        "hard_negatives": st.integers(0, 3),
        "seed": st.integers(0, 5),
    }
)


def find_best(cells, twins, targets, scenarios):
    """The most pairs, and with them the most hard negatives, by trying every subset."""
    share, remainder = divmod(targets.pairs, len(scenarios))
    best = (0, 0)
    for size in range(len(cells), -1, -1):
        for subset in combinations(range(len(cells)), size):
            by_scenario = [sum(cells[i][0] == s for i in subset) for s in scenarios]
            fits = all(sum(cells[i][1] == label for i in subset) <= n for label, n in targets.labels.items())
            fits = fits and max(by_scenario) <= share + 1 and sum(n > share for n in by_scenario) <= remainder
            if fits:
                best = max(best, (size, min(sum(i in twins for i in subset), targets.hard_negatives)))
        if best[0]:
            return best
    return best


@settings(max_examples=120, deadline=None)
@given(CASES, st.randoms(use_true_random=False))
def test_selection_is_maximal_within_its_targets_and_knows_no_order(case, random):
    scenarios = ["a", "b", "c"]
    pairs = make_pairs(case["cells"])
    negatives = make_negatives([f"row-{i}" for i in case["twins"]])
    targets = TpiTargets(
        labels=dict(zip(("yes", "no"), case["labels"], strict=True)), hard_negatives=case["hard_negatives"]
    )
    selection = select_quotas(pairs, negatives, targets, scenarios, case["seed"])
    by_label, by_scenario = count(selection, pairs, "label"), count(selection, pairs, "scenario")
    assert all(by_label.get((label,), 0) <= n for label, n in targets.labels.items())
    assert len(selection.hard_negatives) <= targets.hard_negatives
    assert set(selection.twins.values()) <= set(selection.pairs)
    assert (len(selection.pairs), len(selection.hard_negatives)) == find_best(
        case["cells"], set(case["twins"]), targets, scenarios
    )
    share, remainder = divmod(targets.pairs, 3)
    assert all(n <= share + 1 for n in by_scenario.values())
    assert sum(n > share for n in by_scenario.values()) <= remainder
    short = [s for s in selection.shortfalls if s.stratum == "scenario"]
    assert sum(s.asked - s.got for s in short) == targets.pairs - len(selection.pairs)
    order = list(range(len(pairs)))
    random.shuffle(order)
    shuffled = pairs.take(pa.array(order, pa.int64()))
    again = select_quotas(
        shuffled,
        negatives.take(pa.array(range(len(negatives) - 1, -1, -1), pa.int64())),
        targets,
        scenarios[::-1],
        case["seed"],
    )
    assert again == selection


def test_scenarios_stay_as_equal_as_a_shortage_allows():
    rng = np.random.default_rng(0)
    scenarios = [f"s{i:02d}" for i in range(26)]
    cells = [(scenarios[i % 26], "yes" if rng.random() < 0.5 else "no", TIMINGS[i % 2]) for i in range(26 * 8)]
    pairs = make_pairs(cells)
    targets = TpiTargets(labels={"yes": 200, "no": 60}, hard_negatives=0)  # "yes" runs short
    selection = select_quotas(pairs, make_negatives([]), targets, scenarios, 0)
    n_yes = sum(label == "yes" for _, label, _ in cells)
    assert n_yes < 200
    by_label = count(selection, pairs, "label")
    assert by_label == {("yes",): n_yes, ("no",): 60}
    by_scenario = count(selection, pairs, "scenario")
    assert max(by_scenario.values()) - min(by_scenario.values()) <= 2


def find_best_around(pinned, pinned_twins, cells, twins, targets, scenarios):
    """The same of subsets that hold `pinned`, whose pairs get no other twin than the pinned ones."""
    share, remainder = divmod(targets.pairs, len(scenarios))
    rest = [i for i in range(len(cells)) if i not in pinned]
    best = (0, 0)
    for size in range(len(rest) + 1):
        for added in combinations(rest, size):
            subset = (*pinned, *added)
            by_scenario = [sum(cells[i][0] == s for i in subset) for s in scenarios]
            fits = all(sum(cells[i][1] == label for i in subset) <= n for label, n in targets.labels.items())
            if fits and max(by_scenario) <= share + 1 and sum(n > share for n in by_scenario) <= remainder:
                negatives = len(pinned_twins) + sum(i in twins for i in added)
                best = max(best, (len(subset), min(negatives, targets.hard_negatives)))
    return best


@settings(max_examples=80, deadline=None)
@given(CASES, st.tuples(st.integers(0, 3), st.integers(0, 3)), st.integers(0, 2), st.lists(CELLS, max_size=5))
def test_what_is_pinned_stays_and_others_fill_up_to_greater_targets(case, more, more_negatives, fresh):
    scenarios = ["a", "b", "c"]
    small = TpiTargets(
        labels=dict(zip(("yes", "no"), case["labels"], strict=True)), hard_negatives=case["hard_negatives"]
    )
    cells, twins = case["cells"][:6], [i for i in case["twins"] if i < 6]
    first = select_quotas(
        make_pairs(cells), make_negatives([f"row-{i}" for i in twins]), small, scenarios, case["seed"]
    )
    cells = [*cells, *fresh]
    # Pairs that were spare before may have twins; a pinned pair has its old one or none.
    kept_negatives = [n for n in range(len(twins)) if f"neg-{n}" in first.hard_negatives]
    negatives = make_negatives([f"row-{i}" for i in [*twins, *range(6, len(cells), 2)]])
    targets = TpiTargets(
        labels={key: n + extra for (key, n), extra in zip(small.labels.items(), more, strict=True)},
        hard_negatives=small.hard_negatives + more_negatives,
    )
    pinned = frozenset(first.ids)
    grown = select_quotas(make_pairs(cells), negatives, targets, scenarios, case["seed"], pinned)
    assert pinned <= set(grown.ids)
    assert {row_id: grown.twins[row_id] for row_id in first.twins} == dict(first.twins)
    assert not {pair for row_id, pair in grown.twins.items() if row_id not in pinned} & pinned
    best = find_best_around(
        [int(row_id.removeprefix("row-")) for row_id in first.pairs],
        kept_negatives,
        cells,
        {*twins, *range(6, len(cells), 2)},
        targets,
        scenarios,
    )
    assert (len(grown.pairs), len(grown.hard_negatives)) == best


def test_more_pinned_than_asked_for_is_refused():
    pairs = make_pairs(make_grid(["a"], ["yes"], 2))
    with pytest.raises(StageContractError, match="found no selection"):
        select_quotas(pairs, make_negatives([]), TpiTargets(labels={"yes": 1}), ["a"], 0, frozenset({"row-0", "row-1"}))
