"""Finds the mistakes in a build's settings that need no work to be found. Imports nothing that is slow to load."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

from bystander.prompts.load import load_pack
from bystander.schemas.config import TpiTrainConfig
from bystander.schemas.engine_configs import EngineConfigs
from bystander.schemas.errors import ConfigError, InputError, StorageError
from bystander.schemas.taxonomy import load_taxonomy
from bystander.storage.filesystem import open_store
from bystander.storage.model_store import ModelStore
from bystander.storage.query_files import read_queries
from bystander.tasks.stages.strata import choose_scenarios

_NOT_IN_STORE = frozenset({"openai"})
"""Engines whose model is another machine's."""


def check_tpi_train(config: TpiTrainConfig) -> None:
    """Raise what would stop the build later: a wrong pack, label, scenario, target, query file, store or model.

    Raises:
        UserError: names the first thing that is wrong.
    """
    choose_scenarios(config.stages.draw_scenarios, load_taxonomy(config.taxonomy))
    _check_targets(config)
    next(iter(read_queries(config.queries)))
    _check_store(config.store)
    models = ModelStore()
    for model in _list_models(config.engines):
        models.resolve(model)


def _check_targets(config: TpiTrainConfig) -> None:
    pack = load_pack(config.pack)
    classes = [item.key for item in pack.classes]
    targets = config.targets
    unknown = sorted(set(targets.labels) - set(classes))
    if unknown:
        raise ConfigError(
            f"targets.labels: pack {pack.name!r} has no class {', '.join(unknown)}; it has {', '.join(classes)}"
        )
    if targets.hard_negatives > targets.pairs:
        raise ConfigError(
            f"targets.hard_negatives: {targets.hard_negatives} are asked for, but each is the twin of one of the "
            f"two-speaker rows, and those are {targets.pairs}"
        )


def _check_store(uri: str) -> None:
    store = open_store(uri)
    probe = f"cache/probe-{uuid4().hex[:12]}"
    try:
        store.write_bytes(probe, b"")
        store.remove(probe)
    except (StorageError, OSError) as exc:
        raise InputError(f"store {uri}: cannot be written ({exc}); choose another with --out") from exc


def _list_models(engines: EngineConfigs) -> Iterator[str]:
    for role in type(engines).model_fields:
        engine = getattr(engines, role)
        if engine is not None and engine.engine not in _NOT_IN_STORE and hasattr(engine, "model"):
            yield engine.model
