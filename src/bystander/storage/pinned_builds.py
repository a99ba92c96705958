"""Puts the release that it stands for in place of `latest`, wherever a configuration names a build.

It is done once, when a run begins: so all of the run sees the same build, whatever is released meanwhile, and names,
digests and manifests are of the build that was used.
"""

from __future__ import annotations

from typing import TypeVar

from bystander.schemas.config import TpiConfig
from bystander.schemas.errors import BuildError, ConfigError
from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.schemas.evaluate_sid_config import EvaluateSidConfig
from bystander.schemas.sid_config import SidConfig
from bystander.schemas.train_sid_config import TrainSidConfig
from bystander.schemas.train_tpi_config import TrainTpiConfig
from bystander.storage.releases import pin_build

_Build = TypeVar("_Build", bound=TpiConfig)
_Sid = TypeVar("_Sid", bound=SidConfig)
_Evaluation = TypeVar("_Evaluation", EvaluateTpiConfig, EvaluateSidConfig)
_Training = TypeVar("_Training", TrainTpiConfig, TrainSidConfig)


def pin_builds(config: _Build) -> _Build:
    """Return the configuration of a build with the names of releases in `disjoint_from` and `on_top_of`.

    Raises:
        ConfigError: `latest` is named where nothing was released yet.
    """
    changes: dict[str, object] = {"disjoint_from": tuple(_pin("disjoint_from", uri) for uri in config.disjoint_from)}
    if config.on_top_of is not None:
        pinned = _pin("on_top_of.build", config.on_top_of.build)
        changes["on_top_of"] = config.on_top_of.model_copy(update={"build": pinned})
    return config.model_copy(update=changes)


def pin_sid_builds(config: _Sid) -> _Sid:
    """Return the configuration of a SID build with the names of releases in `disjoint_from`.

    Raises:
        ConfigError: `latest` is named where nothing was released yet.
    """
    return config.model_copy(
        update={"disjoint_from": tuple(_pin("disjoint_from", uri) for uri in config.disjoint_from)}
    )


def pin_bench(config: _Evaluation) -> _Evaluation:
    """Return the configuration of an evaluation with the name of a release as its bench.

    Raises:
        ConfigError: `latest` is named where nothing was released yet.
    """
    return config.model_copy(update={"bench": _pin("bench", config.bench)})


def pin_training(config: _Training) -> _Training:
    """Return the configuration of a training with the names of releases as its data.

    Raises:
        ConfigError: `latest` is named where nothing was released yet.
    """
    changes: dict[str, object] = {"data": tuple(_pin("data", address) for address in config.data)}
    if isinstance(config, TrainTpiConfig):
        pinned = (source.model_copy(update={"path": _pin("dyadic", source.path)}) for source in config.dyadic)
        changes["dyadic"] = tuple(pinned)
    return config.model_copy(update=changes)


def _pin(field: str, address: str) -> str:
    try:
        return pin_build(address)
    except BuildError as exc:
        raise ConfigError(f"{field} {exc}") from exc
