"""Fine-tunes a speech-language model on TPI rows."""

from __future__ import annotations

from pathlib import Path

from bystander.flows.training_run import TrainingDesk, TrainingOutcome, run_training
from bystander.schemas.train_tpi_config import SpeechLmConfig, TrainTpiConfig
from bystander.schemas.trained_speech_lm import WEIGHTS_FOLDER
from bystander.storage.filesystem import open_store
from bystander.storage.training_manifest import BaseModelInfo, locate_work_folder
from bystander.tasks.engines.speech_lm_model import pin_model
from bystander.tasks.training.contract import FitJob
from bystander.tasks.training.open_rows import open_tpi_rows
from bystander.tasks.training.publish_training import LEFT_OUT_FILE
from bystander.tasks.training.speech_lm import (
    COLUMNS,
    SECONDS_A_CHARACTER,
    MakeSpokenReply,
    find_speech_lm,
    open_reader,
    open_trainable,
    save_speech_lm,
)
from bystander.tasks.training.speech_lm_batches import SpeechLmCollate
from bystander.tasks.training.trained import Trained, TrainingInputs


def train_speech_lm(config: TrainTpiConfig, settings: SpeechLmConfig) -> TrainingOutcome:
    """Train and publish, or return what lies published from just the same.

    Raises:
        UserError: settings, data or model are wrong.
        BuildError: another process makes this run, or its checkpoints come from other data.
        StorageError: something cannot be read or written.
    """
    source = pin_model(find_speech_lm(settings))
    reader = open_reader(settings, source)
    noted = locate_work_folder(open_store(config.store), config.training_name) / LEFT_OUT_FILE
    rows = open_tpi_rows(
        config,
        MakeSpokenReply(reader),
        COLUMNS,
        rate=reader.sampling_rate,
        seconds_a_character=SECONDS_A_CHARACTER,
        left_out_file=noted,
    )
    base = BaseModelInfo(
        name=source.name,
        revision=source.hub_revision or settings.revision,
        digest=source.digest or None,
        is_local=Path(source.source).is_dir(),
    )

    def train(desk: TrainingDesk) -> Trained:
        model = open_trainable(config, settings, source)
        job = FitJob(config, model, rows.train, rows.held_out, SpeechLmCollate(reader), desk.folder)
        phase = desk.fit(job)
        save_speech_lm(model, settings, source, desk.output / WEIGHTS_FOLDER)
        unusable = rows.train.left_out  # with those of the held-out slice: both note them in one file
        trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        figures = {"trained_weights": trained}
        return Trained(desk.output, (phase,), figures, usage=_tell_usage(settings), left_out=unusable)

    return run_training(config, "tpi", settings.architecture, TrainingInputs(rows.record, base, rows.left_out), train)


def _tell_usage(settings: SpeechLmConfig) -> str:
    field = "adapter" if settings.lora is not None else "model"
    opened = (
        "`model` holds low-rank adapters as peft saves them; the base model is not in this folder."
        if settings.lora is not None
        else "`model` holds the whole model and its processor, as transformers saves them."
    )
    return (
        f"{opened} An evaluation opens this folder, and asks as the training did:\n\n"
        "```bash\n"
        "bystander evaluate tpi --bench BENCH \\\n"
        f"    --system 'tuned={{engine: transformers_audio, {field}: THIS_FOLDER}}'\n"
        "```\n"
    )
