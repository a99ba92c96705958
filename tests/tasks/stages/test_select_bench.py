"""The rows of a bench: exact quotas, and as many twins as they allow."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.tpi_params import TpiBenchTargets
from bystander.tasks.stages.select_bench import select_bench
from bystander.tasks.stages.select_quotas import Selection, Shortfall

SCENARIOS = ("a", "b", "c")
Cell = tuple[str, str, bool]
"""Scenario, label, and whether there is a one-speaker row of it."""


def select(cells: list[Cell], targets: TpiBenchTargets, unspoken: frozenset[int] = frozenset()) -> Selection:
    """`unspoken` are rows of which there is no two-speaker row."""
    rows = [(f"row-{i}", scenario, label) for i, (scenario, label, _) in enumerate(cells)]
    pairs = [row for i, row in enumerate(rows) if i not in unspoken]
    twinned = [row for row, cell in zip(rows, cells, strict=True) if cell[2]]

    def column(table: list[tuple[str, str, str]], at: int, prefix: str = "") -> pa.Array:
        return pa.array([prefix + row[at] for row in table], pa.string())

    timing = pa.array(["after_completion"] * len(pairs), pa.string())
    return select_bench(
        pa.table({"id": column(pairs, 0), "scenario": column(pairs, 1), "label": column(pairs, 2), "timing": timing}),
        pa.table({"id": column(twinned, 0, "neg-"), "twin_id": column(twinned, 0), "scenario": column(twinned, 1)}),
        targets,
        SCENARIOS,
        5,
    )


def test_ambiguous_pairs_are_taken_first_and_the_rest_comes_from_pairs_without_room() -> None:
    cells = [(s, label, n < 3) for s in SCENARIOS for label in ("yes", "no") for n in range(6)]
    selection = select(cells, TpiBenchTargets(labels={"yes": 6, "no": 6}, hard_negatives=15))
    assert selection.shortfalls == ()
    assert (len(selection.pairs), len(selection.hard_negatives)) == (12, 15)
    assert len(selection.twins) == 12  # every pair could be an ambiguous one
    scenario_of = {f"neg-row-{i}": cell[0] for i, cell in enumerate(cells)}
    assert Counter(scenario_of[row] for row in selection.hard_negatives) == dict.fromkeys(SCENARIOS, 5)
    lone = set(selection.hard_negatives) - set(selection.twins)
    assert not {row.removeprefix("neg-") for row in lone} & set(selection.pairs)


def test_a_row_that_only_one_voice_could_say_is_not_linked() -> None:
    cells = [(s, "yes", True) for s in SCENARIOS]
    selection = select(cells, TpiBenchTargets(labels={"yes": 2}, hard_negatives=3), frozenset({0}))
    assert "neg-row-0" in selection.hard_negatives
    assert "neg-row-0" not in selection.twins
    assert len(selection.twins) == 2


def test_shortfalls_count_all_one_speaker_rows() -> None:
    cells = [("a", "yes", True), ("b", "yes", True), ("c", "yes", False)]
    selection = select(cells, TpiBenchTargets(labels={"yes": 1}, hard_negatives=4))
    assert selection.shortfalls == (Shortfall("hard_negative", "hard_negative", 4, 2),)
    assert len(selection.twins) == 1


CELLS = st.lists(
    st.tuples(st.sampled_from(SCENARIOS), st.sampled_from(("yes", "no")), st.booleans()), min_size=1, max_size=30
)


@settings(max_examples=40)
@given(CELLS, st.integers(1, 6), st.integers(0, 6), st.integers(0, 12), st.sets(st.integers(0, 29)))
def test_no_target_is_exceeded_and_links_hold(
    cells: list[Cell], yes: int, no: int, singles: int, unspoken: set[int]
) -> None:
    targets = TpiBenchTargets(labels={"yes": yes, "no": no}, hard_negatives=singles)
    selection = select(cells, targets, frozenset(unspoken))
    ambiguous = sum(cell[2] for cell in cells)
    assert len(selection.pairs) <= targets.pairs
    assert set(selection.twins) <= set(selection.hard_negatives)
    for negative in selection.hard_negatives:
        base = negative.removeprefix("neg-")
        assert (base in selection.pairs) == (negative in selection.twins)
    # A one-speaker row is passed over only if its pair is published and Janus-Test is full without it.
    waiting = sum(cell[2] and f"row-{i}" in selection.pairs for i, cell in enumerate(cells)) - len(selection.twins)
    assert len(selection.hard_negatives) == min(singles, ambiguous - waiting)
