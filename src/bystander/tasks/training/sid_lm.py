"""Training of the SID paper's detector: alignment on transcripts, then detection on crops (IV-B)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bystander.schemas.detector_configs import SidLmDetectorConfig
from bystander.schemas.errors import ConfigError
from bystander.schemas.sid_lm_config import SidLmConfig, SidLmPart
from bystander.schemas.train_sid_config import TrainSidConfig
from bystander.schemas.training_config import Optimisation
from bystander.tasks.engines.sid_lm_detector import SidLmDetector
from bystander.tasks.engines.sid_lm_folder import (
    SidLm,
    extract_features,
    open_pretrained,
    save_sid_lm,
    stack_features,
)
from bystander.tasks.training.asr_examples import AlignmentExample, AlignmentRows, open_alignment_rows
from bystander.tasks.training.contract import ExampleSource, FitJob, FitOutcome
from bystander.tasks.training.fit import fit
from bystander.tasks.training.open_rows import open_sid_rows
from bystander.tasks.training.pick_threshold import PickedThreshold, measure_clip, pick_threshold
from bystander.tasks.training.shard_examples import ShardExamples
from bystander.tasks.training.sid_crops import CROP_COLUMNS, CropCounts, CropExample, MakeCrops, count_crops
from bystander.tasks.training.sid_trainers import SidTraining, TrainedSid

ALIGNMENT, DETECTION = "alignment", "detection"
"""Stages, and the names of their folders of checkpoints."""
MAX_THRESHOLD_CLIPS = 500
"""Held-out clips that the threshold is chosen on, evenly taken: each is heard prefix by prefix."""
_BATCH_ROWS = 256


@dataclass(frozen=True, slots=True)
class CollateCrops:
    """Utterances to the inputs of stage 2: all their crops, each as if nothing followed."""

    extractor: Any
    max_context_s: float

    def __call__(self, examples: list[CropExample]) -> dict[str, Any]:
        """Return `features` and `frames` as `SidLmModel.forward` takes them, and `labels`, float32."""
        import torch

        crops = [crop for example in examples for crop in example.cut()]
        features, frames = stack_features([extract_features(self.extractor, one, self.max_context_s) for one in crops])
        labels = np.concatenate([example.labels for example in examples]).astype(np.float32)
        return {"features": features, "frames": frames, "labels": torch.from_numpy(labels)}


@dataclass(frozen=True, slots=True)
class CollateTranscripts:
    """Clips with transcripts to the inputs of stage 1."""

    extractor: Any
    tokenizer: Any
    max_context_s: float

    def __call__(self, examples: list[AlignmentExample]) -> dict[str, Any]:
        """Return `features`, `frames`, and `targets`: the tokens of each text and the end, filled up with -100."""
        import torch

        features, frames = stack_features(
            [extract_features(self.extractor, one.samples, self.max_context_s) for one in examples]
        )
        texts = [
            [*self.tokenizer(one.text, add_special_tokens=False)["input_ids"], self.tokenizer.eos_token_id]
            for one in examples
        ]
        targets = torch.full((len(texts), max(map(len, texts))), -100)
        for row, tokens in zip(targets, texts, strict=True):
            row[: len(tokens)] = torch.tensor(tokens)
        return {"features": features, "frames": frames, "targets": targets}


def train_sid_lm(training: SidTraining) -> TrainedSid:
    """Train a `sid_lm` detector in a folder of this machine, going on from the checkpoints that lie in it.

    A stage that is finished is not run again: its last checkpoint is loaded. The detector lies in `model` of the folder
    then, with the threshold that has the least APT on the held-out rows.

    Raises:
        ConfigError: there is no row to train on, or a setting does not fit.
        EngineSetupError: a package or a pretrained model is missing or does not fit.
        BuildError: a build is damaged, the loss is not finite any more, or the checkpoints come from other data.
        StorageError: a shard cannot be read, or a checkpoint cannot be written.
    """
    config, model_config = _read_config(training.config)
    # What is wrong with the data is found before models are fetched.
    aligned = None if config.alignment is None else _open_alignment(training, config, model_config)
    rows = open_sid_rows(
        config.data,
        MakeCrops(config.crops),
        ("audio", *CROP_COLUMNS),
        rate=None,
        seed=config.seed,
        held_out=config.held_out.share,
        left_out_file=training.folder / "left_out.jsonl",
    )
    training.on_phase("opening the audio encoder and the language model")
    sid_lm = open_pretrained(model_config, config.chunk_s, config.k, config.seed)
    stages = [_Stage(DETECTION, config.optimisation, rows.train, rows.held_out, model_config.detection_parts)]
    if aligned is not None and config.alignment is not None:
        parts = model_config.alignment_parts
        stages.insert(0, _Stage(ALIGNMENT, config.alignment, aligned.train, aligned.held_out, parts))
    phases = {stage.name: _run_stage(training, config, model_config, sid_lm, stage) for stage in stages}
    folder = training.folder / "model"
    save_sid_lm(folder, sid_lm)
    unusable = [*rows.left_out, *rows.train.left_out]
    if aligned is not None:
        unusable += [row for part in aligned.parts for row in part.left_out]
    return TrainedSid(
        model_folder=folder,
        detector="sid_lm",
        phases=phases,
        data=rows.record,
        left_out=tuple(dict.fromkeys(unusable)),
        picked=_choose_threshold(training, config, sid_lm, folder),
        crops=_count(config),
    )


@dataclass(frozen=True, slots=True)
class _Stage:
    name: str
    optimisation: Optimisation
    train: ExampleSource
    held_out: ExampleSource | None
    parts: tuple[SidLmPart, ...]


def _read_config(config: TrainSidConfig) -> tuple[TrainSidConfig, SidLmConfig]:
    if not isinstance(config.model, SidLmConfig):
        raise ConfigError(f"model.architecture: {config.model.architecture} is trained elsewhere than sid_lm")
    return config, config.model


def _open_alignment(training: SidTraining, config: TrainSidConfig, model_config: SidLmConfig) -> AlignmentRows:
    return open_alignment_rows(
        config.data if model_config.align_on_builds else (),
        model_config.transcripts,
        max_s=model_config.max_context_s,
        seed=config.seed,
        held_out=config.held_out.share,
        left_out_file=training.folder / "left_out_of_alignment.jsonl",
    )


def _run_stage(
    training: SidTraining, config: TrainSidConfig, model_config: SidLmConfig, sid_lm: SidLm, stage: _Stage
) -> FitOutcome:
    aligns = stage.name == ALIGNMENT
    sid_lm.model.train_parts(stage.parts, aligns=aligns)
    limit_s = model_config.max_context_s
    collate = (
        CollateTranscripts(sid_lm.extractor, sid_lm.tokenizer, limit_s)
        if aligns
        else CollateCrops(sid_lm.extractor, limit_s)
    )
    job = FitJob(
        config=config.model_copy(update={"optimisation": stage.optimisation}),
        model=sid_lm.model,
        train=stage.train,
        held_out=stage.held_out,
        collate=collate,
        folder=training.folder / stage.name,
        phase=stage.name,
    )
    return fit(job, partial(training.on_record, stage.name), training.on_phase)


def _choose_threshold(
    training: SidTraining, config: TrainSidConfig, sid_lm: SidLm, folder: Path
) -> PickedThreshold | None:
    """Choose the threshold on held-out clips and write it into the detector's folder; without any, 0.5 stays."""
    clips = list(_read_held_out(config))
    if not clips:
        training.on_phase("no clip is held out: the threshold stays at 0.5; see held_out.share")
        return None
    training.on_phase(f"choosing the threshold on {len(clips)} held-out clips")
    detector = SidLmDetector(SidLmDetectorConfig(model=str(folder), device=config.device), Path)
    try:
        picked = pick_threshold([measure_clip(row, detector) for row in clips], config.k)
    finally:
        detector.close()
    save_sid_lm(folder, replace(sid_lm, folder=sid_lm.folder.model_copy(update={"threshold": picked.threshold})))
    return picked


def _read_held_out(config: TrainSidConfig) -> Iterator[Mapping[str, Any]]:
    source = _open_light(config, ("audio", *CROP_COLUMNS)).held_out
    if source is None:
        return
    count = min(len(source), MAX_THRESHOLD_CLIPS)
    numbers = np.linspace(0, len(source) - 1, count).round().astype(int)
    for number in numbers:
        yield from source.read([int(number)], 0)


def _count(config: TrainSidConfig) -> CropCounts:
    """Return what the crops of the first epoch were like."""
    return count_crops(_iterate(_open_light(config, CROP_COLUMNS).train), config.crops, config.seed)


def _iterate(source: ShardExamples) -> Iterator[Mapping[str, Any]]:
    for start in range(0, len(source), _BATCH_ROWS):
        yield from source.read(range(start, min(start + _BATCH_ROWS, len(source))), 0)


def _open_light(config: TrainSidConfig, columns: tuple[str, ...]) -> Any:
    return open_sid_rows(
        config.data, _keep_row, columns, rate=None, seed=config.seed, held_out=config.held_out.share
    )


def _keep_row(row: dict[str, Any], _: np.random.Generator) -> dict[str, Any]:
    return row
