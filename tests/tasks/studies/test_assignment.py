"""Whatever the numbers: items equally often, no scenario twice, both sides of A/B equally often."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import InputError
from bystander.tasks.studies.assignment import assign_items, balance_sides


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@given(st.data())
def test_items_are_dealt_out_evenly_and_nobody_meets_a_scenario_twice(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=10))
    groups = {f"i{g}.{k}": f"g{g}" for g, size in enumerate(sizes) for k in range(size)}
    raters = data.draw(st.integers(1, 12))
    per_rater = data.draw(st.integers(1, len(sizes)))
    seed = data.draw(st.integers(0, 2**32))
    least = raters * per_rater // len(groups)
    try:
        sheets = assign_items(groups, raters, per_rater, rng(seed))
    except InputError:
        # Refused only where a scenario would come to a rater twice, or may: with its share of the extra ratings.
        assert max(sizes) * (least + 1) > raters
        return
    counts = Counter(item for sheet in sheets for item in sheet)
    assert {counts[item] for item in groups} <= {least, least + 1}
    assert all(len(sheet) == per_rater == len({groups[item] for item in sheet}) for sheet in sheets)
    assert sheets == assign_items(groups, raters, per_rater, rng(seed))

    sides = balance_sides(sheets, rng(seed))
    first: Counter[str] = Counter()
    for sheet, of_sheet in zip(sheets, sides, strict=True):
        assert abs(2 * sum(of_sheet) - len(sheet)) <= 1
        first.update(item for item, side in zip(sheet, of_sheet, strict=True) if side)
    assert all(abs(2 * first[item] - counts[item]) <= 1 for item in groups)


def test_who_rates_what_with_whom_differs_from_seed_to_seed() -> None:
    groups = {f"i{at}": f"g{at}" for at in range(20)}
    seen = {tuple(map(tuple, assign_items(groups, 6, 5, rng(seed)))) for seed in range(20)}
    assert len(seen) == 20


def test_what_cannot_be_dealt_is_said() -> None:
    with pytest.raises(InputError, match="there are 2"):
        assign_items({"a": "x", "b": "y"}, 4, 3, rng())
    with pytest.raises(InputError, match="3 are too few"):
        assign_items({"a": "x", "b": "x", "c": "x", "d": "x", "e": "y", "f": "z"}, 3, 3, rng())
    with pytest.raises(InputError, match="none to rate"):
        assign_items({}, 1, 1, rng())
