"""The page of an evaluation of interruption detection."""

from __future__ import annotations

import base64
import re

from bystander.pages.charts import Series, draw_histogram
from bystander.pages.sid_evaluation_report import SidEvaluationReport, render_sid_evaluation_report
from bystander.schemas.sid_evaluation import SidExample
from bystander.tasks.sid_tables import build_sid_tables
from html_pages import Page
from sid_evaluations import make_scores
from sid_rows import make_clip


def render(**changes: object) -> Page:
    scores = make_scores(**changes)
    return Page(render_sid_evaluation_report(SidEvaluationReport(scores, build_sid_tables(scores))))


def test_page_is_whole_and_loads_nothing() -> None:
    scores = make_scores()
    text = render_sid_evaluation_report(SidEvaluationReport(scores, build_sid_tables(scores)))
    page = Page(text)
    assert not re.search(r"(?:src|href|url|@import)[=(\s\"']*(?:https?:)?//", text)
    assert "script" not in {tag for tag, _ in page.elements}
    links = [a["href"] for a in page.find("a")]
    ids = {a["id"] for _, a in page.elements if "id" in a}
    assert {link.removeprefix("#") for link in links} <= ids
    assert text == render_sid_evaluation_report(SidEvaluationReport(scores, build_sid_tables(scores)))


def test_shows_tables_and_charts() -> None:
    page = render()
    for text in ("4.400", "FSMN-VAD", "not to be compared closely", "Paper’s weights", "False alarms on silence"):
        assert text in page.text
    assert [bar["title"] for bar in page.find("div", "stack")] == [
        "mine: late 0.067 s, early 0.667 s, false alarm 3.333 s, missed 0.333 s",
        "other: late 0.000 s, early 0.000 s, false alarm 0.000 s, missed 0.000 s",
    ]
    assert "2 missing" in page.text
    assert "capped" not in page.text


def test_examples_show_where_each_system_stopped() -> None:
    scores = make_scores()
    clip = make_clip([], 4.0, 0.1)
    heard = {scores.examples[0].id: SidExample(clip, (), "So first we", (-1.0, 2.0))}
    page = Page(render_sid_evaluation_report(SidEvaluationReport(scores, build_sid_tables(scores), heard)))
    assert "stopped before the break at 0.20 s, penalty 4.00 s" in page.text
    assert "right at 1.00 s, penalty 0.00 s" in page.text
    assert "So first we" in page.text
    (player,) = page.find("audio")
    assert base64.b64decode(player["src"].removeprefix("data:audio/flac;base64,")) == clip
    assert page.text.count("The clip’s sound is not in this file.") == len(scores.examples) - 1


def test_a_cap_has_its_columns() -> None:
    assert render(penalty_cap_s=5.0).text.count("capped") >= 3


def test_charts_can_share_an_axis() -> None:
    first, second = (
        str(draw_histogram("a", "s", [Series("", values, "--s0")], span=(0.0, 4.0))).split('<div class="axis"')[1]
        for values in ([0.1, 0.2], [3.0, 3.9])
    )
    assert first == second
