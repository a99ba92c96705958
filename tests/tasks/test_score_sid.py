"""Groups, breakdowns and weights of a system's figures, and the tables made of them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from bystander.tasks.score_sid import list_clusters, score_system
from bystander.tasks.sid_examples import find_examples
from bystander.tasks.sid_tables import build_sid_tables, format_sid_table
from sid_evaluations import CASES, SETTINGS, STOPS, make_scores


def test_every_figure_by_hand() -> None:
    score = score_system("mine", CASES, STOPS, SETTINGS)
    groups = {one.group: one for one in score.groups}
    assert list(groups) == ["en", "zh", "noise_silence", "average"]
    english, average = groups["en"], groups["average"]
    assert english.counts == {"TP": 1, "FP": 1, "FN": 0, "TN": 1}
    assert (english.irl.mean, english.fir.mean) == (pytest.approx(0.4), pytest.approx(1 / 3))
    assert english.apt.mean == pytest.approx((0.4 + 4) / 3)
    assert groups["zh"].apt.mean == 2
    assert groups["noise_silence"].apt.mean == 10
    assert average.apt.mean == pytest.approx((0.4 + 4 + 2 + 20) / 6)
    assert (average.fir.mean, average.fir_nonbreak.mean) == (pytest.approx(2 / 6), pytest.approx(1 / 3))
    assert score.latencies_s == (pytest.approx(0.4),)
    weights = (1600 * 4.4 / 3 + 1600 * 2 + 500 * 10) / 3700
    assert score.paper_weights is not None
    assert score.paper_weights.apt == pytest.approx(weights)
    noise = score.category("noise")
    assert noise is not None
    assert (noise.false_alarms, noise.apt.mean) == (1, 20)
    breakdowns = {one.key: [group.group for group in one.groups] for one in score.breakdowns}
    assert breakdowns["category"] == ["beginning", "middle", "uninterrupted", "silence", "noise"]
    assert breakdowns["language and category"] == [
        "en beginning",
        "en middle",
        "en uninterrupted",
        "zh middle",
        "noise",
        "silence",
    ]
    assert len(breakdowns["source"]) == 5


def test_a_bench_without_a_group_has_no_paper_weights() -> None:
    english = [case for case in CASES if case.language == "en"]
    score = score_system("mine", english, STOPS, SETTINGS)
    assert score.paper_weights is None
    assert [one.group for one in score.groups] == ["en", "average"]
    assert score.category("noise") is None


def test_many_sources_are_put_together() -> None:
    cases = [replace(CASES[0], id=str(n), source=f"file {n // 2 if n < 20 else n}") for n in range(40)]
    score = score_system("mine", cases, {case.id: None for case in cases}, SETTINGS)
    (sources,) = [one for one in score.breakdowns if one.key == "source"]
    assert [one.group for one in sources.groups[:2]] == ["file 0", "file 1"]
    assert (len(sources.groups), sources.groups[-1].group, sources.groups[-1].cases) == (20, "others", 11)


def test_recordings_are_drawn_where_they_are_known() -> None:
    cases = [replace(CASES[0], id=str(n), recording_id="r" if n < 2 else None) for n in range(4)]
    assert len(set(list_clusters(cases, "recording"))) == 3
    assert len(set(list_clusters(cases, "case"))) == 4


def test_the_tables_have_the_papers_form() -> None:
    tables = build_sid_tables(make_scores())
    assert [f"{column.group}.{column.metric}" for column in tables.columns] == [
        *(f"{group}.{metric}" for group in ("en", "zh") for metric in ("irl", "fir", "apt")),
        "noise_silence.fir",
        "noise_silence.apt",
        *(f"average.{metric}" for metric in ("irl", "fir", "apt")),
    ]
    assert [cell.text for cell in tables.rows[0].cells][:6] == ["0.400", "0.333", "1.467", "–", "0.000", "2.000"]
    # Of ZH latencies there is one alone, which is no best.
    assert [at for at, cell in enumerate(tables.rows[1].cells) if not cell.best] == [3]
    assert tables.rows[2].published
    assert [cell.text for cell in tables.rows[2].cells][-3:] == ["0.000", "0.840", "3.627"]
    alarms = tables.alarms[0]
    assert (alarms.silence_alarms, alarms.silence_apt, alarms.noise_alarms, alarms.noise_apt) == (0, 0, 1, 20)
    assert len(build_sid_tables(make_scores(), published=False).rows) == 2


def test_notes_say_what_is_to_be_known() -> None:
    notes = "\n".join(build_sid_tables(make_scores()).notes)
    assert "Average: over the 6 clips of this bench (EN 3, ZH 1, Noise & silence 2), not the paper's" in notes
    assert "other: 2 of 6 clips have no prediction and count as never stopped; 1 of them have a break." in notes
    assert "other: 3 predictions are of no clip of this bench." in notes
    assert "Moshi (published): its noise and silence APT" in notes
    paper = {"en": 1600, "zh": 1600, "noise_silence": 500, "average": 3700}
    scores = make_scores()
    whole = make_scores(bench=scores.bench.model_copy(update={"cases": paper}))
    assert not any(note.startswith("Average") for note in build_sid_tables(whole).notes)
    assert any("No stop counts as exact" in note for note in build_sid_tables(make_scores(tolerance_s=None)).notes)


def test_markdown_csv_and_json_say_the_same() -> None:
    scores = make_scores()
    markdown = format_sid_table(scores, "markdown")
    assert "| mine | 0.400 | 0.333 | 1.467 | – | 0.000 | 2.000 | 0.500 | 10.000 | 0.400 | 0.333 | 4.400 |" in markdown
    assert "| FireRedChat (pVAD) (published) | 0.474 | 0.734 |" in markdown
    assert "2.0 ms" in markdown
    records = json.loads(format_sid_table(scores, "json"))
    rows = list(csv.DictReader(io.StringIO(format_sid_table(scores, "csv"))))
    assert len(records) == len(rows)
    mine = next(one for one in records if (one["system"], one["group"]) == ("mine", "average"))
    assert (mine["apt"], mine["FP"], mine["early"], mine["apt_of_missed"]) == (
        pytest.approx(4.4),
        2,
        1,
        pytest.approx(2 / 6),
    )
    assert [float(one["apt"]) for one in rows] == pytest.approx([one["apt"] for one in records])
    assert not any(one["published"] for one in json.loads(format_sid_table(scores, "json", published=False)))


def test_examples_are_the_costliest_of_each_kind() -> None:
    cases = [*CASES, replace(CASES[2], id="g"), replace(CASES[2], id="h", duration_s=3.0)]
    stops = {"mine": {**STOPS, "g": 0.5, "h": 0.5}, "never": {case.id: None for case in cases}}
    examples = find_examples(cases, stops, SETTINGS, most=9)
    # By turns: early of mine, missed of mine, without speech of mine; backchannel of mine, missed of never; the rest.
    assert [one.id for one in examples] == ["b", "d", "f", "h", "a", "g"]
    outcomes = {one.system: (one.outcome, one.early, one.stop_time_s, one.penalty_s) for one in examples[0].outcomes}
    assert outcomes == {"mine": ("FP", True, 0.2, 4.0), "never": ("FN", False, None, 3.0)}
    assert len(find_examples(cases, stops, SETTINGS, most=2)) == 2
    assert find_examples(cases, {"perfect": {case.id: case.break_time_s for case in cases}}, SETTINGS, 9) == ()
