"""What a small model learned from each mixture: shares by seed, embeddings, curves, and what else may explain it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor

from markupsafe import Markup

from bystander.pages.interval_plot import PlotDot, PlotRow, PlotScale, draw_intervals, show_legend
from bystander.pages.line_plot import Frame, Line, draw_lines
from bystander.pages.scatter_plot import draw_projection, show_groups
from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.mixture_results import (
    PAPER_FIGURES,
    EmbeddingSeparation,
    MixtureMetric,
    MixtureResults,
    MixtureRun,
    MixtureSummary,
    PaperFigure,
    SeedEstimate,
)
from bystander.schemas.train_tpi_config import MIXTURES, TwoInputs

INPUTS: Mapping[TwoInputs, str] = {"text_and_sound": "words and sound", "text": "words alone", "sound": "sound alone"}
"""What a model perceives, in words; the first is the model that the experiment is about."""

PARTS = {"two_speaker": "two speakers", "dyadic": "dyadic", "hard_negative": "hard negatives"}
GROUPS = {"one_speaker": "one speaker", "hard_negative": "hard negative", "two_speakers": "two speakers"}

_METRICS: tuple[tuple[MixtureMetric, str, bool], ...] = (
    ("false_interruption", "Janus-Test: taken for an interruption", False),
    ("class_accuracy", "TPI-Test: class right", True),
    ("recognised", "TPI-Test: interruption recognised", True),
)


@dataclass(frozen=True, slots=True)
class MixtureLine:
    """A line of the table. `figures` are in the order of the table's columns; the paper's stand by the first inputs."""

    title: str
    parts: str
    summary: MixtureSummary
    figures: tuple[SeedEstimate, ...]
    paper: PaperFigure | None


@dataclass(frozen=True, slots=True)
class MixtureSection:
    """What the page shows of the experiment. `blocks` are titles of inputs with the lines of their mixtures."""

    verdict: str
    heads: list[str]
    blocks: list[tuple[str, list[MixtureLine]]]
    legend: Markup
    charts: list[Markup]
    groups: Markup
    pictures: list[Markup]
    separations: list[tuple[str, list[tuple[str, EmbeddingSeparation]]]]
    curves: list[Markup]
    reliance: list[Markup]
    inputs: Mapping[TwoInputs, str]
    parts: Mapping[str, str]


def draw_mixtures(results: MixtureResults) -> MixtureSection:
    """Return the section's tables and charts."""
    there = [inputs for inputs in INPUTS if any(one.inputs == inputs for one in results.summaries)]
    return MixtureSection(
        verdict=_conclude(results),
        heads=[f"{title} {'↑' if higher else '↓'}" for _, title, higher in _METRICS],
        blocks=[(INPUTS[inputs], _list_lines(results, inputs, is_first=at == 0)) for at, inputs in enumerate(there)],
        legend=show_legend([INPUTS[inputs] for inputs in there]),
        charts=[_draw_metric(results, there, metric, title, higher) for metric, title, higher in _METRICS],
        groups=show_groups(results.projections),
        pictures=[draw_projection(projection, with_legend=False) for projection in results.projections],
        separations=_group_separations(results.separations),
        curves=_draw_curves(results),
        reliance=_draw_reliance(results, there),
        inputs=INPUTS,
        parts=PARTS,
    )


def _list_lines(results: MixtureResults, inputs: TwoInputs, is_first: bool) -> list[MixtureLine]:
    return [
        MixtureLine(
            one.mixture,
            " + ".join(PARTS[part] for part in MIXTURES[one.mixture]),
            one,
            tuple(_get(one, metric) for metric, _, _ in _METRICS),
            PAPER_FIGURES.get(one.mixture) if is_first else None,
        )
        for one in _order(results)
        if one.inputs == inputs
    ]


def _conclude(results: MixtureResults) -> str:
    """Return the answer to the experiment's question, of the model with the most inputs."""
    main = [one for one in _order(results) if one.inputs == next(iter(INPUTS))]
    if not main:
        return ""

    def list_means(metric: MixtureMetric) -> str:
        means = ((one.mixture, _get(one, metric).over_seeds.mean) for one in main)
        return ", ".join(f"{mixture} {mean:.3f}" for mixture, mean in means if mean is not None)

    return (
        f"Share of one-speaker rows taken for an interruption: {list_means('false_interruption')}. "
        f"TPI-Test accuracy: {list_means('class_accuracy')}. Means over {len(results.seeds)} seeds."
    )


def _draw_metric(
    results: MixtureResults, there: Sequence[TwoInputs], metric: MixtureMetric, title: str, higher_is_better: bool
) -> Markup:
    rows = [
        PlotRow(
            mixture,
            [
                PlotDot(INPUTS[one.inputs], there.index(one.inputs), _without_count(_get(one, metric)), singles)
                for one in _order(results)
                if one.mixture == mixture
                for singles in (_list_singles(results.runs, one, metric),)
            ],
        )
        for mixture in MIXTURES
        if any(one.mixture == mixture for one in results.summaries)
    ]
    return draw_intervals(title, PlotScale(0, 1, higher_is_better), rows)


def _draw_reliance(results: MixtureResults, there: Sequence[TwoInputs]) -> list[Markup]:
    """Return charts of both effects of swapped inputs, on one scale, where they were measured."""
    found = [one for one in results.swaps if one.contrast == "hard_negative"]
    if not found:
        return []
    charts = []
    effects = [getattr(one, name).over_seeds for one in found for name in ("words_effect", "sound_effect")]
    ends = [end for one in effects for end in (one.low, one.high, one.mean) if end is not None]
    scale = PlotScale(float(min(0, floor(min(ends)))), float(max(1, ceil(max(ends)))), None)
    for title, name in (("Effect of words, log-odds", "words_effect"), ("Effect of sound, log-odds", "sound_effect")):
        rows = [
            PlotRow(
                mixture,
                [
                    PlotDot(INPUTS[one.inputs], there.index(one.inputs), _without_count(getattr(one, name)), [])
                    for one in found
                    if one.mixture == mixture
                ],
            )
            for mixture in MIXTURES
            if any(one.mixture == mixture for one in found)
        ]
        charts.append(draw_intervals(title, scale, rows))
    return charts


def _without_count(figure: SeedEstimate) -> Estimate:
    """Return the estimate over seeds; their number is the same everywhere and stands above."""
    return figure.over_seeds.model_copy(update={"n": 0})


def _list_singles(runs: Sequence[MixtureRun], summary: MixtureSummary, metric: MixtureMetric) -> list[float]:
    return [getattr(run, metric) for run in runs if (run.mixture, run.inputs) == (summary.mixture, summary.inputs)]


def _draw_curves(results: MixtureResults) -> list[Markup]:
    """Return charts of the mean curves over seeds, a line a mixture, of the model with the most inputs."""
    main = next(iter(INPUTS))
    charts = []
    for title, figure in (("Loss", "loss"), ("Held-out loss", "held_out_loss")):
        lines = []
        for at, mixture in enumerate(MIXTURES):
            told: dict[int, list[float]] = {}
            for run in results.runs:
                if (run.mixture, run.inputs) == (mixture, main):
                    for point in run.curve:
                        if (value := getattr(point, figure)) is not None:
                            told.setdefault(point.step, []).append(value)
            steps = sorted(told)
            lines.append(Line(mixture, steps, [sum(told[step]) / len(told[step]) for step in steps], at))
        if any(len(line.x) for line in lines):
            charts.append(draw_lines(title, Frame("step", stat="mean over seeds", whole_x=True), lines))
    return charts


def _group_separations(
    separations: Sequence[EmbeddingSeparation],
) -> list[tuple[str, list[tuple[str, EmbeddingSeparation]]]]:
    found: dict[str, list[tuple[str, EmbeddingSeparation]]] = {}
    for one in separations:
        found.setdefault(f"{GROUPS[one.first]} from {GROUPS[one.second]}", []).append((one.mixture, one))
    return list(found.items())


def _order(results: MixtureResults) -> list[MixtureSummary]:
    order = [*MIXTURES]
    return sorted(results.summaries, key=lambda one: order.index(one.mixture))


def _get(summary: MixtureSummary, metric: MixtureMetric) -> SeedEstimate:
    found: SeedEstimate = getattr(summary, metric)
    return found
