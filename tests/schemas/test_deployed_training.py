"""The parameters of deployments that train: what they refuse, what they stand for, and what their form shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from bystander.schemas.deployed_run import DeployedRun, parse_run
from bystander.schemas.deployed_training import TrainSidProfile, TrainSidRun, TrainTpiProfile, TrainTpiRun
from bystander.schemas.errors import ConfigError
from bystander.schemas.train_sid_config import list_train_sid_profiles
from bystander.schemas.train_tpi_profiles import list_train_tpi_profiles

KINDS: list[type[DeployedRun]] = [TrainTpiRun, TrainSidRun]
PLACES = {"store": "/data/store", "data": ["/data/store/x/latest"]}
FAKE = {"profile": "fake", **PLACES}
SMALL = {"profile": "miniature", **PLACES}


def test_there_are_the_profiles_that_there_are() -> None:
    assert list(get_args(TrainTpiProfile)) == list_train_tpi_profiles()
    assert list(get_args(TrainSidProfile)) == list_train_sid_profiles()


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (TrainTpiRun, {"profile": "fake", "store": "/s"}, "data: Field required"),
        (TrainTpiRun, {**FAKE, "data": []}, "data: "),
        (TrainTpiRun, {**FAKE, "profile": "huge"}, "profile: Input should be"),
        (TrainTpiRun, {**FAKE, "mixture": "half"}, "mixture: Input should be 'base', 'va' or 'full'"),
        (TrainSidRun, {**SMALL, "mixture": "full"}, "mixture: no such field"),
        (TrainSidRun, {**SMALL, "max_steps": 0}, "max_steps: Input should be greater than or equal to 1"),
        (TrainSidRun, {**SMALL, "device": "tpu"}, "device: Input should be 'auto', 'cpu' or 'cuda'"),
        (TrainSidRun, {**SMALL, "seed": -1}, "seed: Input should be greater than or equal to 0"),
        (TrainSidRun, {**SMALL, "name": "../x"}, "name: '../x' cannot be a"),
        (TrainSidRun, {**SMALL, "store": "here"}, "store: 'here' cannot be a place"),
    ],
)
def test_wrong_values_are_refused_with_their_field(kind: type[DeployedRun], given: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_run(kind, given)
    assert words in str(caught.value)


def test_wrong_overrides_are_refused_with_their_field() -> None:
    with pytest.raises(ConfigError, match=r"optimisation\.batch_size: Input should be greater than or equal to 1"):
        parse_run(TrainTpiRun, {**FAKE, "overrides": {"optimisation.batch_size": 0}}).load([])


def test_fields_stand_for_those_of_the_configuration(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("optimisation: {batch_size: 32}\nseed: 5\n", "utf-8")
    form = {
        **FAKE,
        "dyadic": ["/data/store/dyadic/latest"],
        "mixture": "va",
        "model": "/models/omni",
        "max_steps": 50,
        "device": "cuda",
        "seed": 7,
        "name": "weekly",
        "workers": 4,
        "overrides": {"seed": 1, "proportions": {"dyadic": 0.5}},
    }
    config = parse_run(TrainTpiRun, form).load([str(site)])
    assert (config.store, config.data, config.mixture) == ("/data/store", ("/data/store/x/latest",), "va")
    assert [source.path for source in config.dyadic] == ["/data/store/dyadic/latest"]
    assert config.model.model_dump()["model"] == "/models/omni"
    assert (config.optimisation.max_steps, config.optimisation.batch_size) == (50, 32)
    assert (config.seed, config.training_name, config.device, config.loader_workers) == (7, "weekly", "cuda", 4)
    assert config.proportions == {"dyadic": 0.5}


def test_what_is_left_out_is_as_the_profile_says() -> None:
    config = parse_run(TrainTpiRun, {**FAKE, "profile": "paper"}).load([])
    assert (config.mixture, config.optimisation.batch_size, config.optimisation.epochs) == ("full", 16, 2)
    assert config.training_name.startswith("tpi-")
    assert parse_run(TrainSidRun, {**SMALL, "profile": "paper"}).load([]).model.architecture == "sid_lm"
    assert parse_run(TrainSidRun, {**SMALL, "profile": "miniature"}).load([]).model.architecture == "recurrent"


@pytest.mark.parametrize("kind", KINDS)
def test_form_is_readable(kind: type[DeployedRun]) -> None:
    schema = kind.model_json_schema()
    fields = schema["properties"]
    assert [*fields][:3] == ["profile", "store", "data"]
    assert [*fields][-5:] == ["files", "overrides", "workers", "retries", "retry_after_s"]
    for name, field in fields.items():
        assert {"title", "description", "type"} <= {*field}, f"{kind.__name__}.{name} is no plain field of the form"
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("kind", KINDS)
def test_fields_that_are_left_out_may_be_null(kind: type[DeployedRun]) -> None:
    empty = {name: None for name, field in kind.model_fields.items() if field.default is None}
    form = FAKE if kind is TrainTpiRun else SMALL
    assert parse_run(kind, {**form, **empty}) == parse_run(kind, form)
