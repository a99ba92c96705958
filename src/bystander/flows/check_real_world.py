"""Finds the mistakes in the settings of a build of real recordings that need no work to be found. Imports nothing slow.

There are two occasions: before Prefect starts, and once the engines are open, before the first partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bystander.flows.check_endpoints import check_model_server
from bystander.flows.check_runner import check_runner
from bystander.flows.check_tpi_train import check_store, check_thresholds
from bystander.prompts.load import load_pack
from bystander.prompts.load_rubrics import load_rubrics
from bystander.schemas.errors import ConfigError
from bystander.schemas.real_world_config import REAL_WORLD_ROLES, RealWorldConfig
from bystander.schemas.taxonomy import load_taxonomy
from bystander.schemas.text_tasks import CURATION_TASKS
from bystander.storage.corpora.corpus_audio import CorpusAudio
from bystander.storage.corpora.corpus_files import list_corpus_files
from bystander.storage.model_store import ModelStore
from bystander.storage.review_files import read_decisions
from bystander.tasks.check_pack import require_sound_pack

if TYPE_CHECKING:
    from bystander.tasks.environment import StageEnvironment


def check_real_world_settings(config: RealWorldConfig) -> None:
    """Raise what is wrong with the settings themselves: a wrong pack, prompts, corpus, folder of audio, decisions.

    Raises:
        UserError: names the first thing that is wrong.
    """
    require_sound_pack(config.pack, load_taxonomy(None))
    check_thresholds(config.stages.label_actionability, load_pack(config.pack))
    rubrics = load_rubrics(config.prompts)
    if missing := sorted({task.name for task in CURATION_TASKS} - rubrics.tasks):
        raise ConfigError(
            f"prompts {config.prompts}: has no task {', '.join(missing)}; take `curation`, or a folder made of it"
        )
    for corpus in config.corpora:
        list_corpus_files(corpus.path)
        if corpus.rttm is not None:
            list_corpus_files(corpus.rttm, "rttm")
        CorpusAudio(corpus.audio)
    if config.decisions is not None:
        read_decisions(config.decisions)


def check_real_world_build(config: RealWorldConfig) -> None:
    """Raise what would stop the build later: wrong settings, a wrong store, task runner, model or model server.

    Raises:
        UserError: names the first thing that is wrong.
    """
    check_real_world_settings(config)
    check_store(config.store)
    engines = [engine for _, engine in config.engines if engine is not None]
    check_runner(config.runner, engines)
    models = ModelStore()
    for engine in engines:
        if engine.MODEL_IN_STORE and isinstance(model := getattr(engine, "model", None), str):
            models.resolve(model)
        check_model_server(engine)


def check_opened_real_world_engines(environment: StageEnvironment) -> None:
    """Open every engine.

    Raises:
        EngineSetupError: an engine cannot be opened.
    """
    for role in REAL_WORLD_ROLES:
        environment.engine(role)
