"""Matching the rows of two builds by id, against a plain comparison of the rows themselves."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import BuildError
from bystander.storage.row_digests import RowDigests
from bystander.storage.value_digests import digest_values, stack_digests
from bystander.tasks.compare_rows import RowMatch, match_rows

NAMES = ("text", "score", "spans")
TYPES = (pa.string(), pa.float64(), pa.list_(pa.struct([("start_s", pa.float64())])))
ROWS = st.fixed_dictionaries(
    {
        "text": st.none() | st.sampled_from(["one", "two"]),
        "score": st.none() | st.sampled_from([0.0, 0.5]),
        "spans": st.lists(st.fixed_dictionaries({"start_s": st.sampled_from([0.0, 1.0])}), max_size=2),
    }
)
BUILDS = st.dictionaries(st.sampled_from("abcdefgh"), ROWS, max_size=8)


def digest(rows: dict[str, dict[str, Any]]) -> RowDigests:
    columns = [
        digest_values(pa.array([row[name] for row in rows.values()], kind))
        for name, kind in zip(NAMES, TYPES, strict=True)
    ]
    return RowDigests(list(rows), NAMES, stack_digests(columns), pa.table({}))


def name_rows(match: RowMatch, before: RowDigests, after: RowDigests) -> tuple[list[str], list[str], dict[str, Any]]:
    assert [before.ids[i] for i, _ in match.changed] == [after.ids[j] for _, j in match.changed]
    changed = {before.ids[i]: columns for (i, _), columns in zip(match.changed, match.columns, strict=True)}
    return [before.ids[i] for i in match.removed], [after.ids[i] for i in match.added], changed


@given(BUILDS, BUILDS)
def test_rows_are_removed_added_or_changed_as_a_plain_comparison_has_it(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    first, second = digest(before), digest(after)
    match = match_rows(first, second)
    removed, added, changed = name_rows(match, first, second)
    assert removed == sorted(before.keys() - after.keys())
    assert added == sorted(after.keys() - before.keys())
    shared = before.keys() & after.keys()
    assert changed == {
        key: {name for name in NAMES if before[key][name] != after[key][name]}
        for key in shared
        if before[key] != after[key]
    }
    assert match.same == len(shared) - len(changed)


@given(BUILDS, BUILDS, st.randoms(use_true_random=False))
def test_a_build_is_itself_in_any_order_and_swapping_two_swaps_what_was_added(
    before: dict[str, Any], after: dict[str, Any], random: Any
) -> None:
    first, second = digest(before), digest(after)
    shuffled = list(before.items())
    random.shuffle(shuffled)
    alone = match_rows(first, digest(dict(shuffled)))
    assert (alone.removed, alone.added, alone.changed, alone.same) == ([], [], [], len(before))
    removed, added, changed = name_rows(match_rows(first, second), first, second)
    assert name_rows(match_rows(second, first), second, first) == (added, removed, changed)


def test_id_that_occurs_twice_is_a_fault_of_the_build() -> None:
    rows = digest({"a": {"text": "x", "score": 1.0, "spans": []}})
    doubled = RowDigests(rows.ids * 2, rows.names, stack_digests([*rows.values.T, *rows.values.T]), rows.traits)
    with pytest.raises(BuildError, match="row a occurs more than once"):
        match_rows(doubled, rows)
