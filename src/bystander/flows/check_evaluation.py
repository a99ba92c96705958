"""Finds the mistakes in the systems and judges of an evaluation that need no work to be found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bystander.flows.check_endpoints import check_model_server
from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.engine_configs import StandInConfig
from bystander.schemas.errors import ConfigError
from bystander.schemas.evaluation_settings import EvaluationConfig
from bystander.storage.model_store import ModelStore


def require_systems(config: EvaluationConfig) -> None:
    """Raise a `ConfigError` where there is nothing to evaluate."""
    if not config.systems:
        raise ConfigError("systems: name at least one, with --system name=config.yaml or name=predictions.jsonl")


def list_raters(config: EvaluationConfig) -> Iterator[tuple[str, EngineConfig]]:
    """Yield the engines of systems and judges, each with what it is for in words."""
    for name, engine in config.systems.items():
        yield f"system {name}", engine
        if isinstance(engine, StandInConfig) and engine.writer is not None:
            yield f"writer of system {name}", engine.writer
    for name, judge in config.judges.items():
        yield f"judge {name}", judge


def check_engines(engines: Iterable[tuple[str, EngineConfig]]) -> None:
    """See whether endpoints listen and models are in the store.

    Raises:
        UserError: names the first engine that is wrong.
    """
    models = ModelStore()
    for name, engine in engines:
        check_model_server(engine, name)
        if engine.MODEL_IN_STORE and hasattr(engine, "model"):
            models.resolve(engine.model)
