"""The whole evaluation on a small build: detectors hear it, predictions are matched, all files say the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bystander.flows.check_evaluate_sid import check_evaluate_sid
from bystander.flows.evaluate_sid import run_evaluate_sid
from bystander.flows.evaluation_flow import EvaluationOutcome
from bystander.flows.listeners import SilentListener, listening
from bystander.schemas.errors import ConfigError, InputError, UserError
from bystander.schemas.evaluate_sid_config import EvaluateSidConfig, load_sid_evaluation_config
from bystander.schemas.sid_evaluation_scores import SidScores, SidSystemScore
from bystander.storage.evaluation_manifest import read_evaluation
from bystander.storage.filesystem import open_store
from bystander.storage.sid_export import export_sid_bench
from bystander.storage.sid_jsonl import read_predictions
from bystander.storage.stage_results import StageResult
from sid_rows import make_sid_rows, write_sid_build

ROWS = make_sid_rows(2)
Stop = Callable[[Mapping[str, Any]], float | None]


class Results(SilentListener):
    """Notes which stage results were made, and which were found again, and what was said."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.reused: list[str] = []
        self.phases: list[str] = []

    def on_result(self, stage: str, result: StageResult, reused: bool) -> None:
        (self.reused if reused else self.made).append(stage)

    def on_phase(self, phase: str) -> None:
        self.phases.append(phase)


def stop_at_break(row: Mapping[str, Any]) -> float | None:
    return None if row["total_nonbreak"] else row["break_time_s"]


def write_predictions(path: Path, stop: Stop = stop_at_break, name: str = "{id}.flac", skip: int = 0) -> str:
    lines = [
        {
            "audio": name.format(id=row["id"]),
            "total_nonbreak": stop(row) is None,
            "break_time": -1 if stop(row) is None else stop(row),
        }
        for row in ROWS[skip:]
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return str(path)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("benches") / "bench"
    write_sid_build(folder, ROWS)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluation")


def make_config(bench: Path, folder: Path, **fields: Any) -> EvaluateSidConfig:
    return EvaluateSidConfig.model_validate(
        {
            "bench": fields.pop("uri", str(bench)),
            "store": str(folder / "store"),
            "name": "first",
            "resamples": 100,
            **fields,
        }
    )


def evaluate(config: EvaluateSidConfig) -> tuple[EvaluationOutcome[SidScores], Results]:
    listener = Results()
    with listening(listener):
        return run_evaluate_sid(config), listener


def get(outcome: EvaluationOutcome[SidScores], system: str) -> SidSystemScore:
    return next(one for one in outcome.scores.scores if one.system == system)


FIELDS: dict[str, Any] = {"detectors": {"loud": {"engine": "fake_detector"}}, "partition_rows": 5}


@pytest.fixture(scope="module")
def first(bench: Path, folder: Path, prefect_server: None) -> EvaluationOutcome[SidScores]:
    predictions = {
        "perfect": write_predictions(folder / "perfect.jsonl"),
        "never": write_predictions(folder / "never.jsonl", lambda row: None, "clips/{id}.wav"),
    }
    return evaluate(make_config(bench, folder, predictions=predictions, **FIELDS))[0]


def test_known_systems_have_the_figures_that_they_must(first: EvaluationOutcome[SidScores]) -> None:
    assert [rater.name for rater in first.scores.systems] == ["loud", "perfect", "never"]
    perfect, never = get(first, "perfect").groups[-1], get(first, "never").groups[-1]
    assert (perfect.fir.mean, perfect.apt.mean, perfect.irl.mean) == (0, 0, 0)
    assert (perfect.counts["TP"], perfect.exact) == (8, 8)
    left = [row["duration_s"] - row["break_time_s"] for row in ROWS]
    assert (never.fir.mean, never.apt.mean) == (0, pytest.approx(sum(left) / len(ROWS)))
    assert get(first, "never").compute is None


def test_a_detector_of_loudness_stops_at_the_first_word(first: EvaluationOutcome[SidScores]) -> None:
    score = get(first, "loud")
    counts = {one.group: one.counts for one in score.breakdowns[0].groups}
    # It cannot tell a backchannel from an interruption: right only where the turn begins with one.
    assert counts["beginning"]["TP"] == 4
    assert (counts["middle"]["FP"], counts["uninterrupted"]["FP"]) == (4, 4)
    assert (counts["silence"]["TN"], counts["noise"]["FP"]) == (2, 2)
    assert score.groups[-1].early == 4
    assert score.compute is not None
    assert score.compute.heard_s > 0
    assert first.scores.bench.cases == {"en": 6, "zh": 6, "noise_silence": 4, "average": 16}


def test_all_files_are_there_and_say_the_same(first: EvaluationOutcome[SidScores], folder: Path) -> None:
    target = open_store(folder / "store/evaluations/first")
    manifest, scores = read_evaluation(target, SidScores)
    assert scores == first.scores
    assert {info.file for info in manifest.files} == {
        *(f"cases/{name}.parquet" for name in ("loud", "perfect", "never")),
        *(f"predictions/{name}.jsonl" for name in ("loud", "perfect", "never")),
        "references.jsonl",
        "report.html",
        "scores.json",
        "table.csv",
        "table.json",
        "table.md",
    }
    cases = pq.read_table(folder / "store/evaluations/first/cases/loud.parquet").to_pylist()
    assert [case["id"] for case in cases] == [row["id"] for row in ROWS]
    apt = get(first, "loud").groups[-1].apt.mean
    assert apt == pytest.approx(sum(case["penalty_s"] for case in cases) / len(cases))
    stops = read_predictions(str(folder / "store/evaluations/first/predictions/loud.jsonl")).stops
    assert list(stops.values()) == [case["stop_time_s"] for case in cases]


def test_what_is_published_can_be_scored_again(
    first: EvaluationOutcome[SidScores], folder: Path, tmp_path: Path
) -> None:
    done = folder / "store/evaluations/first"
    predictions = {"loud": str(done / "predictions/loud.jsonl")}
    config = make_config(done / "references.jsonl", tmp_path, predictions=predictions)
    again, _ = evaluate(config)
    assert again.scores.scores[0].groups == get(first, "loud").groups


def test_a_second_run_hears_nothing_anew(first: EvaluationOutcome[SidScores], bench: Path, folder: Path) -> None:
    predictions = {name: str(folder / f"{name}.jsonl") for name in ("perfect", "never")}
    written = (folder / "store/evaluations/first/manifest.json").stat().st_mtime_ns
    again, results = evaluate(make_config(bench, folder, predictions=predictions, **FIELDS))
    assert again.scores == first.scores
    assert not results.made
    assert (folder / "store/evaluations/first/manifest.json").stat().st_mtime_ns == written
    other, results = evaluate(make_config(bench, folder, name="other", **FIELDS))
    assert not results.made
    assert get(other, "loud") == get(first, "loud")  # computing time too


def test_a_published_copy_gives_the_same_scores(
    first: EvaluationOutcome[SidScores], bench: Path, tmp_path: Path
) -> None:
    export_sid_bench(str(bench), str(tmp_path / "copy"), audio="flac")
    copy, _ = evaluate(make_config(tmp_path / "copy", tmp_path, **{**FIELDS, "partition_rows": 64}))
    groups = {one.group: one for one in get(copy, "loud").groups}
    assert groups == {one.group: one for one in get(first, "loud").groups}


def test_missing_predictions_are_named_or_never_stopped(bench: Path, tmp_path: Path, prefect_server: None) -> None:
    predictions = {"short": write_predictions(tmp_path / "short.jsonl", skip=3)}
    with pytest.raises(
        InputError, match=r"system short: 3 of 16 clips have no prediction: beginning-en-0000.flac, .*--al"
    ):
        evaluate(make_config(bench, tmp_path, predictions=predictions))
    outcome, _ = evaluate(make_config(bench, tmp_path, predictions=predictions, allow_missing=True))
    score = get(outcome, "short")
    assert score.predictions is not None
    assert (score.predictions.missing, score.predictions.missing_with_break) == (3, 3)
    assert score.groups[-1].counts["FN"] == 3
    assert "3 of 16 clips have no prediction" in (tmp_path / "store/evaluations/first/table.md").read_text()


def test_unknown_and_doubled_predictions_are_counted(bench: Path, tmp_path: Path, prefect_server: None) -> None:
    path = Path(write_predictions(tmp_path / "more.jsonl"))
    line = path.read_text().splitlines()[0]
    path.write_text(path.read_text() + line + "\n" + line.replace("beginning", "unheard") + "\n")
    outcome, results = evaluate(make_config(bench, tmp_path, predictions={"more": str(path)}))
    info = get(outcome, "more").predictions
    assert info is not None
    assert (info.unknown, info.doubled, info.missing) == (1, 1, 0)
    assert "system more: 1 predictions are of no clip of this bench" in results.phases
    path.write_text(path.read_text() + line.replace(".flac", ".wav") + "\n")
    with pytest.raises(InputError, match=r"beginning-en-0000.wav is the clip that beginning-en-0000.flac is too"):
        evaluate(make_config(bench, tmp_path, predictions={"more": str(path)}))


def test_predictions_of_another_bench_are_refused(bench: Path, tmp_path: Path, prefect_server: None) -> None:
    path = write_predictions(tmp_path / "other.jsonl", name="x{id}.wav")
    with pytest.raises(InputError, match=r"none of its 16 predictions is of a clip of .*, the first is of xbeginning"):
        evaluate(make_config(bench, tmp_path, predictions={"other": path}))


def test_settings_change_what_they_say(bench: Path, tmp_path: Path, prefect_server: None) -> None:
    predictions = {"late": write_predictions(tmp_path / "late.jsonl", lambda row: row["break_time_s"] + 0.04)}
    strict, _ = evaluate(make_config(bench, tmp_path, predictions=predictions, tolerance_s=None, rows=1))
    average = get(strict, "late").groups[-1]
    assert (average.cases, average.exact, average.counts["FP"]) == (8, 0, 4)
    assert average.irl.mean == pytest.approx(0.04)
    capped, _ = evaluate(make_config(bench, tmp_path, name="capped", penalty_cap_s=0.5, **FIELDS))
    noise = get(capped, "loud").category("noise")
    assert noise is not None
    assert noise.apt_capped is not None
    assert (noise.apt.mean, noise.apt_capped.mean) == (pytest.approx(1.75), 0.5)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, "systems: name at least one, with --detectors"),
        ({"predictions": {"x": "nowhere.jsonl"}}, "predictions .*nowhere.jsonl: is missing"),
        ({"detectors": {"s": {"engine": "silero_vad", "model": "nothing"}}}, "nothing"),
        ({"detectors": {"s": {"engine": "fake_detector"}}, "uri": ""}, "bench: name the folder"),
    ],
)
def test_mistakes_are_found_before_any_work(bench: Path, tmp_path: Path, fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        check_evaluate_sid(make_config(bench, tmp_path, **fields))


def test_wrong_fields_are_named() -> None:
    fake = {"engine": "fake_detector"}
    for fields, fault in (
        ({"detectors": {"a/b": fake}}, "'a/b' is no name"),
        ({"detectors": {"A": fake}, "predictions": {"a": "x.jsonl"}}, "two systems would share a file"),
        ({"tolerance_s": -1}, "tolerance_s"),
        ({"unknown": 1}, "unknown"),
    ):
        with pytest.raises(ConfigError, match=fault):
            load_sid_evaluation_config((), fields)


def test_what_changes_the_speed_alone_changes_no_name() -> None:
    config = EvaluateSidConfig(bench="x")
    assert config.model_copy(update={"workers": 9, "partition_rows": 3}).evaluation_name == config.evaluation_name
    assert config.model_copy(update={"tolerance_s": None}).evaluation_name != config.evaluation_name
