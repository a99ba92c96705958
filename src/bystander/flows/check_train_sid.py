"""Finds the mistakes in a detector's training before Prefect starts. No sound and no weight is read for that."""

from __future__ import annotations

from bystander.flows.check_tpi_train import check_store
from bystander.flows.training_packages import load_packages, require_packages
from bystander.schemas.errors import ConfigError, InputError
from bystander.schemas.sid import BEGINNING, MIDDLE
from bystander.schemas.sid_lm_config import SidLmConfig
from bystander.schemas.train_sid_config import RecurrentConfig, TrainSidConfig
from bystander.storage.model_store import ModelStore
from bystander.storage.sid_manifest import SidManifest
from bystander.tasks.engines.sid_lm_folder import check_pretrained
from bystander.tasks.training.asr_examples import open_alignment
from bystander.tasks.training.named_builds import open_named_build
from bystander.tasks.training.row_index import check_sums
from bystander.tasks.training.sid_crops import CROP_COLUMNS
from bystander.tasks.training.sid_rows import open_light_rows


def check_train_sid(config: TrainSidConfig) -> None:
    """Raise what would stop the training later: packages, builds and their shards, models, the store.

    Shards are looked at as far as that is cheap: their sizes, footers and light columns, and checksums where they are
    small and on this machine.

    Raises:
        UserError: names the first thing that is wrong.
        StorageError: a shard is damaged or cannot be read.
    """
    require_packages()
    if not config.data:
        raise ConfigError("data: name the folder of a finished build of SID rows, with --data")
    manifests = [open_named_build("--data", address, "sid", to_train_on=True)[1] for address in config.data]
    counts = [found.counts.by_category for found in manifests if isinstance(found, SidManifest)]
    if not any(found.get(category, 0) for found in counts for category in (BEGINNING, MIDDLE)):
        raise InputError(
            "data: no clip has a break, so there is nothing to learn to stop for; name a build with the categories "
            f"{BEGINNING} and {MIDDLE}"
        )
    if isinstance(config.model, RecurrentConfig) and config.model.features == "recogniser":
        ModelStore().resolve(config.model.recogniser)
    if isinstance(config.model, SidLmConfig):
        _check_alignment(config, config.model)
    elif config.alignment is not None:
        raise ConfigError(
            f"alignment: is a stage of the architecture sid_lm; leave it null for {config.model.architecture}"
        )
    check_store(config.store)
    check_sums(open_light_rows(config, CROP_COLUMNS).files)
    if isinstance(config.model, SidLmConfig):
        if config.alignment is not None:
            check_sums([file for index in open_alignment(config, config.model).indexes for file in index.files])
        check_pretrained(config.model)
    load_packages()


def _check_alignment(config: TrainSidConfig, model: SidLmConfig) -> None:
    sources = (*model.transcripts, *model.tpi_builds)
    if config.alignment is not None and not model.align_on_builds and not sources:
        raise ConfigError(
            "model.transcripts: stage 1 has nothing to hear; name Parquet with transcripts, or leave "
            "model.align_on_builds on, or set alignment to null"
        )
