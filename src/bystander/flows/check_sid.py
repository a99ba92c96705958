"""Finds the mistakes in a SID build's settings that need no work to be found. Imports nothing that is slow to load.

There are two occasions: before Prefect starts, and once the engines are open, before the first partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bystander.flows.check_endpoints import check_model_server
from bystander.flows.check_runner import check_runner
from bystander.flows.check_tpi_train import check_store
from bystander.prompts.load_rubrics import load_rubrics
from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.errors import BuildError, ConfigError, InputError, StorageError
from bystander.schemas.sid_config import SidConfig
from bystander.schemas.sid_engine_configs import SID_ROLES, ByLanguageAlignerConfig
from bystander.schemas.text_tasks import SID_LANGUAGES
from bystander.storage.model_store import ModelStore
from bystander.storage.recording_files import check_recordings
from bystander.storage.releases import open_build
from bystander.storage.sid_manifest import read_sid_manifest
from bystander.tasks.stages.plan_noise import plan_noise
from bystander.tasks.stages.speak_conversations import list_speaking

if TYPE_CHECKING:
    from bystander.tasks.environment import StageEnvironment

_LEAST_VOICES = 2
"""One for the assistant, one for the user."""


def check_sid_settings(config: SidConfig) -> None:
    """Raise what is wrong with the settings themselves: wrong prompts, sources, files or targets.

    Raises:
        UserError: names the first thing that is wrong.
    """
    load_rubrics(config.prompts)
    if config.recordings.path is not None and config.recordings.language not in SID_LANGUAGES:
        raise ConfigError(
            f"recordings.language: {config.recordings.language!r} cannot be tagged; there are prompts for "
            f"{', '.join(SID_LANGUAGES)}"
        )
    _check_sources(config)
    plan_noise(config.targets.noise, config.noise, config.seed)
    for uri in config.disjoint_from:
        _check_other_build(uri)


def check_sid_build(config: SidConfig) -> None:
    """Raise what would stop the build later: wrong settings, a wrong store, task runner, model or model server.

    Raises:
        UserError: names the first thing that is wrong.
    """
    check_sid_settings(config)
    check_store(config.store)
    check_runner(config.runner, _list_engines(config))
    models = ModelStore()
    for engine in _list_engines(config):
        model = getattr(engine, "model", None)
        if isinstance(model, str) and engine.MODEL_IN_STORE:
            models.resolve(model)
        check_model_server(engine)


def check_opened_sid_engines(config: SidConfig, environment: StageEnvironment) -> dict[str, str]:
    """Open every engine, and return the languages of which no conversation can be made, each with the reason.

    Raises:
        EngineSetupError: an engine cannot be opened.
    """
    for role in SID_ROLES:
        if getattr(config.engines, role) is not None:
            environment.engine(role)
    aligned = environment.engine("aligner").languages
    wanted = config.targets.languages
    left_out = {
        language: f"the aligner has no model of this language; it has {', '.join(sorted(aligned)) or 'none'}"
        for language in wanted
        if language not in aligned
    }
    if config.conversations.use and config.engines.speech is not None:
        voices = environment.engine("speech").voices
        for language in wanted:
            own = list_speaking(voices, language, config.stages.speak_conversations)
            if language not in config.conversations.languages:
                left_out.setdefault(language, "no conversation of this language is asked for (conversations.languages)")
            elif len(own) < _LEAST_VOICES:
                left_out.setdefault(
                    language, f"the speech engine has {len(own)} voices of this language to draw from, two are needed"
                )
    return left_out


def _check_other_build(uri: str) -> None:
    try:
        read_sid_manifest(open_build(uri))
    except (BuildError, InputError, StorageError) as exc:
        raise ConfigError(f"disjoint_from {uri}: {exc}") from exc


def _check_sources(config: SidConfig) -> None:
    if config.recordings.path is not None:
        check_recordings(config.recordings)
    elif not config.conversations.use:
        raise ConfigError(
            "there is nothing to build from: name recordings (recordings.path, --recordings), or let conversations be "
            "synthesised (conversations.use: true)"
        )
    elif config.targets.per_language is None:
        raise ConfigError(
            "targets.per_language: null takes recordings as they come, but recordings.path names none; synthesised "
            "conversations need numbers of rows a category"
        )
    if config.conversations.use and config.targets.per_language and config.engines.speech is None:
        raise ConfigError(
            "engines.speech: conversations are to be synthesised, but there is no speech engine; name one, or set "
            "conversations.use to false"
        )


def _list_engines(config: SidConfig) -> Iterator[EngineConfig]:
    for role in SID_ROLES:
        engine = getattr(config.engines, role)
        if isinstance(engine, ByLanguageAlignerConfig):
            yield from engine.aligners.values()
        elif engine is not None:
            yield engine
