"""What the page of a training run shows. Trainers fill it; a section that has nothing is left out.

`pages.training_report.render_training_report` makes the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.mixture_results import MixtureResults
from bystander.schemas.training_data import DataRecord


class StepFigures(Protocol):
    """What was told at a step; None where it was not measured there. `StepRecord` of the trainers is one."""

    @property
    def step(self) -> int: ...
    @property
    def epoch(self) -> float: ...
    @property
    def loss(self) -> float | None: ...
    @property
    def held_out_loss(self) -> float | None: ...
    @property
    def learning_rate(self) -> float | None: ...
    @property
    def gradient_norm(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class PhaseCurves:
    """A phase of a run, such as `alignment`: its steps begin at 1."""

    name: str
    history: Sequence[StepFigures]
    resumed_from: Sequence[int] = ()
    """Steps at which it was taken up again."""


@dataclass(frozen=True, slots=True)
class CropExample:
    """One clip and where its crops end. Times are in seconds from the clip's start."""

    name: str
    audio: bytes
    """An encoded mono clip that libsndfile reads."""
    words: Sequence[Mapping[str, Any]]
    """`word`, `start_s`, `end_s`."""
    break_s: float | None
    label_break_s: float | None
    """The break that labels are cut by: shifted by words."""
    ends_s: Sequence[float]
    """Each is positive where it lies after `label_break_s`."""


@dataclass(frozen=True, slots=True)
class CropFigures:
    """Crops of clips with a break as they were drawn, and how they should lie. `tasks.training.crop_figures` makes it.

    `from_label_s`, `from_break_s` and `positive` have one value a crop.
    """

    clips: int
    from_label_s: Sequence[float]
    """End of each crop from the label's break, which is shifted; after it is positive."""
    from_break_s: Sequence[float]
    """End of each crop from the row's own break."""
    positive: Sequence[bool]
    density_at_s: Sequence[float]
    """Times from the label's break."""
    density: Sequence[float]
    """Mean over the clips of `end_density` at these times, 1/s."""
    crops_without_break: int = 0
    """Crops of clips that have no break: all are negative."""
    examples: Sequence[CropExample] = ()
    note: str = ""
    """How a trainer uses crops, where it does not draw them."""


@dataclass(frozen=True, slots=True)
class ThresholdScore:
    """Scores of the detector at one threshold of its probability; None where they are undefined or not known."""

    threshold: float
    apt_s: float
    fir: float | None = None
    irl_s: float | None = None


@dataclass(frozen=True, slots=True)
class ThresholdChoice:
    """Scores of a trained detector on the held-out slice by threshold, and the one that was picked."""

    clips: int
    scores: Sequence[ThresholdScore]
    """By rising threshold."""
    picked: float
    why: str = "least APT"


@dataclass(frozen=True, slots=True)
class DetectorRow:
    """A detector's scores over all clips of a bench. Seconds; FIR in [0, 1]; lower is better in all."""

    name: str
    fir: Estimate
    irl_s: Estimate
    apt_s: Estimate
    is_vad: bool = False
    """A voice activity detector: one of those that a trained one is held against."""
    is_trained: bool = False
    """Trained by the run or the experiment that the page is about."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class DetectorBench:
    """Detectors on one bench, beside each other."""

    title: str
    clips: int
    rows: Sequence[DetectorRow]
    goal: float | None = None
    """How many times better than the best VAD in APT the trained one is hoped to be."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ReportSections:
    """What a trainer measured beyond its curves, for the page of its run."""

    crops: CropFigures | None = None
    threshold: ThresholdChoice | None = None
    benches: Sequence[DetectorBench] = ()


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """All that the page of a run shows."""

    title: str
    summary: str
    """One sentence: what was trained on what."""
    facts: Sequence[tuple[str, str]] = ()
    """Name and value: configuration digest, seed, model, weights, device, code, packages."""
    tiles: Sequence[tuple[str, str]] = ()
    """Name and value of the few figures that matter most; without them, the page takes steps and losses."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The configuration as JSON, nested."""
    data: DataRecord | None = None
    phases: Sequence[PhaseCurves] = ()
    figures: Sequence[tuple[str, str]] = ()
    """Name and value of what was measured of the trained model."""
    notes: Sequence[str] = ()
    crops: CropFigures | None = None
    threshold: ThresholdChoice | None = None
    benches: Sequence[DetectorBench] = ()
    mixtures: MixtureResults | None = None
    links: Sequence[tuple[str, str]] = ()
    """Name and relative address of pages beside this one."""
