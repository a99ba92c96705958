"""Finds the mistakes in a training on TPI rows before Prefect starts. No sound and no weight is read for that."""

from __future__ import annotations

from typing import Any

import numpy as np

from bystander.flows.check_tpi_train import check_store
from bystander.flows.training_packages import load_packages
from bystander.schemas.errors import ConfigError
from bystander.schemas.train_tpi_config import MIXTURES, SpeechLmConfig, TrainTpiConfig, TwoInputConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.speech_lm_model import check_model, reach_model
from bystander.tasks.training.open_rows import open_tpi_rows
from bystander.tasks.training.row_index import check_sums
from bystander.tasks.training.speech_lm import COLUMNS, find_speech_lm, list_packages, open_reader


def check_train_tpi(config: TrainTpiConfig) -> None:
    """Raise what would stop the training later: wrong data, a part that is missing, the store, a package, the model.

    Raises:
        UserError: names the first thing that is wrong.
        StorageError: a shard is damaged or cannot be read.
    """
    check_settings(config)
    check_store(config.store)
    check_sums(open_tpi_rows(config, _make_nothing, COLUMNS, rate=None).files)
    match config.model:
        case SpeechLmConfig():
            source = reach_model(find_speech_lm(config.model))
            check_model(source)
            open_reader(config.model, source)
            load_packages(list_packages(config.model))
        case TwoInputConfig():
            if "sound" in config.model.inputs and config.model.sound == "speaker_windows":
                ModelStore().resolve(config.model.speaker_model)
            load_packages()


def check_settings(config: TrainTpiConfig) -> None:
    """Raise what is wrong with the settings alone.

    Raises:
        ConfigError: names the field.
    """
    parts = MIXTURES[config.mixture]
    if not config.data:
        raise ConfigError("data: name at least one finished TPI-Train build, with --data FOLDER")
    if "dyadic" in parts and not config.dyadic:
        raise ConfigError(
            f"dyadic: the mixture {config.mixture} has requests of one speaker with replies; name a build of them or "
            "Parquet with --dyadic, or take the mixture base"
        )


def _make_nothing(row: dict[str, Any], rng: np.random.Generator) -> None:  # noqa: ARG001
    raise AssertionError("no row is read to check settings")
