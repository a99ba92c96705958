"""The whole evaluation on a tiny copy of VoiceBench, with predictions and the fake judge: right, thrifty."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bystander.flows.check_evaluate_voicebench import check_evaluate_voicebench
from bystander.flows.evaluate_voicebench import run_evaluate_voicebench
from bystander.flows.evaluation_flow import EvaluationOutcome
from bystander.flows.listeners import SilentListener, listening
from bystander.schemas.errors import ConfigError, InputError, UserError
from bystander.schemas.evaluate_voicebench_config import EvaluateVoiceBenchConfig, load_voicebench_config
from bystander.schemas.voicebench import PARTS
from bystander.schemas.voicebench_scores import VoiceBenchScores
from bystander.storage.stage_results import StageResult
from voicebench_answers import ANSWERS, MEANS, write_predictions
from voicebench_copies import make_records, write_voicebench

JUDGED = ("alpacaeval", "commoneval", "wildvoice", "sd_qa")


class Results(SilentListener):
    """Notes which stage results were made, and which were found again."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.reused: list[str] = []

    def on_result(self, stage: str, result: StageResult, reused: bool) -> None:
        (self.reused if reused else self.made).append(stage)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_voicebench(tmp_path_factory.mktemp("voicebench"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluation")


def make_config(data: Path, folder: Path, **fields: Any) -> EvaluateVoiceBenchConfig:
    path = write_predictions(folder / "predictions.jsonl", fields.pop("answers", ANSWERS))
    return EvaluateVoiceBenchConfig.model_validate(
        {
            "data": fields.pop("data_folder", str(data)),
            "store": str(folder / "store"),
            "name": "first",
            "systems": {"tiny": {"engine": "predictions", "path": str(path)}},
            "judges": {"rules": {"engine": "fake_text"}},
            "resamples": 200,
            **fields,
        }
    )


def evaluate(config: EvaluateVoiceBenchConfig) -> tuple[EvaluationOutcome[VoiceBenchScores], Results]:
    listener = Results()
    with listening(listener):
        return run_evaluate_voicebench(config), listener


@pytest.fixture(scope="module")
def first(data: Path, folder: Path, prefect_server: None) -> EvaluationOutcome[VoiceBenchScores]:
    return evaluate(make_config(data, folder))[0]


def test_every_part_has_the_score_worked_out_by_hand(first: EvaluationOutcome[VoiceBenchScores]) -> None:
    scores = {score.part: score for score in first.scores.scores}
    assert [score.part for score in first.scores.scores] == [part.name for part in PARTS]
    assert {part: score.estimate.mean for part, score in scores.items()} == pytest.approx(MEANS)
    for part, score in scores.items():
        assert score.judge == ("rules" if part in JUDGED else None)
        assert score.estimate.low is not None
        assert score.estimate.high is not None
        assert score.estimate.low <= MEANS[part] <= score.estimate.high
    assert {part: score.unparsable for part, score in scores.items() if score.unparsable} == {"mmsu": 1}
    assert not any(score.missing for score in scores.values())
    assert scores["sd_qa"].details == {"holds_reference": 1 / 2}


def test_all_files_are_there_and_say_the_same(first: EvaluationOutcome[VoiceBenchScores], folder: Path) -> None:
    target = folder / "store/evaluations/first"
    manifest = json.loads((target / "manifest.json").read_text())
    assert {info["file"] for info in manifest["files"]} == {
        "answers/tiny.parquet",
        "verdicts/tiny.rules.parquet",
        "rejects.parquet",
        "scores.json",
        "table.csv",
        "table.json",
        "table.md",
    }
    answers = pq.read_table(target / "answers/tiny.parquet").to_pylist()
    assert {row["id"]: row["answer"] for row in answers} == ANSWERS
    verdicts = pq.read_table(target / "verdicts/tiny.rules.parquet").to_pylist()
    assert {row["part"] for row in verdicts} == set(JUDGED)
    assert [row["verdict"]["score"] for row in verdicts] == [4, 1, 4, 2, 5, 3, 1, 0]
    with (target / "table.csv").open() as stream:
        assert {row["part"]: float(row["mean"]) for row in csv.DictReader(stream)} == pytest.approx(MEANS)
    assert "published" not in (target / "table.md").read_text()


def test_a_second_run_makes_nothing_anew(first: EvaluationOutcome[VoiceBenchScores], data: Path, folder: Path) -> None:
    written = (folder / "store/evaluations/first/manifest.json").stat().st_mtime_ns
    again, results = evaluate(make_config(data, folder, partition_rows=64))
    assert again.scores == first.scores
    assert not results.made
    assert (folder / "store/evaluations/first/manifest.json").stat().st_mtime_ns == written


def test_the_sizes_of_partitions_change_no_score(
    first: EvaluationOutcome[VoiceBenchScores], data: Path, folder: Path
) -> None:
    other, _ = evaluate(make_config(data, folder, name="small", partition_rows=1))
    assert other.scores.scores == first.scores.scores


def test_a_changed_answer_is_judged_alone(
    first: EvaluationOutcome[VoiceBenchScores], data: Path, tmp_path: Path, folder: Path
) -> None:
    answers = {**ANSWERS, "sd_qa/usa/00001": "It has seven."}
    config = make_config(data, tmp_path, answers=answers, name="better", store=str(folder / "store"), published=True)
    outcome, results = evaluate(config)
    means = {score.part: score.estimate.mean for score in outcome.scores.scores}
    assert means == pytest.approx({**MEANS, "sd_qa": 1})
    assert results.made.count("judge_voicebench") == 1
    assert results.reused.count("judge_voicebench") == 3
    table = (folder / "store/evaluations/better/table.md").read_text()
    assert "| TPI-Full (published) |  | 4.12 | 3.93 | 3.64 | 36.08 | 59.14 | 80.00 | 46.00 | 100.00 |" in table


def test_missing_answers_are_named_or_count_as_the_worst(data: Path, tmp_path: Path, prefect_server: None) -> None:
    answers = {key: answer for key, answer in ANSWERS.items() if key != "wildvoice/test/00001"}
    answers["openbookqa/test/00000"] = " "
    config = make_config(data, tmp_path, answers=answers)
    with pytest.raises(InputError, match=r"2 of 17 rows have no answer .*wildvoice/test/00001, openbookqa/test/00000"):
        evaluate(config)
    outcome, _ = evaluate(make_config(data, tmp_path, answers=answers, allow_missing=True))
    scores = {score.part: score for score in outcome.scores.scores}
    assert scores["wildvoice"].estimate.mean == (5 + 1) / 2
    assert scores["openbookqa"].estimate.mean == 0
    assert (scores["wildvoice"].missing, scores["openbookqa"].missing) == (1, 1)


def test_parts_without_a_judge_need_none_and_bad_rows_are_left_out(tmp_path: Path, prefect_server: None) -> None:
    records = make_records()
    records["advbench/test"] = [{"prompt": ""}, records["advbench/test"][1]]
    data = write_voicebench(tmp_path / "data", records)
    config = make_config(data, tmp_path, parts=["advbench", "mmsu"], judges={}, rows=2)
    outcome, results = evaluate(config)
    assert {score.part: score.estimate.mean for score in outcome.scores.scores} == {"mmsu": 1 / 2, "advbench": 0}
    assert "judge_voicebench" not in results.made
    assert {info.part: info.rejected for info in outcome.scores.parts} == {"mmsu": {}, "advbench": {"no_prompt": 1}}
    rejects = pq.read_table(tmp_path / "store/evaluations/first/rejects.parquet").to_pylist()
    assert [(row["id"], row["reject_reason"]) for row in rejects] == [("advbench/test/00000", "no_prompt")]


def test_a_part_whose_rows_are_all_unusable_has_no_score(tmp_path: Path, prefect_server: None) -> None:
    data = write_voicebench(tmp_path / "data", {"commoneval/test": [{"prompt": " "}]})
    outcome, _ = evaluate(make_config(data, tmp_path, parts=["commoneval"]))
    (score,) = outcome.scores.scores
    assert (score.estimate.mean, score.rows) == (None, 0)
    assert "| no rows |" in (tmp_path / "store/evaluations/first/table.md").read_text()


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"systems": {}}, "systems: name at least one"),
        ({"judges": {}}, r"judges: the parts alpacaeval, commoneval, wildvoice, sd_qa need one"),
        ({"data_folder": ""}, "data: name the folder"),
        ({"data_folder": "/nowhere"}, "there is no such folder"),
        ({"splits": {"sd_qa": ["mars"]}}, "has no split mars; it has gbr, usa"),
        ({"judges": {"far": {"engine": "openai", "base_url": "somewhere", "model": "m"}}}, "judge far at 'somewhere'"),
        ({"judges": {"local": {"engine": "llama_cpp", "model": "nothing"}}}, "nothing"),
    ],
)
def test_mistakes_are_found_before_any_work(data: Path, tmp_path: Path, fields: dict[str, Any], fault: str) -> None:
    config = make_config(tmp_path, tmp_path, **{"data_folder": str(data), **fields})
    with pytest.raises(UserError, match=fault):
        check_evaluate_voicebench(config)


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        ({"parts": []}, "parts: name at least one"),
        ({"parts": ["mmsu", "mmsu"]}, "named twice"),
        ({"parts": ["mtbench"]}, "parts.0"),
        ({"systems": {"a/b": {"engine": "predictions", "path": "x"}}}, "'a/b' is no name"),
        ({"judges": {"x": {"engine": "fake_text"}}, "rows": 0}, "rows"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_wrong_fields_are_named(overrides: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        load_voicebench_config((), overrides)


def test_what_changes_the_speed_alone_changes_no_name() -> None:
    config = EvaluateVoiceBenchConfig(data="x")
    assert config.model_copy(update={"workers": 9, "partition_rows": 3}).evaluation_name == config.evaluation_name
    assert config.model_copy(update={"seed": 9}).evaluation_name != config.evaluation_name
