"""Digests of Arrow values: equal where the values are, and only there."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.sid import PHONE
from bystander.storage.value_digests import digest_values

NESTED = pa.list_(pa.struct([("name", pa.string()), ("times", pa.list_(pa.float64())), ("blob", pa.binary())]))
ITEMS = st.none() | st.fixed_dictionaries(
    {
        "name": st.none() | st.sampled_from(["", "a", "b", "ab"]),
        "times": st.none() | st.lists(st.none() | st.sampled_from([0.0, 1.5, -2.0]), max_size=3),
        "blob": st.none() | st.sampled_from([b"", b"a", b"b"]),
    }
)
CELLS = st.none() | st.lists(ITEMS, max_size=3)


@given(st.lists(CELLS, max_size=12))
def test_nested_values_have_equal_digests_if_and_only_if_they_are_equal(cells: list[Any]) -> None:
    digests = digest_values(pa.array(cells, NESTED)).tolist()
    for i, first in enumerate(cells):
        for j, second in enumerate(cells):
            assert (digests[i] == digests[j]) == (first == second)


@given(st.lists(CELLS, min_size=1, max_size=12), st.data())
def test_digests_depend_neither_on_slices_nor_on_chunks(cells: list[Any], data: st.DataObject) -> None:
    whole = pa.array(cells, NESTED)
    start = data.draw(st.integers(0, len(cells)))
    digests = digest_values(whole).tolist()
    assert digest_values(whole.slice(start)).tolist() == digests[start:]
    assert digest_values(pa.chunked_array([whole.slice(0, start), whole.slice(start)], NESTED)).tolist() == digests


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, -1, 0, None], pa.int32()),
        ([0.5, 1.0, -1.0, 0.0, math.nan, math.inf, None], pa.float64()),
        ([True, False, None], pa.bool_()),
        (["", "a", "A", "a ", None], pa.string()),
        ([b"", b"a", None], pa.binary()),
        ([[], [0], [0, 0], [None], None], pa.list_(pa.int64())),
        ([[{"phone": "AH0", "start_s": 0.1, "end_s": 0.2, "word_index": 0}], []], pa.list_(PHONE)),
    ],
)
def test_values_that_differ_are_told_apart(values: list[Any], kind: pa.DataType) -> None:
    digests = digest_values(pa.array(values, kind)).tolist()
    assert len(set(digests)) == len(values)
    assert digest_values(pa.array(values[::-1], kind)).tolist() == digests[::-1]


def test_one_value_in_two_forms_is_one() -> None:
    zeros = digest_values(pa.array([0.0, -0.0])).tolist()
    assert zeros[0] == zeros[1]
    assert digest_values(pa.array([7], pa.int32())) == digest_values(pa.array([7], pa.int64()))
    assert digest_values(pa.array(["a"]).dictionary_encode()) == digest_values(pa.array(["a"], pa.large_string()))
    assert digest_values(pa.array([1])) != digest_values(pa.array([1.0]))
    assert digest_values(pa.array([1])) != digest_values(pa.array([True]))
    assert digest_values(pa.array([None], pa.null())) == digest_values(pa.array([None], pa.string()))


def test_type_that_no_build_has_is_refused() -> None:
    with pytest.raises(TypeError, match=r"values of type map<.*> cannot be compared"):
        digest_values(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())))
