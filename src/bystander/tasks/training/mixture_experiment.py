"""An experiment with mixtures: one model for each mixture, choice of inputs and seed, all scored on the same rows."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bystander.schemas.errors import InputError
from bystander.schemas.evaluation_scores import Estimate, Projection
from bystander.schemas.identity import derive_seed
from bystander.schemas.mixture_config import CompareMixturesConfig
from bystander.schemas.mixture_results import (
    ConfoundScore,
    CurvePoint,
    EmbeddingSeparation,
    MixtureComparison,
    MixtureMetric,
    MixtureRows,
    MixtureRun,
    MixtureSummary,
    SplicedSummary,
    SwapComparison,
    SwapContrast,
    SwapSummary,
)
from bystander.schemas.train_tpi_config import MIXTURES, MixtureName, TwoInputs
from bystander.schemas.training_data import DataRecord
from bystander.tasks.metrics.embedding_projection import project_embeddings
from bystander.tasks.training.mixture import mix_parts, tell_data
from bystander.tasks.training.mixture_controls import (
    GROUPS,
    measure_twin_auc,
    score_confounds,
    separate_embeddings,
)
from bystander.tasks.training.mixture_reliance import compare_swaps, summarise_spliced, summarise_swaps
from bystander.tasks.training.mixture_statistics import (
    METRIC_PARTS,
    SeedAnswers,
    compare_shares,
    estimate_over_seeds,
    estimate_share,
)
from bystander.tasks.training.mixture_swaps import Swap, SwapAnswers, answer_swaps, pair_rows
from bystander.tasks.training.row_index import RowIndex
from bystander.tasks.training.spliced_rows import SplicedRow
from bystander.tasks.training.two_input_rows import TwoInputExample, TwoInputRow, list_classes, make_examples
from bystander.tasks.training.two_input_scores import BenchAnswers, judge_answers, share_answers
from bystander.tasks.training.two_input_training import TwoInputData, train_two_input_rows
from bystander.tasks.training.two_input_words import hash_words

Tell = Callable[[str], None]
_EVERY_POINT = 60
"""Most points of a curve that results keep."""


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """One model's verdicts on the bench, its embeddings of those rows and of held-out dyadic ones, and its record."""

    record: MixtureRun
    parameters: int
    answers: BenchAnswers
    swaps: dict[SwapContrast, SwapAnswers]
    spliced: npt.NDArray[np.float64]
    """Probability of an interruption in clips of the seam control, shape (pairs, 2): one voice, two voices."""
    embeddings: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ExperimentFindings:
    """What an experiment found, as `MixtureResults` has it."""

    rows: tuple[MixtureRows, ...]
    runs: tuple[MixtureRun, ...]
    summaries: tuple[MixtureSummary, ...]
    comparisons: tuple[MixtureComparison, ...]
    confounds: tuple[ConfoundScore, ...]
    projections: tuple[Projection, ...]
    separations: tuple[EmbeddingSeparation, ...]
    swaps: tuple[SwapSummary, ...]
    swap_comparisons: tuple[SwapComparison, ...]
    spliced: tuple[SplicedSummary, ...]
    notes: tuple[str, ...]
    """What a person has to know of the rows."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What each model is asked: the bench, what is drawn beside it, swaps by contrast, and the seam control."""

    bench: Sequence[TwoInputRow]
    shown: Sequence[TwoInputRow]
    swaps: dict[SwapContrast, tuple[Swap, ...]]
    spliced: Sequence[SplicedRow]


def run_experiment(
    config: CompareMixturesConfig,
    index: RowIndex,
    rows: Sequence[TwoInputRow],
    bench: Sequence[TwoInputRow],
    spliced: Sequence[SplicedRow] = (),
    tell: Tell = lambda _: None,
) -> ExperimentFindings:
    """Train and score every model.

    Args:
        config: mixtures, inputs, seeds, model.
        index: of the rows to train on.
        rows: those rows, in the index's order.
        bench: rows to be scored: two-speaker rows, hard negatives, and dyadic rows where there are some.
        spliced: the seam control's clips of the bench.
        tell: is told of each model.

    Raises:
        ConfigError: a part of a mixture has no row.
        InputError: the bench lacks two-speaker rows or hard negatives, or has rows of the training data.
    """
    _check_bench(rows, bench)
    classes = list_classes(rows)
    mixed = {mixture: _mix(config, index, rows, classes, mixture) for mixture in config.mixtures}
    data = {mixture: one for mixture, (one, _) in mixed.items()}
    notes = tuple(dict.fromkeys(note for _, record in mixed.values() for note in tell_data(record)))
    for note in notes:
        tell(note)
    shown = [*bench, *_list_held_dyadic(data, bench)]
    contrasts: tuple[SwapContrast, ...] = ("hard_negative", "dyadic")
    paired = {contrast: pair_rows(shown, contrast, config.seed) for contrast in contrasts}
    asked = _Asked(bench, shown, {contrast: swaps for contrast, swaps in paired.items() if swaps}, spliced)
    trained: dict[tuple[MixtureName, TwoInputs], list[TrainedRun]] = defaultdict(list)
    total = len(config.mixtures) * len(config.inputs) * config.seeds
    for inputs in config.inputs:
        for mixture in config.mixtures:
            for seed in config.seed_list:
                number = sum(map(len, trained.values())) + 1
                run = _train_run(config, data[mixture], mixture, inputs, seed, asked)
                trained[mixture, inputs].append(run)
                tell(
                    f"model {number} of {total} ({mixture}, {inputs}, seed {seed}): false interruptions "
                    f"{run.record.false_interruption:.2f}, recognised {run.record.recognised:.2f}, "
                    f"class right {run.record.class_accuracy:.2f}"
                )
    answers = {
        (mixture, inputs): SeedAnswers(mixture, inputs, tuple(run.answers for run in runs))
        for (mixture, inputs), runs in trained.items()
    }
    first = {mixture: runs[0] for (mixture, inputs), runs in trained.items() if inputs == "text_and_sound"}
    return ExperimentFindings(
        rows=tuple(_count_rows(data[mixture], mixture) for mixture in config.mixtures),
        runs=tuple(run.record for runs in trained.values() for run in runs),
        summaries=tuple(_summarise(config, answers[key], trained[key], bench) for key in trained),
        comparisons=tuple(_compare(config, answers, bench)),
        confounds=tuple(
            score
            for mixture in config.mixtures
            for score in score_confounds(data[mixture].list_rows(data[mixture].train), bench, mixture)
        ),
        projections=tuple(_project(config, mixture, run, shown) for mixture, run in first.items()),
        separations=tuple(
            found
            for mixture, run in first.items()
            for found in separate_embeddings(run.embeddings, shown, mixture, config.confidence, config.seed)
        ),
        swaps=tuple(
            summarise_swaps(*key, name, swaps, [run.swaps[name] for run in runs], config.confidence, config.seed)
            for name, swaps in asked.swaps.items()
            for key, runs in trained.items()
        ),
        swap_comparisons=tuple(
            found
            for name in asked.swaps
            for inputs in config.inputs
            for first, second in combinations(config.mixtures, 2)
            for found in compare_swaps(
                first,
                second,
                inputs,
                name,
                *([run.swaps[name] for run in trained[mixture, inputs]] for mixture in (first, second)),
            )
        ),
        spliced=tuple(
            summarise_spliced(
                *key, [one.row.group for one in spliced], [run.spliced for run in runs], config.confidence, config.seed
            )
            for key, runs in trained.items()
            if spliced
        ),
        notes=notes,
    )


def _check_bench(rows: Sequence[TwoInputRow], bench: Sequence[TwoInputRow]) -> None:
    for part, name in (("two_speaker", "two-speaker row"), ("hard_negative", "one-speaker row")):
        if not any(row.part == part for row in bench):
            raise InputError(f"bench: has no {name}; name a finished TPI-Bench build")
    shared = {row.group for row in rows} & {row.group for row in bench}
    if shared:
        raise InputError(
            f"bench: {len(shared)} of its requests are trained on too, such as {min(shared)}; build it with "
            "--disjoint-from the builds that are trained on"
        )


def _mix(
    config: CompareMixturesConfig,
    index: RowIndex,
    rows: Sequence[TwoInputRow],
    classes: tuple[str, ...],
    mixture: MixtureName,
) -> tuple[TwoInputData, DataRecord]:
    """Return a mixture's rows and the record of them; what is held out is the same for all seeds and mixtures."""
    proportions = {part: value for part, value in config.proportions.items() if part in MIXTURES[mixture]}
    train, held_out, record = mix_parts(index, mixture, proportions, config.seed, config.held_out.share)
    return TwoInputData(tuple(rows), train, held_out, classes), record


def _list_held_dyadic(data: dict[MixtureName, TwoInputData], bench: Sequence[TwoInputRow]) -> list[TwoInputRow]:
    """Return held-out dyadic rows, to be drawn where the bench has none."""
    if any(row.part == "dyadic" for row in bench):
        return []
    found = {row.id: row for one in data.values() for row in one.list_rows(one.held_out) if row.part == "dyadic"}
    return [found[row_id] for row_id in sorted(found)]


def _train_run(
    config: CompareMixturesConfig,
    data: TwoInputData,
    mixture: MixtureName,
    inputs: TwoInputs,
    seed: int,
    asked: _Asked,
) -> TrainedRun:
    from bystander.tasks.training.two_input import answer_two_input

    model_config = config.model.model_copy(update={"inputs": inputs})
    own = config.model_copy(update={"seed": seed})
    with tempfile.TemporaryDirectory(prefix="bystander-mixtures-") as folder:
        model, outcome = train_two_input_rows(own, model_config, data, Path(folder), f"{mixture}/{inputs}/{seed}")
    bench, buckets = asked.bench, model_config.hash_buckets
    found = answer_two_input(model, make_examples(asked.shown, data.classes, buckets))
    answers = judge_answers(found.probabilities[: len(bench)], data.classes, bench)
    shares = share_answers(answers, bench)
    swapped = {name: answer_swaps(model, swaps, buckets) for name, swaps in asked.swaps.items()}
    clips = [
        TwoInputExample(hash_words(one.row.words, buckets), frames, 0)
        for one in asked.spliced
        for frames in (one.one_voice, one.two_voices)
    ]
    spliced = 1 - answer_two_input(model, clips).probabilities[:, 0] if clips else np.empty(0)
    points = [
        CurvePoint(step=record.step, loss=record.loss, held_out_loss=record.held_out_loss)
        for record in outcome.history
        if record.loss is not None or record.held_out_loss is not None
    ]
    record = MixtureRun(
        mixture=mixture,
        inputs=inputs,
        seed=seed,
        steps=outcome.steps,
        false_interruption=shares.false_interruption,
        recognised=shares.recognised,
        class_accuracy=shares.class_accuracy,
        dyadic_interruption=shares.dyadic_interruption,
        curve=tuple(thin_curve(points, _EVERY_POINT)),
    )
    parameters = sum(weight.numel() for weight in model.parameters())
    return TrainedRun(record, parameters, answers, swapped, spliced.reshape(-1, 2), found.embeddings)


def thin_curve(points: Sequence[CurvePoint], most: int) -> list[CurvePoint]:
    """Return a curve of about `most` points: losses are means over the steps that share a point, which is the last of
    them; of the held-out losses there, the last one is kept."""
    size = max(1, -(-len(points) // most))
    thinned = []
    for start in range(0, len(points), size):
        piece = points[start : start + size]
        losses = [point.loss for point in piece if point.loss is not None]
        held = [point.held_out_loss for point in piece if point.held_out_loss is not None]
        thinned.append(
            CurvePoint(
                step=piece[-1].step,
                loss=round(float(np.mean(losses)), 6) if losses else None,
                held_out_loss=round(held[-1], 6) if held else None,
            )
        )
    return thinned


def _count_rows(data: TwoInputData, mixture: MixtureName) -> MixtureRows:
    counts = {}
    for name, draws in (("trained", data.train), ("held_out", data.held_out)):
        rows = data.list_rows(draws)
        counts[name] = {part: sum(row.part == part for row in rows) for part in MIXTURES[mixture]}
    return MixtureRows(mixture=mixture, trained=counts["trained"], held_out=counts["held_out"])


def _summarise(
    config: CompareMixturesConfig, seeds: SeedAnswers, runs: Sequence[TrainedRun], bench: Sequence[TwoInputRow]
) -> MixtureSummary:
    shares = {metric: estimate_share(seeds, metric, bench, config.confidence, config.seed) for metric in METRIC_PARTS}
    aucs = [measure_twin_auc(run.answers.interruption, bench) for run in runs]
    known = [auc for auc in aucs if auc is not None]
    none = Estimate(mean=None, low=None, high=None, n=0)
    return MixtureSummary(
        mixture=seeds.mixture,
        inputs=seeds.inputs,
        parameters=runs[0].parameters,
        **shares,
        twin_auc=estimate_over_seeds(known, config.confidence) if known else none,
    )


def _compare(
    config: CompareMixturesConfig,
    answers: dict[tuple[MixtureName, TwoInputs], SeedAnswers],
    bench: Sequence[TwoInputRow],
) -> list[MixtureComparison]:
    metrics: tuple[MixtureMetric, ...] = tuple(METRIC_PARTS)
    return [
        found
        for inputs in config.inputs
        for first, second in combinations(config.mixtures, 2)
        for metric in metrics
        for found in compare_shares(answers[first, inputs], answers[second, inputs], metric, bench)
    ]


def _project(
    config: CompareMixturesConfig, mixture: MixtureName, run: TrainedRun, shown: Sequence[TwoInputRow]
) -> Projection:
    return project_embeddings(
        run.embeddings,
        [row.id for row in shown],
        [GROUPS[row.part] for row in shown],
        system=mixture,
        seed=derive_seed(config.seed, mixture, "mixture_projection"),
    )
