"""Fine-tunes a speech-language model on TPI rows."""

from __future__ import annotations

from collections import Counter

from bystander.flows.training_run import TrainingDesk, TrainingOutcome, run_training
from bystander.schemas.train_tpi_config import SpeechLmConfig, TrainTpiConfig
from bystander.schemas.trained_speech_lm import WEIGHTS_FOLDER
from bystander.schemas.training_data import LeftOutRow
from bystander.schemas.training_report import ReportSections
from bystander.storage.filesystem import open_store
from bystander.storage.training_manifest import BaseModelInfo, locate_work_folder
from bystander.tasks.engines.speech_lm_model import pin_model
from bystander.tasks.training.contract import FitJob
from bystander.tasks.training.open_rows import open_tpi_rows
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

LEFT_OUT_FILE = "left_out.jsonl"
"""Of a run: the rows that were found unusable when they were read, a JSON object a line."""


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
        name=source.name, revision=source.hub_revision or settings.revision, digest=source.digest or None
    )

    def train(desk: TrainingDesk) -> Trained:
        model = open_trainable(config, settings, source)
        job = FitJob(config, model, rows.train, rows.held_out, SpeechLmCollate(reader), desk.folder)
        phase = desk.fit(job)
        save_speech_lm(model, settings, source, desk.output / WEIGHTS_FOLDER)
        unusable = rows.train.left_out  # with those of the held-out slice: both note them in one file
        if unusable:
            lines = [row.model_dump_json() for row in unusable]
            (desk.output / LEFT_OUT_FILE).write_text("\n".join(lines) + "\n", "utf-8")
        trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        figures = {"trained_weights": trained, "rows_left_out": dict(_count_reasons(unusable))}
        sections = ReportSections(left_out=dict(_count_reasons(unusable)))
        return Trained(desk.output, (phase,), figures, _tell_left_out(unusable), _tell_usage(settings), sections)

    return run_training(config, "tpi", settings.architecture, TrainingInputs(rows.record, base), train)


def _count_reasons(rows: tuple[LeftOutRow, ...]) -> list[tuple[str, int]]:
    return sorted(Counter(row.reason for row in rows).items())


def _tell_left_out(rows: tuple[LeftOutRow, ...]) -> tuple[str, ...]:
    if not rows:
        return ()
    reasons = ", ".join(f"{count} {reason}" for reason, count in _count_reasons(rows))
    return (f"Left out when they were read, others in their place: {reasons}; see {LEFT_OUT_FILE}.",)


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
