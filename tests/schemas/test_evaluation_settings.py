"""What all evaluations ask of names, and what an evaluation is called."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.schemas.evaluate_voicebench_config import EvaluateVoiceBenchConfig
from bystander.schemas.evaluation_settings import EvaluationConfig

FAKE = {"engine": "fake_candidate"}
RULES = {"engine": "fake_text"}

both = pytest.mark.parametrize("kind", [EvaluateTpiConfig, EvaluateVoiceBenchConfig])


@both
@pytest.mark.parametrize(
    ("systems", "judges"),
    [
        (["Tiny", "tiny"], []),
        (["a.b", "a"], ["c", "b.c"]),
    ],
)
def test_two_files_may_not_have_one_name(kind: type[EvaluationConfig], systems: list[str], judges: list[str]) -> None:
    fields = {"systems": dict.fromkeys(systems, FAKE), "judges": dict.fromkeys(judges, RULES)}
    with pytest.raises(ValidationError, match="two of them would share a file"):
        kind.model_validate(fields)


@both
@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "two words"])
def test_names_are_those_of_files(kind: type[EvaluationConfig], name: str) -> None:
    for role, engine in (("systems", FAKE), ("judges", RULES)):
        with pytest.raises(ValidationError, match="is no name for a system or judge"):
            kind.model_validate({role: {name: engine}})


@both
def test_a_name_follows_what_decides_the_scores_alone(kind: type[EvaluationConfig]) -> None:
    plain = kind.model_validate({"systems": {"tiny": FAKE}})
    assert plain.evaluation_name.startswith(f"{kind.NAME_PREFIX}-")
    faster = kind.model_validate({"systems": {"tiny": FAKE}, "workers": 7, "partition_rows": 3, "store": "elsewhere"})
    assert faster.evaluation_name == plain.evaluation_name
    assert kind.model_validate({"systems": {"tiny": FAKE}, "seed": 1}).evaluation_name != plain.evaluation_name
    assert kind.model_validate({"name": "mine"}).evaluation_name == "mine"
