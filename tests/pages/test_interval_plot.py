from __future__ import annotations

import pytest

from bystander.pages.interval_plot import PlotDot, PlotRow, PlotScale, draw_intervals, name_mark, show_legend
from bystander.schemas.evaluation_scores import Estimate
from html_pages import Page

OH = PlotScale(1, 5, higher_is_better=True)


def draw(estimate: Estimate, scale: PlotScale = OH) -> Page:
    return Page(draw_intervals("OH", scale, [PlotRow("floor_taking", [PlotDot("a", 0, estimate)])]))


def test_a_dot_lies_at_its_mean_within_its_interval() -> None:
    page = draw(Estimate(mean=4, low=3, high=4.5, n=1200))
    assert page.find("span", "mark")[0]["style"] == "left:75.00%"
    assert page.find("span", "range")[0]["style"] == "left:50.00%;width:37.50%"
    (dot,) = [a for a in page.find("div", "lane-of-dot") if "role" in a]
    assert dot["aria-label"] == "a: 4.00, interval 3.00 to 4.50, n 1200"
    assert "floor_taking n 1,200" in page.text
    assert "↑ higher is better" in page.text


@pytest.mark.parametrize(("mean", "left"), [(-3.0, "0.00"), (9.0, "100.00")])
def test_what_lies_off_the_scale_is_drawn_at_its_end(mean: float, left: str) -> None:
    assert draw(Estimate(mean=mean, low=None, high=None, n=1)).find("span", "mark")[0]["style"] == f"left:{left}%"


def test_no_rows_have_no_dot() -> None:
    page = draw(Estimate(mean=None, low=None, high=None, n=0), PlotScale(0, 1, reference=0.5))
    assert page.find("span", "mark") == page.find("span", "range") == []
    assert page.find("span", "reference")[0]["style"] == "left:50.00%"
    assert "better" not in page.text


def test_series_differ_in_colour_or_shape() -> None:
    assert len({name_mark(at) for at in range(24)}) == 24
    page = Page(show_legend(["<i>", "b"]))
    assert "<i>" in page.text
    assert [a["class"] for a in page.find("span")] == ["mark s0 shape0", "mark s1 shape1"]
