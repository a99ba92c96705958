"""Names of fields in messages: those that the user wrote, whatever unions they lie in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bystander.schemas.evaluate_sid_config import EvaluateSidConfig
from bystander.schemas.field_faults import describe_field_faults
from bystander.schemas.train_sid_config import TrainSidConfig
from bystander.schemas.train_tpi_config import TrainTpiConfig


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class One(_Strict):
    engine: Literal["one"] = "one"
    size: int = 1
    one: int = 1


class Two(_Strict):
    engine: Literal["two"] = "two"
    within: Union | None = None
    names: str | tuple[str, ...] = ""


Union = Annotated[One | Two, Field(discriminator="engine")]
Two.model_rebuild()


class Whole(_Strict):
    by_name: dict[str, Union] = Field(default_factory=dict)
    listed: tuple[Union, ...] = ()


def find_fault(kind: type[BaseModel], fields: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as fault:
        kind.model_validate(fields)
    return describe_field_faults(kind, fault.value)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (
            TrainSidConfig,
            {"model": {"architecture": "recurrent", "hidden": 1}},
            "model.hidden: Input should be greater",
        ),
        (
            TrainSidConfig,
            {"model": {"architecture": "recurrent", "encoder": "x"}},
            "model.encoder: belongs to architecture sid_lm, and this is recurrent: choose that architecture, or",
        ),
        (
            TrainSidConfig,
            {"model": {"architecture": "recurrent", "nothing": 1}},
            "model.nothing: no such field; there are architecture, augmentation, context_steps, dropout, features, ",
        ),
        (
            TrainTpiConfig,
            {"model": {"architecture": "speech_lm", "lora": {"target_modules": 3}}},
            "model.lora.target_modules: ",
        ),
        (
            EvaluateSidConfig,
            {"detectors": {"webrtc_vad": {"engine": "k_consecutive", "of": {"engine": "webrtc_vad", "frame_ms": 7}}}},
            "detectors.webrtc_vad.of.frame_ms: ",
        ),
    ],
)
def test_a_field_is_named_as_it_was_written(kind: type[BaseModel], fields: dict[str, Any], message: str) -> None:
    assert find_fault(kind, fields).startswith(message)


@given(st.lists(st.sampled_from(["one", "two", "engine", "within", "a.b"]), min_size=1, max_size=3, unique=True))
def test_names_of_the_user_stay_though_they_are_those_of_engines(names: list[str]) -> None:
    deep = {"engine": "two", "within": {"engine": "two", "within": {"engine": "one", "one": "x"}}}
    found = find_fault(Whole, {"by_name": dict.fromkeys(names, deep), "listed": [{"engine": "one"}, deep]})
    told = [one.split(": ")[0] for one in found.split("; ")]
    assert told == [*(f"by_name.{name}.within.within.one" for name in names), "listed.1.within.within.one"]
