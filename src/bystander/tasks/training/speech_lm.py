"""A speech-language model that is fine-tuned on TPI rows: opened, its examples, and its weights in a folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bystander.schemas.engines import RowFault, Samples
from bystander.schemas.identity import derive_seed
from bystander.schemas.train_tpi_config import SpeechLmConfig, TrainTpiConfig
from bystander.schemas.trained_speech_lm import TRAINED_FILE, TrainedSpeechLm
from bystander.tasks.engines.speech_lm_model import ChatPrompts, ModelSource, find_model, open_model
from bystander.tasks.training.lora import add_lora, leave_eyes_out, save_adapter
from bystander.tasks.training.speech_lm_batches import SpeechLmReader

PACKAGES = ("torch", "transformers", "accelerate")
COLUMNS = ("reply",)
"""What is read of a row besides its sound."""
SECONDS_A_CHARACTER = 0.01
"""What a character of a reply adds to an example's length: about a quarter of a token, of which a second of sound has
25 in Qwen2.5-Omni."""
_PROCESSOR_FILES = (
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "merges.txt",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "tekken.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "video_preprocessor_config.json",
    "vocab.json",
)


@dataclass(frozen=True, slots=True)
class SpokenReply:
    """A clip and the reply to it."""

    samples: Samples
    sampling_rate: int
    reply: str


@dataclass(frozen=True, slots=True)
class MakeSpokenReply:
    """Makes examples of rows with `samples` at the processor's rate, and `reply`.

    Faults: `longer_than_the_model_hears`, `longer_than_max_length`; no clip or reply is ever cut.
    """

    reader: SpeechLmReader

    def __call__(self, row: dict[str, Any], rng: np.random.Generator) -> SpokenReply | RowFault:  # noqa: ARG002
        rate = self.reader.sampling_rate
        duration_s = len(row["samples"]) / rate
        reason = self.reader.explain_absence(duration_s, row["reply"])
        if reason is not None:
            return RowFault(reason, f"{duration_s:.2f} s and a reply of {len(row['reply'])} characters")
        return SpokenReply(row["samples"], rate, row["reply"])


def find_speech_lm(settings: SpeechLmConfig) -> ModelSource:
    """Look for the packages of a training, and for the model where it is a folder.

    Raises:
        EngineSetupError: a package is missing, or `model` is a path without a folder.
    """
    return find_model(settings.model, settings.revision, list_packages(settings), "train")


def list_packages(settings: SpeechLmConfig) -> tuple[str, ...]:
    """Return the packages that a training needs."""
    return (*PACKAGES, "peft") if settings.lora is not None else PACKAGES


def open_reader(settings: SpeechLmConfig, source: ModelSource) -> SpeechLmReader:
    """Open the processor of a model, and see that it can be trained on.

    Raises:
        EngineSetupError: it cannot be opened, has no ears or no chat template, or one that cannot be trained on.
    """
    prompts = ChatPrompts(settings.system_prompt or "", settings.user_prompt or "")
    reader = SpeechLmReader(source, prompts, settings.max_length)
    reader.encode_reply("")
    return reader


def open_trainable(config: TrainTpiConfig, settings: SpeechLmConfig, source: ModelSource) -> Any:
    """Open the model with what is trained of it asking for gradients: new adapters, or all weights but the eyes'.

    Under adapters, weights that stay are in the precision of the training; weights that are trained, in float32.

    Raises:
        EngineSetupError: the model cannot be loaded.
        ConfigError: `lora.target_modules` does not fit it.
    """
    dtype = config.optimisation.precision if settings.lora is not None else "float32"
    model = open_model(source, dtype, "cpu")  # the trainer puts it where it is trained
    if settings.lora is None:
        leave_eyes_out(model)
        return model
    return add_lora(model, settings.lora, source, derive_seed(config.seed, "adapter", "train_tpi"))


def save_speech_lm(model: Any, settings: SpeechLmConfig, source: ModelSource, folder: Path) -> None:
    """Write what was trained so that `transformers_audio` opens it: the adapters, or the whole model with processor."""
    folder.mkdir(parents=True, exist_ok=True)
    if settings.lora is not None:
        save_adapter(model, source, folder)
    else:
        model.save_pretrained(folder)
        _copy_processor(source, folder)
    trained = TrainedSpeechLm(
        base_model=settings.model,
        base_revision=source.hub_revision or settings.revision,
        base_digest=source.digest,
        system_prompt=settings.system_prompt or "",
        user_prompt=settings.user_prompt or "",
    )
    (folder / TRAINED_FILE).write_text(trained.model_dump_json(indent=2) + "\n", "utf-8")


def _copy_processor(source: ModelSource, folder: Path) -> None:
    """Copy the processor's files as they are: saved anew, one without its eyes would have lost them."""
    from transformers.utils import cached_file

    for name in _PROCESSOR_FILES:
        found = cached_file(
            source.source,
            name,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
            **source.options,
        )
        if found is not None:
            shutil.copyfile(found, folder / name)
