"""A tiny evaluation of interruption detection whose figures can be worked out by hand."""

from __future__ import annotations

from bystander.schemas.evaluation_scores import RaterInfo
from bystander.schemas.sid_evaluation import SidCase
from bystander.schemas.sid_evaluation_scores import SidBenchInfo, SidComputeTime, SidPredictionInfo, SidScores
from bystander.tasks.score_sid import ScoreSettings, score_system
from bystander.tasks.sid_examples import find_examples

SETTINGS = ScoreSettings(n_resamples=100)


def make_case(name: str, category: str, language: str | None, duration: float, brk: float | None) -> SidCase:
    return SidCase(name, f"{name}.wav", duration, brk, category, language, f"source of {category}", None, "text")


CASES = [
    make_case("a", "beginning", "en", 4.0, 0.5),
    make_case("b", "middle", "en", 4.0, 1.0),
    make_case("c", "uninterrupted", "en", 2.0, None),
    make_case("d", "middle", "zh", 3.0, 1.0),
    make_case("e", "silence", None, 10.0, None),
    make_case("f", "noise", None, 20.0, None),
]
STOPS = {"a": 0.9, "b": 0.2, "c": None, "d": None, "e": None, "f": 1.0}


def make_scores(**changes: object) -> SidScores:
    other = {case.id: case.break_time_s for case in CASES}
    compute = SidComputeTime(compute_s=0.02, heard_s=10)
    info = SidPredictionInfo(unknown=3, doubled=1, missing=2, missing_with_break=1)
    return SidScores(
        name="first",
        seed=0,
        confidence=0.95,
        tolerance_s=0.05,
        penalty_cap_s=None,
        resample_by="recording",
        bench=SidBenchInfo(
            uri="bench",
            dataset="sid-bench",
            build="b",
            digest="d",
            cases={"en": 3, "zh": 1, "noise_silence": 2, "average": 6},
            clusters=6,
        ),
        systems=tuple(RaterInfo(name=name, identity={"name": name}) for name in ("mine", "other")),
        scores=(
            score_system("mine", CASES, STOPS, SETTINGS, compute=compute),
            score_system("other", CASES, other, SETTINGS, predictions=info),
        ),
        examples=find_examples(CASES, {"mine": STOPS, "other": other}, SETTINGS, 2),
        code_version="0",
    ).model_copy(update=changes)
