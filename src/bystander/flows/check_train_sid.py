"""Finds the mistakes in the settings of a detector's training that need no work to be found."""

from __future__ import annotations

from bystander.flows.check_tpi_train import check_store
from bystander.flows.training_packages import require_packages
from bystander.schemas.errors import ConfigError, InputError
from bystander.schemas.sid import BEGINNING, MIDDLE
from bystander.schemas.sid_lm_config import SidLmConfig
from bystander.schemas.train_sid_config import RecurrentConfig, TrainSidConfig
from bystander.storage.filesystem import open_store
from bystander.storage.model_store import ModelStore
from bystander.storage.sid_manifest import read_sid_manifest
from bystander.tasks.engines.pretrained_files import PretrainedFiles


def check_train_sid(config: TrainSidConfig) -> None:
    """Raise what would stop the training later: packages, builds, folders of models, the store.

    Raises:
        UserError: names the first thing that is wrong.
    """
    require_packages()
    if not config.data:
        raise ConfigError("data: name the folder of a finished build of SID rows, with --data")
    counts = [read_sid_manifest(open_store(address)).counts.by_category for address in config.data]
    if not any(found.get(category, 0) for found in counts for category in (BEGINNING, MIDDLE)):
        raise InputError(
            "data: no clip has a break, so there is nothing to learn to stop for; name a build with the categories "
            f"{BEGINNING} and {MIDDLE}"
        )
    if isinstance(config.model, RecurrentConfig) and config.model.features == "recogniser":
        ModelStore().resolve(config.model.recogniser)
    if isinstance(config.model, SidLmConfig):
        _check_models(config, config.model)
    elif config.alignment is not None:
        raise ConfigError(
            f"alignment: is a stage of the architecture sid_lm; leave it null for {config.model.architecture}"
        )
    check_store(config.store)


def _check_models(config: TrainSidConfig, model: SidLmConfig) -> None:
    sources = (*model.transcripts, *model.tpi_builds)
    if config.alignment is not None and not model.align_on_builds and not sources:
        raise ConfigError(
            "model.transcripts: stage 1 has nothing to hear; name Parquet with transcripts, or leave "
            "model.align_on_builds on, or set alignment to null"
        )
    for name in (model.encoder, model.language_model):
        PretrainedFiles(name)
