"""Training of the SID paper's detector: alignment on transcripts, then detection on crops (IV-B)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bystander.schemas.detector_configs import SidLmDetectorConfig
from bystander.schemas.errors import ConfigError
from bystander.schemas.sid_lm_config import SidLmConfig, SidLmPart
from bystander.schemas.train_sid_config import TrainSidConfig
from bystander.schemas.training_config import Optimisation
from bystander.storage.training_manifest import BaseModelInfo
from bystander.tasks.engines.sid_lm_detector import SidLmDetector
from bystander.tasks.engines.sid_lm_folder import (
    SidLm,
    digest_pretrained,
    extract_features,
    open_pretrained,
    save_sid_lm,
    stack_features,
)
from bystander.tasks.training.asr_examples import AlignmentExample, open_alignment
from bystander.tasks.training.contract import ExampleSource, FitJob
from bystander.tasks.training.left_out_rows import gather_left_out
from bystander.tasks.training.open_rows import open_sid_rows
from bystander.tasks.training.pick_threshold import PickedThreshold, measure_clip, pick_threshold
from bystander.tasks.training.sid_crops import CROP_COLUMNS, CropExample, MakeCrops, count_crops
from bystander.tasks.training.sid_rows import iterate_rows, open_light_rows, read_held_out, write_json
from bystander.tasks.training.sid_sections import describe_sections
from bystander.tasks.training.sid_trainers import MODEL_FOLDER, SidDesk, describe_usage
from bystander.tasks.training.trained import Trained, TrainedPhase, TrainingInputs

ALIGNMENT, DETECTION = "alignment", "detection"
"""Stages, and the names of their folders of checkpoints."""


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


@dataclass(frozen=True, slots=True)
class _Stage:
    name: str
    optimisation: Optimisation
    train: ExampleSource
    held_out: ExampleSource | None
    parts: tuple[SidLmPart, ...]


class SidLmTrainer:
    """Trains a `sid_lm` detector in one stage or two.

    A stage that is finished is not run again: its last checkpoint is loaded. The threshold is the one with the least
    APT on the held-out rows.
    """

    def __init__(self, config: TrainSidConfig) -> None:
        """Open the rows; no model is read.

        Raises:
            ConfigError: there is no row to train on.
            BuildError: one is no finished build of SID rows, or a shard is not as its manifest says.
            EngineSetupError: a model's path has no folder.
            InputError: Parquet with transcripts is missing or lacks a column.
            StorageError: a shard cannot be read.
        """
        if not isinstance(config.model, SidLmConfig):
            raise ConfigError(f"model.architecture: {config.model.architecture} is trained elsewhere than sid_lm")
        self._config = config
        self._model_config = config.model
        opened = open_light_rows(config, CROP_COLUMNS)
        record, left_out, self._remarks = opened.record, opened.left_out, opened.remarks
        if config.alignment is not None:
            added = open_alignment(config, config.model).indexes
            known = {source.address for source in record.sources}
            sources = [one for index in added for one in index.sources if one.address not in known]
            # Of a build that both stages hear, the first has left them out already.
            new = [one for index in added if not known & {s.address for s in index.sources} for one in index.left_out]
            counts = Counter(record.left_out) + Counter(row.reason for row in new)
            left_out = (*left_out, *new)
            record = record.model_copy(
                update={"sources": (*record.sources, *sources), "left_out": dict(sorted(counts.items()))}
            )
        model = BaseModelInfo(
            name=config.model.language_model,
            revision=config.model.language_model_revision,
            digest=digest_pretrained(config.model),
            is_local=Path(config.model.language_model).expanduser().is_dir(),
        )
        self._inputs = TrainingInputs(record, model, left_out)

    @property
    def inputs(self) -> TrainingInputs:
        """The rows of the builds, and where those of stage 1 come from; the language model that it begins with."""
        return self._inputs

    def train(self, desk: SidDesk) -> Trained:
        """Train, and write the detector into `model` of the output, what its crops were like and its threshold beside.

        Raises:
            EngineSetupError: a package or a pretrained model is missing or does not fit.
            BuildError: the loss is not finite any more, or the checkpoints come from other data.
            StorageError: a shard cannot be read, or a checkpoint cannot be written.
        """
        config = self._config
        desk.on_phase("opening the audio encoder and the language model")
        sid_lm = open_pretrained(self._model_config, config.chunk_s, config.k, config.seed)
        phases = tuple(self._run(desk, sid_lm, stage) for stage in self._list_stages(desk.work))
        folder = desk.output / MODEL_FOLDER
        save_sid_lm(folder, sid_lm)
        crops = count_crops(iterate_rows(open_light_rows(config, CROP_COLUMNS).train), config.crops, config.seed)
        write_json(desk.output / "crops.json", crops.describe())
        picked = self._choose_threshold(desk, sid_lm, folder)
        figures: dict[str, Any] = {"crops_an_epoch": crops.crops, "positive_share": crops.positive_share}
        notes = [self._describe_limit(), *self._remarks]
        if picked is not None:
            write_json(desk.output / "threshold.json", picked.describe(config.k))
            figures |= {"threshold": picked.threshold, "held_out_apt_s": picked.apt_s}
            figures["held_out_false_interruptions"] = picked.false_interruptions
        else:
            notes.append("No clip was held out, so the threshold was not chosen: it is 0.5.")
        if crops.untimed:
            notes.append(f"{crops.untimed} rows have no time of the word that decides: their own break was taken.")
        left_out = gather_left_out(desk.work)
        sections = describe_sections(config, picked)
        return Trained(desk.output, phases, figures, tuple(notes), describe_usage(config), sections, left_out)

    def _list_stages(self, work: Path) -> Iterator[_Stage]:
        config, model_config = self._config, self._model_config
        if config.alignment is not None:
            aligned = open_alignment(config, model_config, work / "left_out_of_alignment.jsonl")
            parts = model_config.alignment_parts
            yield _Stage(ALIGNMENT, config.alignment, aligned.train, aligned.held_out, parts)
        rows = open_sid_rows(
            config.data,
            MakeCrops(config.crops),
            ("audio", *CROP_COLUMNS),
            rate=None,
            seed=config.seed,
            held_out=config.held_out.share,
            left_out_file=work / "left_out.jsonl",
        )
        yield _Stage(DETECTION, config.optimisation, rows.train, rows.held_out, model_config.detection_parts)

    def _run(self, desk: SidDesk, sid_lm: SidLm, stage: _Stage) -> TrainedPhase:
        aligns = stage.name == ALIGNMENT
        sid_lm.model.train_parts(stage.parts, aligns=aligns)
        limit_s = self._model_config.max_context_s
        crops = CollateCrops(sid_lm.extractor, limit_s)
        return desk.fit(
            FitJob(
                config=self._config.model_copy(update={"optimisation": stage.optimisation}),
                model=sid_lm.model,
                train=stage.train,
                held_out=stage.held_out,
                collate=CollateTranscripts(sid_lm.extractor, sid_lm.tokenizer, limit_s) if aligns else crops,
                folder=desk.work,
                phase=stage.name,
            )
        )

    def _choose_threshold(self, desk: SidDesk, sid_lm: SidLm, folder: Path) -> PickedThreshold | None:
        """Choose the threshold on held-out clips and write it into the detector's folder; without any, 0.5 stays."""
        config = self._config
        desk.on_phase("choosing the threshold on held-out clips")
        detector = SidLmDetector(SidLmDetectorConfig(model=str(folder), device=config.device), Path)
        try:
            measured = [measure_clip(row, detector) for row in read_held_out(config)]
        finally:
            detector.close()
        if not measured:
            return None
        picked = pick_threshold(measured, config.k)
        settings = sid_lm.folder.model_copy(update={"threshold": picked.threshold})
        save_sid_lm(folder, replace(sid_lm, folder=settings))
        return picked

    def _describe_limit(self) -> str:
        return (
            f"At each chunk of {self._config.chunk_s:g} s it hears all that was said so far anew, up to the last "
            f"{self._model_config.max_context_s:g} s: the time that a clip takes grows with the square of its length, "
            "the memory with that stretch."
        )
