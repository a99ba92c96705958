from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import numpy as np
import pytest

from bystander.pages import clips
from bystander.pages.build_report import (
    RejectExample,
    ReportData,
    StageFunnel,
    Stratum,
    choose_samples,
    describe_reject,
    render_build_report,
)
from bystander.pages.charts import Series, draw_bars, draw_histogram
from bystander.pages.waveform import draw_waveform
from final_rows import make_bench_rows, make_row, make_rows, make_table
from html_pages import Page


def make_data(rows: list[dict[str, Any]], **changes: Any) -> ReportData:
    table = make_table(rows)
    values: dict[str, Any] = {
        "title": "tpi-train, build-test",
        "facts": [("Seed", "7")],
        "stages": [
            StageFunnel("normalise_queries", 1200, 1100, {"too_long": 60, "duplicate": 40}),
            StageFunnel("check_realism", 1100, 1100),
        ],
        "rows": table.drop_columns(["audio"]),
        "samples": table,
    }
    return ReportData(**(values | changes))


def test_page_is_whole_and_loads_nothing() -> None:
    text = render_build_report(make_data(make_rows()))
    page = Page(text)
    assert not re.search(r"(?:src|href|url|@import)[=(\s\"']*(?:https?:)?//", text)
    assert "http:" not in text
    assert "https:" not in text
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text  # so no other script runs
    links = [a["href"] for a in page.find("a")]
    ids = {a["id"] for _, a in page.elements if "id" in a}
    assert links
    assert {link.removeprefix("#") for link in links} <= ids
    labelled = [a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a]
    assert set(labelled) <= ids


def test_players_hold_the_clips() -> None:
    rows = make_rows(3, 1)
    page = Page(render_build_report(make_data(rows)))
    clips = [base64.b64decode(a["src"].removeprefix("data:audio/flac;base64,")) for a in page.find("audio")]
    assert clips == [row["audio"]["bytes"] for row in rows]
    assert all(a["aria-label"].startswith("Clip ") for a in page.find("audio"))
    for row in rows:
        assert row["id"] in page.text
        assert row["third_party_text"] in page.text
        assert row["reply"] in page.text
    assert "Twin: hn-0000" in page.text


def test_clips_beyond_the_budget_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_rows(3, 0)
    monkeypatch.setattr(clips, "MOST_AUDIO_BYTES", len(rows[0]["audio"]["bytes"]))
    page = Page(render_build_report(make_data(rows)))
    assert len(page.find("audio")) == 1
    assert page.text.count("it was left out to keep this file small") == 2


def test_funnel_shows_every_row() -> None:
    page = Page(render_build_report(make_data(make_rows())))
    assert "At every stage, kept + rejected = rows in." in page.text
    for part in ("1,200", "1,100", "too_long 60", "duplicate 40"):
        assert part in page.text
    assert page.find("span", "kept")[0]["style"] == "width:91.67%"
    assert page.find("span", "lost")[0]["style"] == "width:8.33%"
    page = Page(render_build_report(make_data(make_rows(), stages=[StageFunnel("mix_speakers", 10, 8, {"lost": 1})])))
    assert "At the marked stages, kept + rejected is not rows in." in page.text
    assert len(page.find("tr", "bad")) == 1


def test_shortfalls_are_said() -> None:
    strata = [Stratum("ignorable", "priority_alert", 5, 3), Stratum("actionable", None, 4, 4)]
    text = Page(render_build_report(make_data(make_rows(), strata=strata))).text
    assert "ignorable in priority_alert: 3 of 5" in text
    assert "actionable: 4 of 4" not in text


def test_rejects_are_grouped_and_escaped() -> None:
    rejects = [
        RejectExample("write_replies", "refusal", "<script>alert(1)</script>", "refuses", '{"reply": "<b>"}'),
        RejectExample("write_replies", "refusal", "two", ""),
        RejectExample("check_realism", "unrealistic", "three", ""),
    ]
    text = render_build_report(make_data(make_rows(), rejects=rejects))
    page = Page(text)
    assert "<script>alert" not in text
    assert "<script>alert(1)</script>" in page.text
    assert re.search(r"write_replies: refusal\s+\(2 shown\)", page.text)
    assert "Nothing was rejected." not in page.text


def test_an_empty_build_has_a_page_too() -> None:
    text = Page(render_build_report(make_data([], stages=[]))).text
    assert "No rows." in text
    assert "Nothing was rejected." in text


def test_samples_differ_and_do_not_depend_on_order() -> None:
    rows = make_rows(24, 4)
    chosen = choose_samples(make_table(rows), 6)
    assert choose_samples(make_table(rows[::-1]), 6) == chosen
    by_id = {row["id"]: row for row in rows}
    assert [by_id[i]["label"] for i in chosen] == ["actionable", "hard_negative", "ignorable"] * 2
    assert len({by_id[i]["scenario"] for i in chosen}) == 2
    assert len(set(choose_samples(make_table(rows), 100))) == len(rows)


def test_rejects_in_words() -> None:
    row = {"query_text": "x" * 999, "request": None, "reject_stage": "s", "reject_reason": "r", "reject_detail": None}
    example = describe_reject(row)
    assert (len(example.text), example.detail, example.raw_output) == (301, "", "")
    spoken = describe_reject(
        row | {"request": "a", "primary_text": "b\x07", "third_party_text": "c", "raw_output": "o"}
    )
    assert (spoken.text, spoken.raw_output) == ("b  / c", "o")
    assert describe_reject({"reject_stage": "s", "reject_reason": "r"}).text == "(no text)"


def test_waveform_shows_both_speakers_and_the_overlap() -> None:
    row = make_row(1)
    page = Page(draw_waveform(row["audio"]["bytes"], row["segments"], "two speakers"))
    assert [a["class"] for a in page.find("path")] == ["primary", "both", "third"]
    primary, third = row["segments"]
    (band,) = page.find("span", "overlap")
    left, width = (float(x) / 100 * row["duration_s"] for x in re.findall(r"[\d.]+", band["style"]))
    assert left == pytest.approx(third["start_s"], abs=0.001)
    assert width == pytest.approx(row["overlap_s"], abs=0.001)
    assert len(page.find("div", "lane")) == 2
    corners = np.array(re.findall(r"(-?[\d.]+),(-?[\d.]+)", " ".join(a["d"] for a in page.find("path"))), float)
    assert corners[:, 0].min() >= 0
    assert corners[:, 0].max() <= 1000
    assert 0 < corners[:, 1].min() < 10  # the loudest sample nearly fills the picture
    assert primary["end_s"] < row["duration_s"]


def test_hard_negative_has_one_lane() -> None:
    row = make_row(1, hard_negative=True)
    page = Page(draw_waveform(row["audio"]["bytes"], row["segments"], "one"))
    assert [a["class"] for a in page.find("path")] == ["primary"]
    assert page.find("span", "overlap") == []
    assert len(page.find("div", "lane")) == 1


@pytest.mark.parametrize("values", [[0.0], [1.0, 1.0], [0.1, 0.2, 5.0], [-4.0, 4.0], [1e6, 2e6]])
def test_histogram_draws_every_value(values: list[float]) -> None:
    drawn = draw_histogram("x", "s", [Series("a", values, "--bar"), Series("", [values[0]], "--other")])
    page = Page(drawn)
    most = int(re.findall(r'class="most"[^>]*>(\d+)<', drawn)[0])
    heights = [float(a["height"]) for a in page.find("rect") if "--bar" in a["style"]]
    assert sum(heights) / 300 * most == pytest.approx(len(values), rel=0.01)
    (picture,) = page.find("svg")
    assert f"({len(values)})" in picture["aria-label"]


def test_histogram_without_values_and_bars() -> None:
    assert "No values." in Page(draw_histogram("x", "", [Series("a", [], "--bar")])).text
    page = Page(draw_bars("t", {"a_b": 4, "c": 1}))
    assert [a["style"].split(";")[0] for a in page.find("span")] == ["width:100.0%", "width:25.0%"]
    assert draw_bars("t", {}) == ""


def test_twins_and_control_figures_are_shown_where_there_are_any() -> None:
    text = render_build_report(make_data(make_bench_rows(), controls=[("text alone, AUC", "0.52")]))
    assert "<strong>2</strong> <span>twins</span>" in text
    assert "Does it need ears?" in text
    assert "<strong>0.52</strong> <span>text alone, AUC</span>" in text
    assert "Does it need ears?" not in render_build_report(make_data(make_rows()))
