"""Finds the mistakes in an evaluation's settings that need no work to be found. Imports nothing slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bystander.flows.check_tpi_train import check_endpoint, check_store
from bystander.prompts.load import LoadedPack, load_pack
from bystander.schemas.engine_configs import (
    EngineConfig,
    OpenAiAudioConfig,
    OpenAiTextConfig,
    StandInConfig,
    TransformersAudioConfig,
)
from bystander.schemas.errors import ConfigError, InputError
from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.schemas.tpi import HARD_NEGATIVE_LABEL
from bystander.storage.bench_rows import open_bench
from bystander.storage.build_manifest import BuildManifest
from bystander.storage.model_store import ModelStore
from bystander.storage.rating_files import read_ratings


def check_evaluate_tpi(config: EvaluateTpiConfig) -> None:
    """Raise what would stop the evaluation later: a wrong bench, pack, system, judge, file, store or model.

    Raises:
        UserError: names the first thing that is wrong.
    """
    if not config.systems:
        raise ConfigError("systems: name at least one, with --system name=config.yaml or name=predictions.jsonl")
    if not config.judges:
        raise ConfigError("judges: name at least one, with --judge name=config.yaml")
    pack = load_pack(config.pack)
    pack.require_rubrics()
    _, manifest = open_bench(config.bench)
    _check_labels(config, manifest, pack)
    for ratings in config.ratings:
        rated = {system for system, _ in read_ratings(ratings)}
        if not rated & set(config.systems):
            raise InputError(
                f"ratings {ratings.path}: rates {', '.join(sorted(rated))}, none of the systems that are evaluated: "
                f"{', '.join(config.systems)}"
            )
    check_store(config.store)
    models = ModelStore()
    for name, engine in list_engines(config):
        if isinstance(engine, OpenAiTextConfig | OpenAiAudioConfig):
            check_endpoint(engine.base_url, name)
        elif hasattr(engine, "model") and not isinstance(engine, TransformersAudioConfig):
            models.resolve(engine.model)


def list_engines(config: EvaluateTpiConfig) -> Iterator[tuple[str, EngineConfig]]:
    """Yield every engine of an evaluation, with what it is for in words."""
    for name, engine in config.systems.items():
        yield f"system {name}", engine
        if isinstance(engine, StandInConfig) and engine.writer is not None:
            yield f"writer of system {name}", engine.writer
    for name, judge in config.judges.items():
        yield f"judge {name}", judge
    if config.controls.verifier is not None:
        yield "verifier of the controls", config.controls.verifier


def describe_other_pack(manifest: BuildManifest, pack: LoadedPack) -> str | None:
    """Return a warning if the bench was built by other texts than those that it is judged by."""
    built: Mapping[str, str] = {"name": manifest.pack.name, "digest": manifest.pack.digest}
    if built["digest"] == pack.digest:
        return None
    return (
        f"warning: the bench was built with pack {built['name']} {built['digest'][:12]}, and is judged by pack "
        f"{pack.name} {pack.digest[:12]}: its labels and replies may follow another strategy"
    )


def _check_labels(config: EvaluateTpiConfig, manifest: BuildManifest, pack: LoadedPack) -> None:
    classes = {item.key for item in pack.classes}
    labels = {label for label, count in manifest.counts.by_label.items() if count and label != HARD_NEGATIVE_LABEL}
    if "tpi_test" in config.tests and (unknown := sorted(labels - classes)):
        raise ConfigError(
            f"bench {config.bench}: has rows labelled {', '.join(unknown)}, but pack {pack.name!r} has the classes "
            f"{', '.join(sorted(classes))}; judge with the pack that the bench was built with"
        )
