"""The page of a training run."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bystander.pages.training_report import render_training_report
from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.training_data import DataRecord, PartRecord, SourceRecord
from bystander.schemas.training_report import (
    CropExample,
    CropFigures,
    DetectorBench,
    DetectorRow,
    PhaseCurves,
    ThresholdChoice,
    ThresholdScore,
    TrainingReport,
)
from html_pages import Page
from mixture_samples import FALSE, SEEDS, make_results
from sid_rows import make_clip

HOSTILE = "<script>alert('x')</script>&\"'"


@dataclass(frozen=True)
class Record:
    step: int
    epoch: float = 0.5
    loss: float | None = None
    held_out_loss: float | None = None
    learning_rate: float | None = None
    gradient_norm: float | None = None


def make_estimate(mean: float | None, half: float = 0.1) -> Estimate:
    if mean is None:
        return Estimate(mean=None, low=None, high=None, n=0)
    return Estimate(mean=mean, low=mean - half, high=mean + half, n=40)


def make_row(name: str, apt_s: float, irl_s: float | None = 0.3, **changes: Any) -> DetectorRow:
    return DetectorRow(name, make_estimate(0.25), make_estimate(irl_s), make_estimate(apt_s), **changes)


def make_history(steps: int = 50) -> tuple[Record, ...]:
    return tuple(
        Record(step, step / 25, 3.0 / step, 2.0 if step % 10 == 0 else None, 1e-4 * (1 - step / steps), 1.5)
        for step in range(1, steps + 1)
    )


def make_record(**changes: Any) -> DataRecord:
    found: dict[str, Any] = {
        "mixture": "va",
        "seed": 7,
        "held_out_share": 0.02,
        "sources": (
            SourceRecord(
                address="/store/tpi-train/demo",
                kind="tpi",
                dataset="tpi-train",
                build="demo",
                rows_digest="blake2:aa",
                rows=653,
            ),
            SourceRecord(address="s3://bucket/dyadic.parquet", kind="dyadic", rows_digest="blake2:bb", rows=204),
        ),
        "parts": {
            "two_speaker": PartRecord(rows=640, held_out=13, proportion=0.5, an_epoch=320),
            "dyadic": PartRecord(rows=200, held_out=4, an_epoch=200),
        },
        "train_digest": "blake2:cc",
        "held_out_digest": "blake2:dd",
        "left_out": {"empty_reply": 3, "too_long": 12, "unreadable_audio": 3},
    }
    return DataRecord(**{**found, **changes})


def make_report(**changes: Any) -> TrainingReport:
    words = [{"word": "wait", "start_s": 0.4, "end_s": 0.7}, {"word": "no", "start_s": 0.8, "end_s": 1.1}]
    example = CropExample("clip-1", make_clip(words, 2.0), words, 0.4, 0.8, (0.5, 1.0, 1.9))
    report = TrainingReport(
        title="Training sid-demo",
        summary="A recurrent detector, trained on 640 rows.",
        facts=(("seed", "7"),),
        settings={"optimisation": {"epochs": 2.0, "batch_size": 16}, "data": ["/store/sid-train/demo"]},
        data=make_record(),
        phases=(PhaseCurves("training", make_history(), (20, 35)),),
        notes=("The held-out slice has 17 rows.",),
        crops=CropFigures(
            1, (-0.3, 0.2, 1.1), (0.1, 0.6, 1.5), (False, True, True), (-1.0, 0.0, 1.0), (0.1, 0.6, 0.1), 8, (example,)
        ),
        threshold=ThresholdChoice(17, [ThresholdScore(t / 10, 2 - t / 10, 0.5) for t in range(1, 10)], 0.9),
        benches=(
            DetectorBench(
                "embedded bench",
                120,
                (
                    make_row("energy_vad", 3.0, is_vad=True),
                    make_row("silero_vad", 2.0, is_vad=True),
                    make_row("recurrent", 0.5, is_trained=True),
                    make_row("never", 1.9, None, note="control"),
                ),
                goal=3.0,
            ),
        ),
    )
    return replace(report, **changes)


def read_rows(text: str) -> list[list[str]]:
    """Return the text of all cells of the page's tables, row by row."""
    rows = re.findall(r"<tr[ >].*?</tr>", text, re.DOTALL)
    cells = (re.findall(r"<t[hd][ >].*?</t[hd]>", row, re.DOTALL) for row in rows)
    return [[re.sub(r"<[^>]*>", "", cell).strip() for cell in row] for row in cells]


def render(**changes: Any) -> Page:
    return Page(render_training_report(make_report(**changes)))


def test_page_is_whole_and_loads_nothing() -> None:
    report = make_report(mixtures=make_results())
    text = render_training_report(report)
    page = Page(text)
    assert not re.search(r"(?:src|href|url|@import)[=(\s\"']*(?:https?:)?//", text)
    assert "script" not in {tag for tag, _ in page.elements}
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(set(ids)) == len(ids)
    links = {a["href"].removeprefix("#") for a in page.find("a")}
    assert links == {"detectors", "mixtures", "data", "curves", "crops", "threshold", "settings"} <= set(ids)
    assert all(a["aria-label"] for a in page.find("svg") if "role" in a)
    assert text == render_training_report(report)


def test_what_is_not_there_has_no_section() -> None:
    page = Page(render_training_report(TrainingReport("Training x", "Nothing yet.")))
    assert page.find("section") == page.find("a") == []
    assert "Nothing yet." in page.text


def test_data_and_settings_are_told() -> None:
    text = render_training_report(make_report())
    page, rows = Page(text), read_rows(text)
    assert ["two_speaker", "640", "0.5", "320", "13"] in rows
    assert ["All", "840", "", "520", "17"] in rows
    assert ["Parquet", "dyadic", "s3://bucket/dyadic.parquetblake2:bb", "204"] in rows
    start = rows.index(["Reason", "Rows"])
    assert rows[start + 1 : start + 4] == [["too_long", "12"], ["empty_reply", "3"], ["unreadable_audio", "3"]]
    assert "Mixture va" in page.text
    for text in ("optimisation.batch_size", "16", '["/store/sid-train/demo"]', "The held-out slice has 17 rows."):
        assert text in page.text


def test_curves_say_what_they_show_and_where_the_run_was_resumed() -> None:
    page = render()
    loss, rate, norm = [
        a["aria-label"] for a in page.find("svg") if a.get("aria-label", "").startswith(("Los", "Le", "Gr"))
    ]
    assert loss == (
        "Loss. trained on: first 3, lowest 0.06, highest 3, last 0.06; held out: first 2, lowest 2, highest 2, last 2; "
        "resumed at step 20, 35 at 20, 35"
    )
    assert "last 0" in rate
    assert norm.startswith("Gradient norm. Gradient norm: first 1.5")
    marks = page.find("span", "event")
    assert [a["style"] for a in marks if "style" in a] == ["left:40.00%", "left:70.00%"] * 3
    assert "0.06" in page.text  # in the tiles and in the table of figures


def test_one_point_is_a_dot_in_the_middle_of_its_axis() -> None:
    page = render(phases=(PhaseCurves("training", (Record(1, loss=2.5),)),), threshold=None, crops=None)
    (dot,) = page.find("path", "dot")
    assert dot["d"] == "M1000.0 200.0h0"


def test_long_histories_are_thinned() -> None:
    text = render_training_report(make_report(phases=(PhaseCurves("training", make_history(20_000)),)))
    assert len(text) < 400_000
    assert max(a["d"].count("L") for a in Page(text).find("path", "line")) == 999


def test_detectors_are_held_against_the_best_vad() -> None:
    page = render()
    told = "APT of recurrent: 0.500 s. Of the best VAD, silero_vad: 2.000 s, 4.00 times as much. The goal, 3 times, is"
    assert f"{told} reached." in page.text
    rows = re.findall(
        r"(recurrent|never|silero_|energy_)(?:vad)? (?:trained here|VAD|control)\s+(\d\.\d{3})", page.text
    )
    assert rows == [("recurrent", "0.500"), ("never", "1.900"), ("silero_", "2.000"), ("energy_", "3.000")]
    labels = [a["aria-label"] for a in page.find("div", "lane-of-dot") if "aria-label" in a]
    assert "recurrent: 0.50, interval 0.40 to 0.60, n 40" in labels
    assert not any(label.startswith("never: 0.30") for label in labels)  # it has no latency
    missed = make_report().benches[0]
    assert "The goal, 5 times, is missed." in render(benches=(replace(missed, goal=5.0),)).text
    without = replace(missed, rows=[row for row in missed.rows if not row.is_vad])
    assert "best VAD," not in render(benches=(without,)).text


def test_crops_are_drawn_against_their_density() -> None:
    page = render()
    (label,) = [a["aria-label"] for a in page.find("svg") if a.get("aria-label", "").startswith("Where crops end")]
    # Three crops in bins of 0.1 s: 1 / (3 x 0.1) per second at most.
    assert "crops as drawn: 14 bars, lowest 0, highest 3.333" in label
    assert "density that is wanted: first 0.6" in label
    (shares,) = [a["aria-label"] for a in page.find("svg") if a.get("aria-label", "").startswith("Share of positive")]
    assert "3 bars, lowest 0, highest 1" in shares
    assert [a["title"] for a in page.find("span", "yes")] == ["1.00 s, positive", "1.90 s, positive"]
    assert [a["title"] for a in page.find("span", "no") if "title" in a] == ["0.50 s, negative"]
    for text in ("66.7%", "3 crops, 2 of them positive", "wait"):
        assert text in page.text


def test_mixtures_are_told_with_every_seed() -> None:
    page = render(mixtures=make_results())
    means = "base 0.950, va 0.800, full 0.100"
    assert f"Share of one-speaker rows taken for an interruption: {means}. TPI-Test accuracy: base 0.700" in page.text
    assert len(page.find("span", "single")) == 3 * 3 * 3 * len(SEEDS)
    assert len(page.find("svg", "scatter")) == len(FALSE)
    assert page.text.count("hard negative from two speakers") == 1
    for text in ("0.86", "0.67", "0.16", "+0.700", "< 0.001", "length of the clip", "80 linked pairs"):
        assert text in page.text
    for text in ("2.750", "4.250", "-0.500", "0.610", "39 pairs of clips", "0.165", "0.945", "0.735", "0.985"):
        assert text in page.text
    assert page.text.count("Effect of words, log-odds") == 1
    bare = dict.fromkeys(("comparisons", "confounds", "projections", "separations", "swaps", "spliced"), ())
    alone = render(mixtures=make_results(("text",), **bare))
    assert "swapped inputs" not in alone.text
    assert "The seam" not in alone.text
    assert "What has nothing to do" not in alone.text
    assert not alone.find("svg", "scatter")


@pytest.mark.parametrize("name", [HOSTILE, "a" * 300, "…\u202e名前"])
def test_names_cannot_break_the_page(name: str) -> None:
    report = make_report()
    bench = report.benches[0]
    text = render_training_report(
        replace(
            report,
            title=name,
            summary=name,
            facts=((name, name),),
            settings={name: {name: name}},
            data=make_record(
                mixture=name, parts={name: PartRecord(rows=1, held_out=1, an_epoch=1)}, left_out={name: 1}
            ),
            phases=(PhaseCurves(name, make_history()), PhaseCurves("two", make_history())),
            notes=(name,),
            benches=(replace(bench, title=name, note=name, rows=(make_row(name, 1.0, note=name), *bench.rows)),),
            mixtures=make_results(name=name, notes=(name,)),
        )
    )
    page = Page(text)
    assert "script" not in {tag for tag, _ in page.elements}
    assert name in page.text
