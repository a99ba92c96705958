"""What the small recurrent network is trained on: all crops of a clip at once.

The network is causal: what it says at a step is its answer to the crop that ends there. So no crops are drawn: every
step is a crop, weighted by the density with which crops end there (`crops.end_density`). The loss is then the expected
loss over drawn crops, without the chance in drawing them, for the price of one pass over the clip.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples
from bystander.schemas.identity import make_rng
from bystander.schemas.train_sid_config import Augmentation, CropSettings, RecurrentConfig, TrainSidConfig
from bystander.tasks.engines.log_mel_steps import SAMPLING_RATE, STEP_FRAMES, STEP_S, Features
from bystander.tasks.engines.step_features import LogMelFeatures, StepFeatures
from bystander.tasks.training.clip_augmentation import augment_clip
from bystander.tasks.training.contract import ExampleSource
from bystander.tasks.training.crops import Times, end_density, label_ends
from bystander.tasks.training.sid_crops import find_label_break

RECURRENT_COLUMNS = ("language", "duration_s", "total_nonbreak", "break_time_s", "break_word_index", "words")
"""Columns of SID_FINAL that a clip is made of, besides its sound."""
_STAGE = "vary_clip"
_BEFORE_S = 0.03
"""Kept of a clip before its first word, where another is put before it."""
_KEPT_BYTES = 512 << 20
"""Most that a process keeps of the features of versions that come again; others are computed again."""

Steps = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SpokenClip:
    """A row's sound, and what its label hangs on; times are in seconds from its start."""

    id: str
    samples: Samples
    """Shape (n,), float32 in [-1, 1], 16 kHz."""
    language: str | None
    speech_s: tuple[float, float] | None
    """From the start of its first word to the end of its last; None where nobody speaks."""
    break_s: float | None
    """The label's break, shifted; None where none breaks."""

    @property
    def is_backchannel(self) -> bool:
        return self.speech_s is not None and self.break_s is None


@dataclass(frozen=True, slots=True)
class RecurrentExample:
    """One clip: arrays over its steps."""

    steps: Features
    """Shape (steps, STEP_FRAMES, bands)."""
    targets: Steps
    """Shape (steps,): 1 where a crop that ends here ends after the label's break."""
    weights: Steps
    """Shape (steps,): the share of a clip's crops that end within this step; they sum to 1."""


@dataclass(frozen=True, slots=True)
class MakeSpokenClip:
    """From rows to clips, as `ShardExamples` asks for them; it is pickled into the processes that read ahead."""

    shift_words: int

    def __call__(self, row: Mapping[str, Any], _: np.random.Generator) -> SpokenClip:
        """Return a row's clip. Columns read: id, samples (float32, 16 kHz), and `RECURRENT_COLUMNS`."""
        timed = [word for word in row["words"] if word["start_s"] is not None and word["end_s"] is not None]
        return SpokenClip(
            id=row["id"],
            samples=row["samples"],
            language=row["language"],
            speech_s=(float(timed[0]["start_s"]), float(timed[-1]["end_s"])) if timed else None,
            break_s=find_label_break(row, self.shift_words).break_s,
        )


@dataclass(frozen=True, slots=True)
class HeardClip:
    """What the network hears of a clip, or of a version of it.

    Attributes:
        steps: features, shape (steps, STEP_FRAMES, bands), float16 or float32.
        break_s: the label's break; None where none breaks.
        duration_s: of its sound, in seconds.
    """

    steps: npt.NDArray[np.floating[Any]]
    break_s: float | None
    duration_s: float


class RecurrentExamples:
    """An `ExampleSource` over one of `SpokenClip`s: joins, varies and weighs them. It can be pickled."""

    def __init__(
        self,
        clips: ExampleSource,
        config: TrainSidConfig,
        *,
        varies: bool,
        features: StepFeatures | None = None,
        folds: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Take the clips' source; what `varies` not is heard as it is, as what is held out should be.

        Args:
            clips: the source.
            config: of the run.
            varies: whether clips are varied.
            features: what is made of the sound; log-mel without it.
            folds: shape (clips,), the fold of each: clips are joined within one, so that a fold that is held out is not
                heard in another's versions.
        """
        model = config.model
        assert isinstance(model, RecurrentConfig)
        self._clips = clips
        self._seed = config.seed
        self._crops = config.crops
        self._features: StepFeatures = LogMelFeatures(model.mel_bands) if features is None else features
        self._augmentation = model.augmentation if varies else None
        self._folds = folds
        self._kept = _KeptClips()

    def as_they_are(self) -> RecurrentExamples:
        """Return the same clips without being varied; both share the features that are kept."""
        plain = copy(self)
        plain._augmentation = None
        return plain

    def __len__(self) -> int:
        return len(self._clips)

    @property
    def lengths(self) -> npt.NDArray[np.float64]:
        """Shape (examples,): seconds, before anything is varied."""
        return self._clips.lengths

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        return self._clips.groups

    @property
    def step_s(self) -> float:
        """Seconds of sound that a step of the features takes."""
        return self._features.step_s

    @property
    def digest(self) -> str | None:
        """Tells sources apart, where the clips' does."""
        return getattr(self._clips, "digest", None)

    def read(self, numbers: Sequence[int], epoch: int) -> list[RecurrentExample]:
        """Return examples; what is random hangs on (seed, row id, epoch) alone.

        Raises:
            CorruptPartError: a shard is damaged.
            StorageError: a shard cannot be read.
        """
        clips: list[SpokenClip] = self._clips.read(numbers, epoch)
        return [self._make(clip, number, epoch) for clip, number in zip(clips, numbers, strict=True)]

    def hear(self, number: int, version: int) -> HeardClip:
        """Return what is heard of a clip as it is (version 0) or of another version, whatever an epoch would have.

        Raises: as `read`.
        """
        (clip,) = self._clips.read([number], 0)
        return self._hear(clip, number, version)

    def hear_ahead(self, threads: int) -> int:
        """Make what epochs will ask for again and again, all clips in all versions, and return how many those are.

        One after the other is how an epoch would make them, which leaves cores idle. What is made is the same. Where
        each epoch has new versions there is nothing to make ahead.

        Raises: as `read`.
        """
        settings = self._augmentation
        versions = 1 if settings is None else settings.versions
        if versions is None:
            return 0
        wanted = [(number, version) for number in range(len(self)) for version in range(versions)]
        with ThreadPoolExecutor(threads, "hear-ahead") as pool:
            for _ in pool.map(lambda one: self.hear(*one), wanted):
                pass
        return len(wanted)

    def _make(self, clip: SpokenClip, number: int, epoch: int) -> RecurrentExample:
        settings = self._augmentation
        if settings is not None and settings.versions is None:
            heard = self._vary(clip, number, epoch, settings)
        else:
            version = 0
            if settings is not None and settings.versions is not None:
                version = int(make_rng(self._seed, clip.id, "version", epoch).integers(settings.versions))
            heard = self._hear(clip, number, version)
        return weigh_crops(heard.steps.astype(np.float32), heard.break_s, self._crops, self._features.step_s)

    def _hear(self, clip: SpokenClip, number: int, version: int) -> HeardClip:
        heard = self._kept.get(number, version)
        if heard is None:
            if self._augmentation is not None and version:
                heard = self._vary(clip, number, version, self._augmentation)
            else:
                steps = self._features.open_stream().accept(clip.samples)
                heard = HeardClip(steps, clip.break_s, len(clip.samples) / SAMPLING_RATE)
            heard = self._kept.put(number, version, heard)
        return heard

    def _vary(self, clip: SpokenClip, number: int, version: int, settings: Augmentation) -> HeardClip:
        rng = make_rng(self._seed, clip.id, _STAGE, version)
        clip = self._join(clip, number, version, settings, rng)
        samples, break_s = augment_clip(clip.samples, SAMPLING_RATE, clip.break_s, settings, rng)
        return HeardClip(self._features.open_stream().accept(samples), break_s, len(samples) / SAMPLING_RATE)

    def _join(
        self, clip: SpokenClip, number: int, epoch: int, settings: Augmentation, rng: np.random.Generator
    ) -> SpokenClip:
        """Return a clip after a backchannel of another, if so drawn and if the one that is drawn is one."""
        is_near = self.groups == self.groups[number]  # read already, or read together
        if self._folds is not None:
            is_near &= self._folds == self._folds[number]
        near = np.flatnonzero(is_near)
        joins, other = rng.random() < settings.joined_share, int(near[rng.integers(len(near))])
        gap_s = float(rng.uniform(*settings.joined_gap_s))
        if not joins or clip.speech_s is None:
            return clip
        before: SpokenClip = self._clips.read([other], epoch)[0]
        if not before.is_backchannel or before.language != clip.language:
            return clip
        return join_clips(before, clip, gap_s)


class _KeptClips:
    """Versions of clips that come again, in 16 bits, as many as there is room for. Pickled, it is empty."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clips: dict[tuple[int, int], HeardClip] = {}
        self._bytes = 0

    def __reduce__(self) -> tuple[type[_KeptClips], tuple[()]]:
        return _KeptClips, ()

    def get(self, number: int, version: int) -> HeardClip | None:
        return self._clips.get((number, version))

    def put(self, number: int, version: int, heard: HeardClip) -> HeardClip:
        """Keep a version, and return it as it will come again."""
        halved = replace(heard, steps=heard.steps.astype(np.float16))
        with self._lock:
            if self._bytes + halved.steps.nbytes <= _KEPT_BYTES:
                self._clips[number, version] = halved
                self._bytes += halved.steps.nbytes
        return halved


def join_clips(before: SpokenClip, clip: SpokenClip, gap_s: float) -> SpokenClip:
    """Return two clips as one turn: the first up to its last word, a pause of `gap_s`, the second from its first word.

    Both must have speech. Levels are as they were: who acknowledges is often quieter.
    """
    assert before.speech_s is not None
    assert clip.speech_s is not None
    from_s = max(0.0, clip.speech_s[0] - _BEFORE_S)
    until_s = before.speech_s[1] + max(0.0, gap_s - (clip.speech_s[0] - from_s))
    first = before.samples[: round(until_s * SAMPLING_RATE)]
    # What a short clip lacks of the pause is quiet.
    pause = np.zeros(round(until_s * SAMPLING_RATE) - len(first), np.float32)
    samples = np.concatenate([first, pause, clip.samples[round(from_s * SAMPLING_RATE) :]])
    later_s = until_s - from_s
    return replace(
        clip,
        samples=samples,
        speech_s=(before.speech_s[0], clip.speech_s[1] + later_s),
        break_s=None if clip.break_s is None else clip.break_s + later_s,
    )


def weigh_crops(
    steps: Features, break_s: float | None, crops: CropSettings, step_s: float = STEP_S
) -> RecurrentExample:
    """Return the example of a clip's features, steps of `step_s`: each step's label, and its share of the crops."""
    ends_s: Times = (np.arange(len(steps), dtype=np.float64) + 1) * step_s
    density = end_density(ends_s - step_s / 2, max(len(steps), 1) * step_s, break_s, crops)
    weights = density / max(float(density.sum()), 1e-9)
    return RecurrentExample(steps, label_ends(ends_s, break_s).astype(np.float32), weights.astype(np.float32))


def collate_examples(examples: Sequence[RecurrentExample]) -> dict[str, Any]:
    """Return the tensors of a batch, filled up at the end to its longest clip; what was filled up weighs nothing."""
    import torch

    longest = max(len(example.steps) for example in examples)
    bands = examples[0].steps.shape[2]
    steps = np.zeros((len(examples), longest, STEP_FRAMES, bands), np.float32)
    targets, weights = (np.zeros((len(examples), longest), np.float32) for _ in range(2))
    for at, example in enumerate(examples):
        steps[at, : len(example.steps)] = example.steps
        targets[at, : len(example.steps)] = example.targets
        weights[at, : len(example.steps)] = example.weights
    arrays = {"steps": steps, "targets": targets, "weights": weights}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
