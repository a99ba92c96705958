"""One page of several runs, evaluations and an experiment."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bystander.cli.main import app
from bystander.pages.training_report import render_training_report
from bystander.schemas.errors import BuildError
from bystander.schemas.evaluation_scores import RaterInfo
from bystander.schemas.mixture_results import RESULTS_NAME
from bystander.schemas.sid_evaluation_scores import SidScores
from bystander.storage.filesystem import open_store
from bystander.tasks.training.report_experiments import describe_bench, describe_experiments
from html_pages import Page
from mixture_samples import make_results
from sid_evaluations import make_scores


def make_detectors() -> SidScores:
    vad = {"kind": "detector", "name": "k_consecutive", "settings": {"k": "3", "of": "silero_vad"}}
    trained = {"kind": "detector", "name": "recurrent", "settings": {}}
    return make_scores(systems=(RaterInfo(name="mine", identity=vad), RaterInfo(name="other", identity=trained)))


def test_detectors_are_what_their_engines_are() -> None:
    scores = make_detectors()
    bench = describe_bench(scores, goal=3.0)
    assert (bench.title, bench.clips, bench.goal) == ("sid-bench / b", 6, 3.0)
    assert [(row.name, row.is_vad, row.is_trained) for row in bench.rows] == [
        ("mine", True, False),
        ("other", False, True),
    ]
    everything = scores.scores[0].groups[-1]
    assert (bench.rows[0].apt_s, bench.rows[0].fir) == (everything.apt, everything.fir)
    assert bench.note == ""
    assert "tiny was trained on these very clips" in describe_bench(scores, None, "tiny").note
    assert [row.is_vad or row.is_trained for row in describe_bench(make_scores()).rows] == [False, False]


def test_an_experiment_is_shown_with_a_link_to_its_page(tmp_path: Path) -> None:
    folder = tmp_path / "store" / "trained" / "mixtures-demo"
    folder.mkdir(parents=True)
    (folder / RESULTS_NAME).write_text(make_results().model_dump_json(), "utf-8")
    beside = open_store(str(tmp_path / "store" / "trained"))
    report = describe_experiments([], [], open_store(str(folder)), None, beside)
    assert report.links == [("mixtures mixtures-demo", "mixtures-demo/report.html")]
    page = Page(render_training_report(report))
    assert "mixtures-demo/report.html" in {link["href"] for link in page.find("a")}
    found = CliRunner().invoke(app, ["train", "report", "--mixtures", str(folder), "--out", str(tmp_path / "all.html")])
    assert (found.exit_code, found.output.strip()) == (0, str(tmp_path / "all.html"))
    text = (tmp_path / "all.html").read_text("utf-8")
    assert 'href="store/trained/mixtures-demo/report.html"' in text


def test_what_is_unfinished_or_damaged_is_named(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    with pytest.raises(BuildError, match=r"results\.json: is missing, so this is no finished experiment"):
        describe_experiments([], [], store, None, store)
    (tmp_path / RESULTS_NAME).write_text("{}", "utf-8")
    with pytest.raises(BuildError, match=r"results\.json: is damaged or of another version \(name: Field required\)"):
        describe_experiments([], [], store, None, store)
    found = CliRunner().invoke(app, ["train", "report", "--out", str(tmp_path / "x.html")])
    assert "name what it is about with --run, --evaluation or --mixtures" in str(found.exception or found.output)
