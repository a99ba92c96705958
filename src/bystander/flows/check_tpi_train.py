"""Finds the mistakes in a build's settings that need no work to be found. Imports nothing that is slow to load.

There are two occasions: before Prefect starts, and once the engines are open, before the first partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

from bystander.flows.check_endpoints import check_model_server
from bystander.flows.check_on_top import check_on_top
from bystander.flows.check_runner import check_runner
from bystander.prompts.load import load_pack
from bystander.schemas.config import TpiConfig
from bystander.schemas.engine_configs import BUILD_ROLES, EngineConfigs
from bystander.schemas.errors import BuildError, ConfigError, InputError, StorageError
from bystander.schemas.packs import PromptPack
from bystander.schemas.taxonomy import load_taxonomy
from bystander.schemas.text_engine_configs import PlaybookTextConfig
from bystander.schemas.tpi_params import LabelActionability, TpiBenchTargets, TpiTargets
from bystander.storage.build_manifest import read_manifest
from bystander.storage.filesystem import open_store
from bystander.storage.model_store import ModelStore
from bystander.storage.query_files import read_queries
from bystander.storage.releases import open_build
from bystander.tasks.check_pack import require_sound_pack
from bystander.tasks.engines.playbook_data import describe_uncovered_classes
from bystander.tasks.stages.choose_voices import check_voices
from bystander.tasks.stages.mix_speakers import list_surroundings
from bystander.tasks.stages.normalise_queries import check_languages
from bystander.tasks.stages.strata import choose_scenarios

if TYPE_CHECKING:
    from bystander.tasks.environment import StageEnvironment


def check_tpi_settings(config: TpiConfig) -> None:
    """Raise what is wrong with the settings themselves: a wrong pack, label, scenario, target, file or other build.

    Raises:
        UserError: names the first thing that is wrong.
    """
    taxonomy = load_taxonomy(config.taxonomy)
    choose_scenarios(config.stages.draw_scenarios, taxonomy)
    check_languages(config.stages.normalise_queries)
    require_sound_pack(config.pack, taxonomy)
    pack = load_pack(config.pack)
    if not config.repeats_rows:
        _check_targets(config.targets, pack)
    check_thresholds(config.stages.label_actionability, pack)
    _check_playbook(config.engines, pack)
    next(iter(read_queries(config.queries)))
    list_surroundings(config.stages.mix_speakers)
    for uri in config.disjoint_from:
        _check_other_build(uri)
    check_on_top(config)


def check_tpi_build(config: TpiConfig) -> None:
    """Raise what would stop the build later: wrong settings, a wrong store, task runner, model or model server.

    Raises:
        UserError: names the first thing that is wrong.
    """
    check_tpi_settings(config)
    check_store(config.store)
    check_runner(config.runner, (engine for _, engine in config.engines if engine is not None))
    models = ModelStore()
    for model in _list_models(config.engines):
        models.resolve(model)
    for engine in (config.engines.writer, config.engines.judge, config.engines.speech):
        if engine is not None:
            check_model_server(engine)


def check_opened_engines(config: TpiConfig, environment: StageEnvironment) -> None:
    """Open every engine and raise what only they and other builds can tell, before any call is paid for.

    Raises:
        ConfigError: the settings ask for what an engine does not have.
        EngineSetupError: an engine cannot be opened.
    """
    for role in BUILD_ROLES:
        environment.engine(role)
    stages = config.stages
    voices = environment.engine("speech").voices
    check_voices(voices, stages.choose_voices, stages.normalise_queries.languages, environment.other_builds)


def _check_other_build(uri: str) -> None:
    try:
        read_manifest(open_build(uri))
    except (BuildError, InputError, StorageError) as exc:
        raise ConfigError(f"disjoint_from {uri}: {exc}") from exc


def _check_targets(targets: TpiTargets, pack: PromptPack) -> None:
    classes = [item.key for item in pack.classes]
    unknown = sorted(set(targets.labels) - set(classes))
    if unknown:
        raise ConfigError(
            f"targets.labels: pack {pack.name!r} has no class {', '.join(unknown)}; it has {', '.join(classes)}. Name "
            "these, or leave targets.labels to the profile: then rows are dealt to the classes by their shares"
        )
    if not isinstance(targets, TpiBenchTargets) and targets.hard_negatives > targets.pairs:
        raise ConfigError(
            f"targets.hard_negatives: {targets.hard_negatives} are asked for, but each is the twin of one of the "
            f"two-speaker rows, and those are {targets.pairs}; ask for fewer with --hard-negatives or "
            "targets.hard_negatives, which are the profile's where nothing else is said"
        )


def _check_playbook(engines: EngineConfigs, pack: PromptPack) -> None:
    for role in ("writer", "judge"):
        engine = getattr(engines, role)
        if isinstance(engine, PlaybookTextConfig) and (fault := describe_uncovered_classes(pack.classes)):
            raise ConfigError(
                f"engines.{role}: {fault}, and pack {pack.name!r} has the classes "
                f"{', '.join(item.key for item in pack.classes)}; take a model (--profile laptop, or an engine of your "
                "own), or --profile fake to try the pipeline"
            )


def check_thresholds(params: LabelActionability, pack: PromptPack) -> None:
    """Raise a `ConfigError` where a threshold is for a class that the pack lacks, or for the one that has none."""
    setting = "stages.label_actionability.thresholds"
    *asked, last = (item.key for item in pack.classes)
    unknown = sorted(set(params.thresholds) - {*asked, last})
    if unknown:
        raise ConfigError(
            f"{setting}: pack {pack.name!r} has no class {', '.join(unknown)}; it has {', '.join([*asked, last])}, and "
            "all but the last may have a threshold"
        )
    if last in params.thresholds:
        raise ConfigError(
            f"{setting}: {last} is the last class of pack {pack.name!r}, which the judge is not asked about: a row has "
            f"it when no other class reaches its threshold; thresholds are for {', '.join(asked)}"
        )


def check_store(uri: str) -> None:
    """Raise an `InputError` where a store cannot be written to."""
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
        if engine is not None and engine.MODEL_IN_STORE and hasattr(engine, "model"):
            yield engine.model
