"""The page of crowd platforms and the report: whole, self-contained, and safe against what is put into them."""

from __future__ import annotations

import json

from bystander.pages.study_page import render_study_page
from bystander.pages.study_report import render_study_report
from bystander.schemas.study import KINDS, StudyManifest, StudySettings, StudySource
from bystander.schemas.study_report import RatedQuestion, RatingFigure, StudyReport
from bystander.schemas.study_wording import load_wording
from html_pages import Page


def make_settings(kind: str) -> StudySettings:
    return StudySettings.model_validate({"kind": kind, "bench": "bench", "raters": 4, "per_rater": 2})


def test_words_cannot_break_out_of_the_page_nor_look_like_fields_of_a_platform() -> None:
    evil = '</script><script>alert("${task}")</script>'
    wording = load_wording("realism").model_copy(update={"consent": (evil,), "title": evil})
    page = render_study_page("mine", make_settings("realism"), wording)
    assert page.count("${") == page.count("${task}") == 1
    assert page.count("<script") == 2
    block = page.split('id="setup">')[1].split("</script>")[0]
    assert json.loads(block)["consent"] == [evil]


def test_every_kind_has_a_page_that_loads_nothing() -> None:
    for kind in KINDS:
        settings = make_settings(kind)
        page = render_study_page("mine", settings, load_wording(kind))
        assert "src=" not in page.replace("src: setup", "")
        assert "http" not in page.replace("https://", "http").split("<script>")[0]
        assert len(page.encode()) < 30_000
        assert page.count("${") == 1


def test_the_report_says_why_raters_were_dropped_and_shows_nothing_undefined() -> None:
    figure = RatingFigure(
        mean=2.5, sd=None, low=None, high=None, clustered_low=None, clustered_high=None, n=1, raters=1, items=1
    )
    manifest = StudyManifest(
        name="mine",
        settings=make_settings("realism"),
        wording=load_wording("realism"),
        bench=StudySource(uri="<b>", name="build", content_digest="c"),
        items=3,
        sheets=4,
        ratings=8,
        files=(),
        code_version="0",
    )
    report = StudyReport(
        name="mine",
        kind="realism",
        confidence=0.95,
        max_failed_traps=0,
        min_seconds=2.0,
        keep_unfinished=False,
        raters=4,
        kept=1,
        dropped={"failed_traps": 2, "too_fast": 1},
        answers=8,
        ratings=1,
        median_seconds=None,
        questions=(
            RatedQuestion(
                question="realism",
                system=None,
                figure=figure,
                counts={"1": 0, "2": 0, "3": 1},
                breakdowns={key: {"x": figure} for key in ("label", "timing", "category", "scenario")},
            ),
        ),
        code_version="0",
    )
    text = render_study_report(manifest, report)
    page = Page(text)
    assert "2 failed more traps than allowed; 1 were too fast." in page.text
    assert "fails more than 0 traps, or takes less than 2 s for an item, or does not finish" in page.text
    assert "&lt;b&gt;" in text
    assert "None" not in page.text
    assert "nan" not in page.text.split()
    assert "2.87 (2.836 to 2.904)" in page.text
