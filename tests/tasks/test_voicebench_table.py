from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from pydantic import ValidationError

from bystander.schemas.evaluation_scores import Estimate, RaterInfo
from bystander.schemas.voicebench import PARTS, PARTS_BY_NAME
from bystander.schemas.voicebench_scores import VoiceBenchPartInfo, VoiceBenchPartScore, VoiceBenchScores
from bystander.tasks.metrics.voicebench.published import PublishedVoiceBenchSystem, load_published_voicebench
from bystander.tasks.voicebench_table import format_voicebench_table


def make_score(system: str, judge: str | None, part: Any, mean: float | None, **fields: Any) -> VoiceBenchPartScore:
    spread = None if mean is None else (mean - 0.1, mean + 0.1)
    low, high = spread or (None, None)
    return VoiceBenchPartScore(
        system=system,
        judge=judge,
        part=part,
        kind=PARTS_BY_NAME[part].kind,
        estimate=Estimate(mean=mean, low=low, high=high, n=0 if mean is None else 4),
        rows=0 if mean is None else 4,
        **fields,
    )


SCORES = VoiceBenchScores(
    name="x",
    seed=1,
    confidence=0.9,
    data="data",
    parts=(
        VoiceBenchPartInfo(part="sd_qa", splits=("usa",), rows=4, rejected={"no_audio": 2}),
        VoiceBenchPartInfo(part="alpacaeval", splits=("test",), rows=4),
        VoiceBenchPartInfo(part="mmsu", splits=("law",), rows=4),
        VoiceBenchPartInfo(part="advbench", splits=("test",), rows=0),
    ),
    rubrics_digest="0",
    systems=(RaterInfo(name="a|b", identity={}), RaterInfo(name="c", identity={})),
    judges=(RaterInfo(name="j", identity={}), RaterInfo(name="k", identity={})),
    scores=(
        make_score("a|b", "j", "alpacaeval", 3.5, unparsable=1),
        make_score("a|b", "k", "alpacaeval", 2.5),
        make_score("a|b", "j", "sd_qa", 0.25, details={"holds_reference": 0.5}),
        make_score("a|b", "k", "sd_qa", 0.5),
        make_score("a|b", None, "mmsu", 0.75, missing=1, unparsable=2),
        make_score("a|b", None, "advbench", None),
    ),
    code_version="0",
)


def test_markdown_has_a_line_a_system_and_judge_in_the_usual_order_of_parts() -> None:
    lines = format_voicebench_table(SCORES, "markdown").splitlines()
    assert lines[:5] == [
        "| System | Judge | AlpacaEval (1-5) | SD-QA (%) | MMSU (%) | AdvBench (%) |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        "| a\\|b | j | 3.50 [3.40, 3.60] | 25.00 [15.00, 35.00] | 75.00 [65.00, 85.00] | no rows |",
        "| a\\|b | k | 2.50 [2.40, 2.60] | 50.00 [40.00, 60.00] | 75.00 [65.00, 85.00] | no rows |",
        "| c | j |  |  |  |  |",
    ]
    notes = "\n".join(lines[6:])
    assert "90% bootstrap" in notes
    assert "a|b under j, AlpacaEval: 1 of 4 verdicts cannot be read and are left out." in notes
    assert "a|b, MMSU: 1 of 4 rows have no answer and count as the worst." in notes
    assert "a|b, MMSU: 2 of 4 answers choose no letter and are wrong." in notes
    assert "a|b under j, SD-QA: 50.0% of the answers hold the words of the reference." in notes
    assert "SD-QA: rows left out as unusable: 2 no_audio." in notes


def test_csv_and_json_hold_the_same_records() -> None:
    records = json.loads(format_voicebench_table(SCORES, "json"))
    assert len(records) == 6
    assert records[2] == {
        "system": "a|b",
        "judge": "j",
        "part": "sd_qa",
        "mean": 0.25,
        "low": 0.15,
        "high": 0.35,
        "n": 4,
        "rows": 4,
        "missing": 0,
        "unparsable": 0,
        "published": False,
    }
    rows = list(csv.DictReader(io.StringIO(format_voicebench_table(SCORES, "csv"))))
    assert [(row["system"], row["judge"], row["mean"]) for row in rows] == [
        (record["system"], record["judge"] or "", "" if record["mean"] is None else str(record["mean"]))
        for record in records
    ]


def test_published_systems_stand_below_for_the_parts_that_are_shown() -> None:
    published = load_published_voicebench()
    lines = format_voicebench_table(SCORES, "markdown", published).splitlines()
    assert "| TPI-VA (published) |  | 4.06 | 35.34 | 58.88 | 100.00 |" in lines
    records = json.loads(format_voicebench_table(SCORES, "json", published))
    shown = [record for record in records if record["published"]]
    assert len(shown) == 4 * 4
    assert {record["part"] for record in shown} == {"alpacaeval", "sd_qa", "mmsu", "advbench"}


def test_the_published_table_is_whole() -> None:
    published = load_published_voicebench()
    assert [system.name for system in published.systems] == [
        "Baseline (Qwen2.5-Omni-7B)",
        "TPI-Base",
        "TPI-VA",
        "TPI-Full",
    ]
    for system in published.systems:
        assert system.scores.keys() == {part.name for part in PARTS}
    assert published.systems[1].scores["openbookqa"] == 0.6681


def test_published_scores_off_their_scale_are_refused() -> None:
    with pytest.raises(ValidationError, match="mmsu 58 is not from 0 to 1"):
        PublishedVoiceBenchSystem(name="x", scores={"mmsu": 58})
    with pytest.raises(ValidationError, match=r"alpacaeval 0\.5 is not from 1 to 5"):
        PublishedVoiceBenchSystem(name="x", scores={"alpacaeval": 0.5})
