"""The flow that trains a detector of interruptions: data, the loop, a threshold, publication."""

from __future__ import annotations

from prefect import flow

from bystander.flows.check_train_sid import check_train_sid
from bystander.flows.flow_runs import run_flow
from bystander.flows.training_run import TrainingDesk, TrainingOutcome, run_training
from bystander.schemas.train_sid_config import TrainSidConfig
from bystander.storage.pinned_builds import pin_training
from bystander.tasks.training.sid_trainers import SidDesk, open_sid_trainer
from bystander.tasks.training.trained import Trained


@flow(name="train-sid", flow_run_name="{config.training_name}", validate_parameters=True)
def train_sid(config: TrainSidConfig) -> TrainingOutcome:
    """Train a detector of interruptions as configured, going on from whatever an earlier run finished.

    Raises:
        UserError: the configuration, a build, a package or a pretrained model is missing or wrong.
        BuildError: a build is damaged, the loss is not finite any more, or another process makes this run.
        StorageError: something cannot be read or written.
    """
    check_train_sid(config)
    trainer = open_sid_trainer(config)

    def train(desk: TrainingDesk) -> Trained:
        return trainer.train(SidDesk(desk.output, desk.folder, desk.fit, desk.listener.on_phase))

    return run_training(config, "sid", config.model.architecture, trainer.inputs, train)


def run_train_sid(config: TrainSidConfig) -> TrainingOutcome:
    """Run the flow in this process, and clear up what killed runs left behind."""
    config = pin_training(config)
    return run_flow(train_sid, config, 1, f"training:{config.training_name}")
