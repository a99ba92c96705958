"""Finds the mistakes in the settings of an evaluation on VoiceBench that need no work to be found."""

from __future__ import annotations

from collections.abc import Iterator

from bystander.flows.check_tpi_train import check_endpoint, check_store
from bystander.schemas.engine_configs import (
    EngineConfig,
    OpenAiAudioConfig,
    OpenAiTextConfig,
    StandInConfig,
    TransformersAudioConfig,
)
from bystander.schemas.errors import ConfigError
from bystander.schemas.evaluate_voicebench_config import EvaluateVoiceBenchConfig
from bystander.schemas.voicebench import PARTS_BY_NAME
from bystander.storage.model_store import ModelStore
from bystander.storage.voicebench_files import find_voicebench


def check_evaluate_voicebench(config: EvaluateVoiceBenchConfig) -> None:
    """Raise what would stop the evaluation later: a wrong folder, part, split, system, judge, store or model.

    Raises:
        UserError: names the first thing that is wrong.
    """
    if not config.systems:
        raise ConfigError("systems: name at least one, with --system name=config.yaml or name=predictions.jsonl")
    judged = [name for name in config.parts if PARTS_BY_NAME[name].judged]
    if judged and not config.judges:
        raise ConfigError(
            f"judges: the parts {', '.join(judged)} need one; name it with --judge name=config.yaml or "
            "--judge embedded=llama_cpp, or leave these parts out with --parts"
        )
    if not config.data:
        raise ConfigError("data: name the folder of the local copy of VoiceBench with --data")
    for name in config.parts:
        find_voicebench(config.data, PARTS_BY_NAME[name], config.splits.get(name, ()))
    check_store(config.store)
    models = ModelStore()
    for what, engine in _list_engines(config):
        if isinstance(engine, OpenAiTextConfig | OpenAiAudioConfig):
            check_endpoint(engine.base_url, what)
        elif hasattr(engine, "model") and not isinstance(engine, TransformersAudioConfig):
            models.resolve(engine.model)


def _list_engines(config: EvaluateVoiceBenchConfig) -> Iterator[tuple[str, EngineConfig]]:
    for name, engine in config.systems.items():
        yield f"system {name}", engine
        if isinstance(engine, StandInConfig) and engine.writer is not None:
            yield f"writer of system {name}", engine.writer
    for name, judge in config.judges.items():
        yield f"judge {name}", judge
