"""The flow that trains a model on TPI rows, whatever its architecture."""

from __future__ import annotations

from prefect import flow

from bystander.flows.check_train_tpi import check_settings
from bystander.flows.flow_runs import run_flow
from bystander.flows.train_speech_lm import train_speech_lm
from bystander.flows.train_two_input import train_two_input
from bystander.flows.training_run import TrainingOutcome
from bystander.schemas.errors import BuildError, ConfigError
from bystander.schemas.train_tpi_config import SpeechLmConfig, TrainTpiConfig, TwoInputConfig
from bystander.storage.releases import pin_build


@flow(name="train-tpi", flow_run_name="{config.training_name}", validate_parameters=True)
def train_tpi(config: TrainTpiConfig) -> TrainingOutcome:
    """Train as configured, going on from whatever an earlier run of the same name finished.

    Raises:
        UserError: the configuration, the data, the model or its packages are wrong.
        BuildError: another process makes this run, or its checkpoints come from other data.
        StorageError: something cannot be read or written.
    """
    config = pin_data(config)
    check_settings(config)
    match config.model:
        case SpeechLmConfig():
            return train_speech_lm(config, config.model)
        case TwoInputConfig():
            return train_two_input(config, config.model)


def run_train_tpi(config: TrainTpiConfig) -> TrainingOutcome:
    """Run the flow in this process, and clear up what killed runs left behind."""
    config = pin_data(config)  # the run's name comes from it
    return run_flow(train_tpi, config, 1, f"training:{config.training_name}")


def pin_data(config: TrainTpiConfig) -> TrainTpiConfig:
    """Return the configuration with the names of releases where `latest` stands for one.

    Raises:
        ConfigError: `latest` is named where nothing was released yet.
    """
    try:
        data = tuple(pin_build(address) for address in config.data)
        dyadic = tuple(one.model_copy(update={"path": pin_build(one.path)}) for one in config.dyadic)
    except BuildError as exc:
        raise ConfigError(f"data: {exc}") from exc
    return config.model_copy(update={"data": data, "dyadic": dyadic})
