from __future__ import annotations

import csv
import io
import json

import pytest

from bystander.tasks.evaluation_tables import adjust_comparisons, build_table, format_comparisons, format_table
from evaluation_samples import make_comparison, make_scores, make_system

GOOD = make_system("good", "large", (0.8, 4.5, 0.1, 4.8), (0.125, 0.3))
POOR = make_system("poor", "large", (0.2, 4.5, 0.3, 3.0), (0.9, None))
HEADS = "TPI-Test RSF ↑ | TPI-Test OH ↑ | Janus-Test RSF ↓ | Janus-Test OH ↑ | BLEU ↓ | ROUGE-L ↓"


def read_markdown(text: str) -> list[list[str]]:
    return [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("| ")]


def test_markdown_has_the_form_of_the_papers_table() -> None:
    text = format_table(make_scores(GOOD, POOR), "markdown")
    assert text.splitlines()[:4] == [
        f"| System | {HEADS} | n |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| good | **0.80** | **4.50** | **0.10** | **4.80** | **0.12** | 0.30 | 40 / 40 / 16 |",
        "| poor | 0.20 | **4.50** | 0.30 | 3.00 | 0.90 | – | 40 / 40 / 16 |",
    ]
    assert text.endswith("\n")
    assert "Missing" not in text
    assert "Holm" not in text


def test_figures_that_look_equal_are_both_best_and_a_lone_system_has_none() -> None:
    near = make_system("near", "large", (0.804, 4.5, 0.1, 4.8))
    cells = build_table(make_scores(GOOD, near, POOR)).rows
    assert [row.cells[0].best for row in cells] == [True, True, False]
    assert "**" not in format_table(make_scores(GOOD), "markdown")


def test_best_is_found_under_each_judge_in_the_evaluations_order() -> None:
    strict = make_system("poor", "strict", (0.1, 2.0, 0.0, 4.0)), make_system("good", "strict", (0.05, 1.0, 0.9, 4.5))
    scores = make_scores(GOOD, POOR, *strict)
    lines = read_markdown(format_table(scores, "markdown"))
    assert lines[0][:2] == ["System", "Judge"]
    assert [line[:3] for line in lines[2:]] == [
        ["good", "large", "**0.80**"],
        ["poor", "large", "0.20"],
        ["good", "strict", "0.05"],
        ["poor", "strict", "**0.10**"],
    ]
    assert [line[4] for line in lines[4:]] == ["0.90", "**0.00**"]
    assert "under each judge" in format_table(scores, "markdown")


def test_intervals_are_shown_if_asked_for() -> None:
    text = format_table(make_scores(GOOD, POOR), "markdown", intervals=True)
    assert read_markdown(text)[2][1] == "**0.80** [0.75, 0.85]"
    assert "95% bootstrap intervals" in text


def test_missing_and_unparsable_rows_are_counted() -> None:
    lossy = make_system("lossy", "large", (0.5, 3.0, 0.2, 4.0), missing=3, unparsable=2)
    lines = read_markdown(format_table(make_scores(GOOD, lossy), "markdown"))
    assert lines[0][-3:] == ["n", "Missing", "Unparsable"]
    assert [line[-2:] for line in lines[2:]] == [["0 / 0", "0 / 0"], ["3 / 0", "2 / 2"]]


def test_a_test_that_was_not_run_is_a_dash() -> None:
    one = make_system("one", "large", (0.5, 3.0, 0.2, 4.0), pairs=None)
    one = one.model_copy(update={"tests": one.tests[:1]})
    line = read_markdown(format_table(make_scores(one), "markdown"))[2]
    assert line == ["one", "0.50", "3.00", "–", "–", "–", "–", "40 / 0 / 0"]


def test_names_do_not_break_the_table() -> None:
    line = format_table(make_scores(make_system("a|b *c*\n<d>", "large", (0.5, 3, 0.2, 4))), "markdown").splitlines()[2]
    assert line.startswith(r"| a\|b \*c\* \<d\> | 0.50 |")


def test_published_systems_are_marked_and_take_no_part_in_the_best() -> None:
    scores = make_scores(GOOD, POOR)
    text = format_table(scores, "markdown", published=True)
    lines = read_markdown(text)
    assert [line[1] for line in lines if line[0] == "good"] == ["**0.80**"]
    full = next(line for line in lines if line[0].startswith("TPI-Full"))
    assert full == ["TPI-Full †", "0.83", "4.16", "0.16", "4.80", "0.12", "0.34", "–"]
    assert len(lines) == 2 + 2 + 8
    assert "† Published, measured on another bench" in text
    assert "arxiv.org/abs/2604.17358" in text
    assert "Published" not in format_table(scores, "markdown")


def test_csv_holds_full_precision() -> None:
    third = make_system("x, y", "large", (1 / 3, 3.0, 0.2, 4.0), (None, 0.5), missing=3, unparsable=2)
    rows = list(csv.DictReader(io.StringIO(format_table(make_scores(third), "csv", published=True))))
    own = rows[0]
    assert own["system"] == "x, y"
    assert own["judge"] == "large"
    assert own["published_source"] == ""
    assert float(own["tpi_test.rsf"]) == 1 / 3
    assert float(own["tpi_test.rsf.low"]) == 1 / 3 - 0.05
    assert float(own["tpi_test.rsf.high"]) == 1 / 3 + 0.05
    counts = ("n", "missing", "unparsable")
    assert [own[f"tpi_test.rsf.{name}"] for name in counts] == ["40", "3", "2"]
    assert [own[f"bleu{name}"] for name in ("", ".low", ".high", ".n")] == ["", "", "", "0"]
    assert rows[-1]["system"] == "TPI-Full"
    assert rows[-1]["published_source"].startswith("https://arxiv.org/")
    assert [rows[-1][f"janus_test.oh{name}"] for name in ("", ".low", ".n")] == ["4.8", "", ""]
    assert len(rows) == 9


def test_json_holds_all() -> None:
    scores = make_scores(GOOD, POOR, comparisons=(make_comparison("good", "poor", 0.004),))
    data = json.loads(format_table(scores, "json", published=True))
    assert [row["system"] for row in data["rows"][:3]] == ["good", "poor", "ChatGPT-4o-audio"]
    assert data["rows"][1]["scores"]["rouge_l"]["mean"] is None
    assert data["rows"][0]["scores"]["janus_test.rsf"] == {
        "mean": 0.1,
        "low": 0.1 - 0.05,
        "high": 0.1 + 0.05,
        "n": 40,
        "missing": 0,
        "unparsable": 0,
    }
    assert data["columns"][2] == {
        "key": "janus_test.rsf",
        "test": "Janus-Test",
        "title": "RSF",
        "higher_is_better": False,
    }
    assert (data["comparisons"][0]["p_holm"], data["comparisons"][0]["stars"]) == (0.004, "**")


def test_holms_correction_is_made_within_a_family() -> None:
    family = [make_comparison("a", "b", 0.01), make_comparison("a", "c", 0.04), make_comparison("b", "c", 0.03)]
    other = make_comparison("a", "b", 0.04, metric="oh")
    adjusted = adjust_comparisons([*family, other])
    # Holm: 3 * 0.01, then 2 * 0.03, then the greater of 0.04 and what went before.
    assert [one.adjusted_p for one in adjusted] == pytest.approx([0.03, 0.06, 0.06, 0.04])
    assert [one.stars for one in adjusted] == ["*", "", "", "*"]
    assert adjust_comparisons([]) == []


def test_comparisons_are_listed_with_p() -> None:
    comparisons = (
        make_comparison("good", "poor", 0.0004),
        make_comparison("good", "fair", 0.3, difference=-0.0001, effect_size=None),
        make_comparison("good", "poor", 0.2, metric="oh", method="Wilcoxon signed-rank, exact"),
    )
    lines = [
        "- TPI-Test RSF, judge large (McNemar, n 40): "
        r"good − poor +0.250 (p < 0.001 \*\*\*, effect +0.50); good − fair +0.000 (p = 0.300)",
        "- TPI-Test OH, judge large (Wilcoxon signed-rank, n 40): good − poor +0.250 (p = 0.200, effect +0.50)",
    ]
    assert format_comparisons(adjust_comparisons(comparisons)).splitlines() == lines
    text = format_table(make_scores(GOOD, POOR, comparisons=comparisons), "markdown")
    assert text.splitlines()[-2:] == lines
    assert r"(\* < 0.05, \*\* < 0.01, \*\*\* < 0.001)" in text


def test_an_evaluation_without_systems_has_a_table() -> None:
    assert len(read_markdown(format_table(make_scores(), "markdown"))) == 2
    assert len(format_table(make_scores(), "csv").splitlines()) == 1
    data = json.loads(format_table(make_scores(), "json"))
    assert (data["rows"], data["comparisons"], len(data["columns"])) == ([], [], 6)
