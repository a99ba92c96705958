"""Finds the mistakes in the settings of an evaluation of interruption detection that need no work to be found."""

from __future__ import annotations

from collections.abc import Iterator

from bystander.flows.check_evaluation import check_engines
from bystander.flows.check_runner import check_runner
from bystander.flows.check_tpi_train import check_store
from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.errors import ConfigError
from bystander.schemas.evaluate_sid_config import EvaluateSidConfig
from bystander.storage.sid_bench import read_sid_bench
from bystander.storage.sid_jsonl import read_predictions


def check_evaluate_sid(config: EvaluateSidConfig) -> None:
    """Raise what would stop the evaluation later: a wrong bench, file of predictions, detector, store or model.

    Raises:
        UserError: names the first thing that is wrong.
    """
    if not config.systems:
        raise ConfigError(
            "systems: name at least one, with --detectors energy_vad,webrtc_vad or --predictions name=file.jsonl"
        )
    read_sid_bench(config.bench)
    for path in config.predictions.values():
        read_predictions(path)
    check_store(config.store)
    check_runner(config.runner)
    check_engines(
        (f"detector {name}", engine) for name, outer in config.detectors.items() for engine in _list_engines(outer)
    )


def _list_engines(config: EngineConfig) -> Iterator[EngineConfig]:
    """Yield a detector and the engines within it."""
    yield config
    for field in type(config).model_fields:
        inner = getattr(config, field)
        if isinstance(inner, EngineConfig):
            yield from _list_engines(inner)
