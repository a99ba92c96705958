from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bystander.schemas.errors import StorageError
from bystander.schemas.evaluation_scores import Agreement, EvaluationScores, RaterInfo
from bystander.schemas.evaluation_table import show_figure
from bystander.schemas.taxonomy import load_taxonomy
from bystander.storage.filesystem import Store, open_store
from bystander.tasks.report_evaluation import write_evaluation_report
from evaluation_samples import JUDGES, SKILLS, SampleEvaluation, make_evaluation, make_scores, make_system
from html_pages import Page


@pytest.fixture(scope="module")
def sample() -> SampleEvaluation:
    return make_evaluation(rows_a_scenario=1, resamples=100)


@pytest.fixture
def store(sample: SampleEvaluation, tmp_path: Path) -> Store:
    found = open_store(tmp_path)
    sample.write_verdicts(found)
    return found


def write(store: Store, scores: EvaluationScores, bench: pa.Table, **options: Any) -> str:
    write_evaluation_report(store, scores, bench, **options)
    return store.read_bytes("report.html").decode()


def replace_verdict(sample: SampleEvaluation, store: Store, **changes: Any) -> str:
    """Change the first example's row of verdicts; returns its id."""
    first = sample.scores.examples[0]
    key = first.system, first.judge
    table = sample.judged[key]
    rows = [row | (changes if row["id"] == first.id else {}) for row in table.to_pylist()]
    changed = {**sample.judged, key: pa.Table.from_pylist(rows, schema=table.schema)}
    SampleEvaluation(sample.scores, sample.bench, changed).write_verdicts(store)
    return first.id


def test_page_is_whole_loads_nothing_and_is_the_same_again(sample: SampleEvaluation, store: Store) -> None:
    text = write(store, sample.scores, sample.bench)
    assert text.startswith("<!doctype html>")
    page = Page(text)
    assert "http:" not in text
    assert "https:" not in text
    assert not re.search(r"url\(|@import", text)
    assert not {"script", "link", "iframe", "img"} & {tag for tag, _ in page.elements}
    assert all(a.get("src", "data:").startswith("data:") for _, a in page.elements)
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"].removeprefix("#") for a in page.find("a")} <= set(ids)
    assert {a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a} <= set(ids)
    assert write(store, sample.scores, sample.bench) == text


def test_every_figure_is_on_the_page(sample: SampleEvaluation, store: Store) -> None:
    page = Page(write(store, sample.scores, sample.bench))
    spoken = [a["aria-label"] for _, a in page.elements if "aria-label" in a]
    hints = [a["title"] for _, a in page.elements if "title" in a]
    for score in sample.scores.scores:
        estimates = [m.estimate for test in score.tests for m in test.metrics.values()]
        for estimate in estimates:
            figures = [show_figure(x) for x in (estimate.mean, estimate.low, estimate.high)]
            assert f"{score.judge}: {figures[0]}, interval {figures[1]} to {figures[2]}, n {estimate.n}" in spoken
            assert f"{figures[0]}{figures[1]} to {figures[2]}" in page.text
        for breakdown in (b for test in score.tests for b in test.breakdowns):
            if len(breakdown.values) < 2:
                continue
            for metrics in breakdown.values.values():
                for metric, found in metrics.items():
                    mean, low, high = (show_figure(x) for x in (found.mean, found.low, found.high))
                    if breakdown.key == "scenario":
                        assert f"{score.system}, {metric.upper()}: {low} to {high}, n {found.n}" in hints
                    else:
                        assert f"{score.system}: {mean}, interval {low} to {high}, n {found.n}" in spoken
    for scenario in load_taxonomy().keys:
        assert scenario in page.text
    for control in sample.scores.controls:
        assert f"{show_figure(control.low)} to {show_figure(control.high)}" in page.text
    for one in sample.scores.comparisons:
        assert f"{one.difference:+.3f}" in page.text
        assert one.method in page.text
    for agreement in sample.scores.agreements:
        assert show_figure(agreement.kappa) in page.text
    assert len(page.find("svg", "scatter")) == 1
    assert len(page.find("details", "judge")) == len(JUDGES)


def test_best_figures_are_bold_and_published_ones_marked(sample: SampleEvaluation, store: Store) -> None:
    plain = Page(write(store, sample.scores, sample.bench))
    assert plain.find("tr", "published") == []
    page = Page(write(store, sample.scores, sample.bench, published=True))
    assert len(page.find("tr", "published")) == 8
    assert "Published, measured on another bench" in page.text
    assert "https://arxiv.org/abs/2604.17358v1" in page.text
    assert page.find("a") == plain.find("a")
    scores = make_scores(
        make_system("a", "j", (0.9, 2.0, 0.5, 3.0), missing=4),
        make_system("b", "j", (0.1, 2.0, 0.2, 1.0), unparsable=2),
    )
    text = write(store, scores, sample.bench)
    table = text[text.index('<table class="headline">') : text.index("</table>")]
    assert re.findall(r"<strong>([\d.]+)</strong>", table) == [
        *("0.90", "2.00", "3.00", "0.25", "0.50"),
        *("2.00", "0.20", "0.25", "0.50"),
    ]
    assert table.count("4 missing") == 2
    assert table.count("2 unparsable") == 2


def test_clips_are_played_once_with_all_answers(sample: SampleEvaluation, store: Store) -> None:
    page = Page(write(store, sample.scores, sample.bench))
    ids = list(dict.fromkeys(one.id for one in sample.scores.examples))
    by_id = {row["id"]: row for row in sample.bench.to_pylist()}
    clips = [base64.b64decode(a["src"].removeprefix("data:audio/flac;base64,")) for a in page.find("audio")]
    assert clips == [by_id[row_id]["audio"]["bytes"] for row_id in ids]
    assert len(page.find("div", "wave")) == len(ids)
    assert len(page.find("h4")) == len(sample.scores.examples) > len(ids)
    for row_id in ids:
        assert by_id[row_id]["third_party_text"] in page.text
        assert f"The reply to {row_id} earns" in page.text
    assert page.text.count("Judge on OH") == len(sample.scores.examples)
    assert "Sure. A table for" in page.text


def test_untrusted_text_is_escaped(sample: SampleEvaluation, store: Store) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=y>"
    verdict = {"score": 0, "rationale": evil, "raw_output": evil, "attempts": 1, "fault": None}
    replace_verdict(sample, store, answer=evil, rsf=verdict, oh=verdict)
    judged = make_system(evil, evil, (0.9, 2.0, 0.5, 3.0))
    scores = sample.scores.model_copy(
        update={
            "name": evil,
            "pack": evil,
            "systems": (*sample.scores.systems, RaterInfo(name=evil, identity={evil: evil})),
            "judges": (*sample.scores.judges, RaterInfo(name=evil, identity={})),
            "scores": (*sample.scores.scores, judged),
            "comparisons": tuple(
                c.model_copy(update={"first": evil, "method": evil}) for c in sample.scores.comparisons
            ),
            "controls": tuple(c.model_copy(update={"name": evil, "note": evil}) for c in sample.scores.controls),
            "projections": tuple(p.model_copy(update={"system": evil}) for p in sample.scores.projections),
        }
    )
    bench = sample.bench.set_column(
        sample.bench.schema.get_field_index("primary_text"),
        sample.bench.schema.field("primary_text"),
        pa.array([evil] * len(sample.bench)),
    )
    text = write(store, scores, bench)
    assert "<script" not in text
    assert "<img" not in text
    page = Page(text)
    # Title, head, facts, table, plots, comparisons, controls, picture, texts, answer, two rationales.
    assert page.text.count("<script>alert(1)</script>") > 12
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_an_answer_that_is_missing_says_why(sample: SampleEvaluation, store: Store) -> None:
    none = {"score": None, "rationale": None, "raw_output": None, "attempts": 0, "fault": "not_answered"}
    replace_verdict(sample, store, answer=None, answer_fault="timeout: no reply in 60 s", rsf=none, oh=none)
    assert "none: timeout: no reply in 60 s" in Page(write(store, sample.scores, sample.bench)).text
    replace_verdict(sample, store, answer="", answer_fault=None)
    assert len(Page(write(store, sample.scores, sample.bench)).find("span", "bad")) == 1
    replace_verdict(sample, store, answer="word " * 10_000)
    long = Page(write(store, sample.scores, sample.bench)).text
    assert "word …" in long
    assert long.count("word ") < 300


def test_one_judge_and_undefined_agreement(sample: SampleEvaluation, store: Store) -> None:
    agreement = Agreement(
        first="j", second="people", system="a", test="tpi_test", metric="rsf", n=3,
        pearson=None, p=None, kappa=None, undefined="the second gives every row the score 1",
    )  # fmt: skip
    scores = make_scores(make_system("a", "j", (0.9, 2.0, 0.5, 3.0)), agreements=(agreement,))
    page = Page(write(store, scores, sample.bench))
    assert "the second gives every row the score 1" in page.text
    assert "Why undefined" in page.text
    assert "under each judge" not in page.text
    assert "A comparison needs two systems." in page.text
    for text in ("No breakdowns.", "No controls were run.", "No embeddings were given.", "No examples."):
        assert text in page.text
    assert "Why undefined" not in write(store, sample.scores, sample.bench)


def test_an_evaluation_of_nothing_has_a_page(sample: SampleEvaluation, store: Store) -> None:
    assert "No systems." in Page(write(store, make_scores(), sample.bench.slice(0, 0))).text


def test_what_is_missing_is_named(sample: SampleEvaluation, store: Store) -> None:
    first = sample.scores.examples[0]
    with pytest.raises(StorageError, match=f"the bench has no row .*{first.id}"):
        write(store, sample.scores, sample.bench.slice(0, 0))
    lost = sample.scores.model_copy(update={"examples": (first.model_copy(update={"id": "row-x"}),)})
    with pytest.raises(StorageError, match=r"large\.parquet: has no row row-x"):
        write(store, lost, sample.bench)
    file = f"verdicts/{first.system}.{first.judge}.parquet"
    store.write_bytes(file, b"PAR1 no more")
    with pytest.raises(StorageError, match=r"large\.parquet: cannot be read"):
        write(store, sample.scores, sample.bench)
    store.remove(file)
    with pytest.raises(StorageError, match=r"large\.parquet: is missing"):
        write(store, sample.scores, sample.bench)


def test_systems_keep_their_mark_everywhere(sample: SampleEvaluation, store: Store) -> None:
    page = Page(write(store, sample.scores, sample.bench))
    legend = [a["class"] for a in page.find("span", "mark")]
    for at in range(len(SKILLS)):
        assert f"mark s{at} shape{at}" in legend
