from __future__ import annotations

import re
from typing import Any

from bystander.pages.build_report import StageFunnel
from bystander.pages.sid_report import (
    Shortfall,
    SidReportData,
    choose_sid_samples,
    describe_sid_reject,
    render_sid_report,
)
from bystander.pages.word_waveform import draw_word_waveform
from bystander.schemas.annotation_error import AnnotationError
from bystander.schemas.sid import MIDDLE, UNINTERRUPTED
from html_pages import Page
from sid_rows import make_sid_row, make_sid_rows, make_sid_table


def make_data(rows: list[dict[str, Any]], **changes: Any) -> SidReportData:
    table = make_sid_table(rows)
    values: dict[str, Any] = {
        "title": "sid-bench, build-test",
        "facts": [("Seed", "7")],
        "stages": [StageFunnel("find_turns", 12, 10, {"no_overlap": 2}), StageFunnel("tag_breaks", 10, 10)],
        "rows": table.drop_columns(["audio"]),
        "samples": table,
    }
    return SidReportData(**(values | changes))


def test_the_page_is_well_formed_and_shows_every_part() -> None:
    error = AnnotationError(rows=4, tag_right=3, break_missed=1, break_invented=0, wrong_word=0, timed=2, median_ms=7.5)
    page = render_sid_report(
        make_data(
            make_sid_rows(1),
            annotation=[error],
            missing=[Shortfall("middle in zh", 4, 1)],
            left_out={"de": "no voices"},
            rejects=[describe_sid_reject({"reject_stage": "tag_breaks", "reject_reason": "taggers_disagree"})],
        )
    )
    Page(page)
    assert "middle in zh: 1 of 4" in page
    assert "de: no voices" in page
    assert "75.0 %" in page
    assert "7.5" in page
    assert "taggers" in page
    assert 'src="http' not in page


def test_without_truth_the_page_says_so() -> None:
    rows = [make_sid_row(0, synthetic=False, true_category=None, true_break_time_s=None, true_break_word_index=None)]
    assert "all are of recordings" in render_sid_report(make_data(rows))


def test_samples_take_turns_over_categories_and_languages() -> None:
    table = make_sid_table(make_sid_rows(3))
    ids = choose_sid_samples(table, 8)
    kinds = {row_id.rsplit("-", 1)[0] for row_id in ids}
    assert len(kinds) == 8
    assert choose_sid_samples(table, 100)[:8] == ids


def test_a_break_is_a_line_where_it_is_and_words_lie_where_they_are_said() -> None:
    row = make_sid_row(0, MIDDLE)
    audio = row["audio"]["bytes"]
    picture = draw_word_waveform(audio, row["words"], row["break_time_s"], "x", row["true_break_time_s"], (-1.0, 0.4))
    at = 100 * row["break_time_s"] / row["duration_s"]
    assert f'<span class="break" style="left:{at:.2f}%">' in picture
    assert f'<span class="truth" style="left:{at:.2f}%">' in picture
    words = re.findall(r'<span class="(\w+)" style="left:[\d.]+%;width:[\d.]+%" title="(\S+) ', picture)
    assert [kind for kind, _ in words] == ["primary"] * 2 + ["third"] * 5
    assert [word for _, word in words] == [word["word"] for word in row["words"]]
    assert 'class="other" style="left:0.00%' in picture


def test_without_a_break_there_is_no_line() -> None:
    row = make_sid_row(0, UNINTERRUPTED)
    picture = draw_word_waveform(row["audio"]["bytes"], row["words"], None, "x")
    assert 'class="break"' not in picture
    assert 'path class="third"' not in picture


def test_texts_are_escaped() -> None:
    row = make_sid_row(0, MIDDLE, text_with_break="Right <break> <script>", context_text="<b>bold</b>")
    page = render_sid_report(make_data([row]))
    assert page.count("<script>") == 1  # the page's own
    assert "<b>bold" not in page
