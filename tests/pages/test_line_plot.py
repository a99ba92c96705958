"""Axes and curves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.pages.axis_ticks import choose_axis
from bystander.pages.line_plot import Bars, Frame, Line, draw_lines
from html_pages import Page

finite = st.floats(-1e12, 1e12, allow_nan=False).map(lambda value: round(value, 6))


@pytest.mark.parametrize(
    ("values", "texts", "factor"),
    [
        ([0.3, 3.1], ("0", "1", "2", "3", "4"), ""),
        ([2.5], ("1", "2", "3", "4"), ""),
        ([0.0, 1.0], ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0"), ""),
        ([1e-5, 1e-4], ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0"), "× 10⁻⁴"),
        ([0, 12_000], ("0", "2,500", "5,000", "7,500", "10,000", "12,500"), ""),
        ([], ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0"), ""),
    ],
)
def test_ticks_are_round(values: list[float], texts: tuple[str, ...], factor: str) -> None:
    axis = choose_axis(values)
    assert (axis.texts, axis.factor) == (texts, factor)


@given(st.lists(finite, min_size=1, max_size=5), st.booleans(), st.booleans())
def test_an_axis_covers_its_values_with_few_distinct_ticks(values: list[float], whole: bool, to_ticks: bool) -> None:
    axis = choose_axis(values, whole=whole, to_ticks=to_ticks)
    slack = 1e-6 * max(1.0, *(abs(value) for value in values))
    assert axis.low - slack <= min(values)
    assert max(values) <= axis.high + slack
    assert axis.low < axis.high
    assert len(axis.ticks) == len(axis.texts) <= 6
    assert len(set(axis.texts)) == len(axis.texts)
    assert all(axis.low - slack <= tick <= axis.high + slack for tick in axis.ticks)


def test_a_chart_without_values_says_so() -> None:
    page = Page(draw_lines("Loss", Frame("step"), [Line("", [], [])]))
    assert page.find("svg") == []
    assert "No values." in page.text


def test_bars_without_a_value_are_left_out_and_those_of_nothing_are_seen() -> None:
    page = Page(draw_lines("Share", Frame("s", y_span=(0, 1)), [], [Bars("", [0, 1, 2, 3], [0.0, None, 1.0])]))
    assert [(a["x"], a["y"], a["height"]) for a in page.find("rect")] == [
        ("1.0", "397.0", "3.0"),
        ("667.7", "0.0", "400.0"),
    ]
