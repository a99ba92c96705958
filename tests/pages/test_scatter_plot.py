from __future__ import annotations

import re
from typing import Any

from bystander.pages.scatter_plot import draw_projection
from bystander.schemas.evaluation_scores import Projection
from html_pages import Page


def make_projection(x: tuple[float, ...], y: tuple[float, ...], groups: tuple[Any, ...]) -> Projection:
    return Projection(system="a<b", perplexity=5, ids=tuple(map(str, range(len(x)))), groups=groups, x=x, y=y)


def test_every_point_is_drawn_in_its_groups_colour_and_shape() -> None:
    groups = ("one_speaker", "hard_negative", "two_speakers", "one_speaker")
    page = Page(draw_projection(make_projection((-2, 2, 0, 0), (0, 0, 1, -1), groups)))
    one, hard, two = (a["d"] for a in page.find("path", "point")[:3])
    # The wider axis spans the picture of 600 but for its margins of 20; the other keeps the same scale.
    assert one == "M20.0 300.0h0M300.0 160.0h0"
    assert hard == "M580.0 300.0h0"
    assert re.findall(r"M([\d.]+) ([\d.]+)", two) == [("295.8", "435.8")]
    assert "one speaker 2" in page.text
    assert "two speakers 1" in page.text
    assert page.find("svg", "scatter")[0]["aria-label"].startswith("Embeddings of a<b in two dimensions: one speaker 2")


def test_absent_groups_have_no_key_and_one_spot_is_in_the_middle() -> None:
    page = Page(draw_projection(make_projection((3, 3), (7, 7), ("hard_negative",) * 2)))
    assert page.find("path", "point")[0]["d"] == "M300.0 300.0h0M300.0 300.0h0"
    assert "speakers" not in page.text
    assert "no points" in Page(draw_projection(make_projection((), (), ()))).find("svg")[0]["aria-label"]
