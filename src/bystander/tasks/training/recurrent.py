"""Training of the recurrent detector: a small causal network over features of sound, heard afterwards without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bystander.schemas.detector_configs import RecurrentDetectorConfig
from bystander.schemas.errors import ConfigError
from bystander.schemas.identity import derive_seed, make_rng
from bystander.schemas.train_sid_config import RecurrentConfig, TrainSidConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.log_mel_steps import SAMPLING_RATE
from bystander.tasks.engines.model_revision import read_revision
from bystander.tasks.engines.recogniser_steps import HEARING_THREADS
from bystander.tasks.engines.recurrent_detector import RecurrentDetector
from bystander.tasks.engines.step_features import LogMelFeatures, RecogniserFeatures, StepFeatures
from bystander.tasks.training.clip_augmentation import augment_clip
from bystander.tasks.training.contract import FitJob
from bystander.tasks.training.left_out_rows import gather_left_out
from bystander.tasks.training.open_rows import TrainingRows, open_sid_rows
from bystander.tasks.training.pick_threshold import (
    MeasuredClip,
    PickedThreshold,
    measure_clip,
    measure_samples,
    pick_threshold,
)
from bystander.tasks.training.recurrent_examples import (
    RECURRENT_COLUMNS,
    MakeSpokenClip,
    RecurrentExamples,
    collate_examples,
)
from bystander.tasks.training.sid_crops import hear_clip
from bystander.tasks.training.sid_rows import MAX_THRESHOLD_CLIPS, read_held_out, write_json
from bystander.tasks.training.sid_sections import describe_sections
from bystander.tasks.training.sid_trainers import MODEL_FOLDER, SidDesk, describe_usage
from bystander.tasks.training.trained import Trained, TrainedPhase, TrainingInputs

DETECTION = "detection"
_CROP_NOTE = "This trainer draws none: every step of a clip is one, weighted by the density with which crops end there."


class RecurrentTrainer:
    """Trains a `recurrent` detector: one network, or one without each fold (`model.folds`), whose mean is the answer.

    Its threshold is the one with the least APT on rows that were held out, with folds on all rows.
    """

    def __init__(self, config: TrainSidConfig) -> None:
        """Open the rows.

        Raises:
            ConfigError: there is no row to train on.
            BuildError: one is no finished build of SID rows, or a shard is not as its manifest says.
            StorageError: a shard cannot be read.
        """
        if not isinstance(config.model, RecurrentConfig):
            raise ConfigError(f"model.architecture: {config.model.architecture} is trained elsewhere than recurrent")
        self._config = config
        self._model_config = config.model
        opened = self._open(None)
        self._inputs = TrainingInputs(opened.record, left_out=opened.left_out)
        self._remarks = opened.remarks

    @property
    def inputs(self) -> TrainingInputs:
        """The rows of the builds; its weights begin at random."""
        return self._inputs

    def train(self, desk: SidDesk) -> Trained:
        """Train, and write the detector into `model` of the output, its threshold's curve beside.

        Raises:
            EngineSetupError: torch is missing, or the recogniser cannot be opened.
            ModelStoreError: the recogniser is not in the store.
            BuildError: the loss is not finite any more, or the checkpoints come from other data.
            StorageError: a shard cannot be read, or a checkpoint cannot be written.
        """
        from bystander.tasks.training.recurrent_export import save_recurrent

        features, revision = self._open_features()
        folder = desk.output / MODEL_FOLDER
        if self._model_config.folds > 1:
            networks, phases, measured = self._train_folds(desk, features)
            picked: PickedThreshold | None = self._pick(measured)
        else:
            networks, phases = self._train_one(desk, features)
            save_recurrent(networks, self._config, 0.5, folder, revision)
            picked = self._choose_threshold(desk, folder)
        features.close()
        parameters = sum(weight.numel() for network in networks for weight in network.parameters())
        figures: dict[str, Any] = {"parameters": parameters}
        notes = ["It runs on onnxruntime without torch, in the same time for each second of a clip."]
        if self._model_config.features == "recogniser":
            notes.append(f"It hears through the encoder of {self._model_config.recogniser}, which has to be there.")
        notes += self._remarks
        if picked is None:
            notes.append("No clip was held out, so the threshold was not chosen: it is 0.5.")
        else:
            save_recurrent(networks, self._config, picked.threshold, folder, revision)
            if len(networks) > 1:
                notes.append(
                    f"It is the mean of {len(networks)} networks. Each was trained without the voices of one fold; the "
                    "threshold and its figures are those of single networks on the voices that they do not know."
                )
            if self._varied_versions:
                notes.append(
                    f"The threshold was chosen on {picked.clips} held-out clips, as they are and in "
                    f"{self._varied_versions} varied versions; `held_out_apt_s` is over all of these."
                )
            write_json(desk.output / "threshold.json", picked.describe(self._config.k))
            figures |= {"threshold": picked.threshold, "held_out_apt_s": picked.apt_s}
            figures["held_out_false_interruptions"] = picked.false_interruptions
        sections = describe_sections(self._config, picked, _CROP_NOTE)
        usage, left_out = describe_usage(self._config), gather_left_out(desk.work)
        return Trained(desk.output, tuple(phases), figures, tuple(notes), usage, sections, left_out)

    def _open_features(self) -> tuple[StepFeatures, str]:
        """Return what the network hears, and the revision of the recogniser, if one has a part in it."""
        model = self._model_config
        if model.features == "log_mel":
            return LogMelFeatures(model.mel_bands), ""
        path = ModelStore().resolve(model.recogniser)
        return RecogniserFeatures(path), read_revision(model.recogniser, path)

    def _train_one(self, desk: SidDesk, features: StepFeatures) -> tuple[list[Any], list[TrainedPhase]]:
        rows = self._open(desk.work / "left_out.jsonl")
        network = self._make_network(features, DETECTION)
        held_out = rows.held_out
        job = FitJob(
            config=self._config,
            model=network,
            train=RecurrentExamples(rows.train, self._config, varies=True, features=features),
            held_out=None
            if held_out is None
            else RecurrentExamples(held_out, self._config, varies=False, features=features),
            collate=collate_examples,
            folder=desk.work,
            phase=DETECTION,
        )
        return [network], [desk.fit(job)]

    def _train_folds(
        self, desk: SidDesk, features: StepFeatures
    ) -> tuple[list[Any], list[TrainedPhase], list[MeasuredClip]]:
        """Return a network without each fold, their phases, and every clip as its fold's network hears it."""
        from bystander.tasks.training.cross_fitting import ExampleSlice, measure_held_out

        rows = self._open(desk.work / "left_out.jsonl")
        assert rows.folds is not None
        examples = RecurrentExamples(rows.train, self._config, varies=True, features=features, folds=rows.folds)
        plain, count = examples.as_they_are(), self._model_config.folds
        if not self._config.loader_workers:  # processes that read ahead keep what they hear to themselves
            desk.on_phase(f"hearing {len(examples)} clips")
            examples.hear_ahead(HEARING_THREADS)
        networks: list[Any] = []
        phases: list[TrainedPhase] = []
        measured: list[MeasuredClip] = []
        for fold in range(count):
            inside = np.flatnonzero(rows.folds == fold)
            network = self._make_network(features, f"fold{fold + 1}")
            job = FitJob(
                config=self._config,
                model=network,
                train=ExampleSlice(examples, np.flatnonzero(rows.folds != fold)),
                held_out=ExampleSlice(plain, inside),
                collate=collate_examples,
                folder=desk.work,
                phase=f"fold{fold + 1}",
            )
            phases.append(desk.fit(job))
            networks.append(network)
            desk.on_phase(f"fold {fold + 1} of {count}: hearing the {len(inside)} clips that it does not know")
            most = max(1, MAX_THRESHOLD_CLIPS // count)
            heard = inside[np.linspace(0, len(inside) - 1, min(len(inside), most)).round().astype(int)]
            measured += measure_held_out(network, examples, heard.tolist(), self._varied_versions, self._config.chunk_s)
        return networks, phases, measured

    def _make_network(self, features: StepFeatures, name: str) -> Any:
        import torch

        from bystander.tasks.training.recurrent_model import RecurrentNetwork

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(self._config.seed, name, "weights"))
            return RecurrentNetwork(self._model_config, features.bands, features.empty)

    @property
    def _varied_versions(self) -> int:
        """Versions of a held-out clip on which the threshold is chosen, besides the clip itself."""
        return self._model_config.varied_thresholds if self._model_config.augmentation else 0

    def _open(self, left_out_file: Path | None) -> TrainingRows:
        config = self._config
        return open_sid_rows(
            config.data,
            MakeSpokenClip(config.crops.shift_words),
            RECURRENT_COLUMNS,
            rate=SAMPLING_RATE,
            seed=config.seed,
            held_out=config.held_out.share,
            left_out_file=left_out_file,
            folds=self._model_config.folds,
        )

    def _choose_threshold(self, desk: SidDesk, folder: Path) -> PickedThreshold | None:
        """Choose the threshold on held-out clips as they are and varied, both alike."""
        desk.on_phase("choosing the threshold on held-out clips")
        settings, times = self._model_config.augmentation, self._varied_versions
        detector = RecurrentDetector(RecurrentDetectorConfig(model=str(folder)), ModelStore().resolve)
        measured: list[MeasuredClip] = []
        try:
            for row in read_held_out(self._config):
                clip = measure_clip(row, detector)
                measured += [clip] * max(1, times)
                for version in range(times):
                    assert settings is not None
                    rng = make_rng(self._config.seed, row["id"], "vary_held_out", version)
                    samples, break_s = augment_clip(hear_clip(row["audio"]), SAMPLING_RATE, clip.break_s, settings, rng)
                    duration_s = len(samples) / SAMPLING_RATE
                    measured.append(measure_samples(samples, duration_s, break_s, detector))
        finally:
            detector.close()
        return self._pick(measured) if measured else None

    def _pick(self, measured: Sequence[MeasuredClip]) -> PickedThreshold:
        copies = max(1, 2 * self._varied_versions)
        return replace(pick_threshold(measured, self._config.k), clips=len(measured) // copies)
