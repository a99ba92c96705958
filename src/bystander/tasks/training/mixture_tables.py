"""The tables of an experiment with mixtures, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from bystander.schemas.mixture_results import PAPER_FIGURES, MixtureResults, MixtureSummary
from bystander.tasks.training.reliance_tables import (
    INPUT_NAMES,
    format_estimate,
    format_figure,
    format_p,
    format_reliance,
    format_share,
    tabulate,
)

_METRICS = {
    "false_interruption": "false interruptions",
    "recognised": "recognised",
    "class_accuracy": "class right",
    "dyadic_interruption": "false on dyadic",
}


def format_tables(results: MixtureResults) -> str:
    """Return the tables: shares by mixture beside the paper's, rows, tests, controls, embeddings."""
    level = f"{100 * results.confidence:g} %"
    seeds = len(results.seeds)
    two, one = results.bench.rows["tpi_test"], results.bench.rows["janus_test"]
    parts = [
        f"# Mixtures: {results.name}",
        f"A small model with two inputs, trained on each mixture with {seeds} seed{'s' if seeds > 1 else ''} and "
        f"scored on the {two} two-speaker rows (TPI-Test) and the {one} one-speaker rows of the same kind of words "
        f"(Janus-Test) of `{results.bench.build}`. A share is the mean over seeds [{level} by Student's t over seeds; "
        f"{level} by the bootstrap over requests].",
        tabulate(
            ("mixture", "perceives", *_METRICS.values(), "gap", "AUC of twins"),
            (_list_shares(summary) for summary in results.summaries),
        ),
        "False interruptions: share of the one-speaker rows taken for an interruption, lower is better. Recognised: of "
        "the two-speaker rows. Class right: recognised, and of the right class. False on dyadic: of requests said to "
        "the end by one speaker. Gap: recognised less false interruptions; a model that only says one thing more often "
        "than another has none. AUC of twins: whether the model finds the two-speaker one of two rows with the same "
        "words; 0.5 is chance, and all that words alone can reach.",
        "What the TPI paper measured with a model of seven billion weights, judged by a language model (Table 2):",
        tabulate(
            ("mixture", "RSF on Janus-Test (lower is better)", "RSF on TPI-Test (higher is better)"),
            ((name, f"{figure.janus_rsf:.2f}", f"{figure.tpi_rsf:.2f}") for name, figure in PAPER_FIGURES.items()),
        ),
        "## Rows",
        tabulate(
            ("mixture", "two speakers", "dyadic", "hard negatives", "held out"),
            (
                (
                    rows.mixture,
                    *(str(rows.trained.get(part, 0)) for part in ("two_speaker", "dyadic", "hard_negative")),
                    str(sum(rows.held_out.values())),
                )
                for rows in results.rows
            ),
        ),
        "## Paired tests",
        tabulate(
            ("first", "second", "perceives", "share", "difference", "by seed: t, p", "by row: p (McNemar, majority)"),
            _list_tests(results),
        ),
        *format_reliance(results),
        "## Controls that do not know who speaks",
        tabulate(
            ("control", "mixture", "false interruptions", "recognised", "on requests alone", "AUC of twins", "of"),
            (
                (
                    score.name,
                    score.mixture,
                    f"{score.false_interruption:.2f}",
                    f"{score.recognised:.2f}",
                    format_figure(score.request_interruption),
                    format_figure(score.twin_auc),
                    score.detail,
                )
                for score in results.confounds
            ),
        )
        if results.confounds
        else "None: no mixture has rows of one speaker.",
        "## Embeddings",
        f"A linear probe, tried on rows that it has not seen; AUC [{level}].",
        tabulate(
            ("mixture", "tells", "from", "AUC", "rows"),
            (
                (
                    found.mixture,
                    found.first.replace("_", " "),
                    found.second.replace("_", " "),
                    f"{format_figure(found.auc)} [{format_figure(found.low)}, {format_figure(found.high)}]",
                    str(found.n),
                )
                for found in results.separations
            ),
        ),
        *(f"- {note}" for note in results.notes),
    ]
    return "\n\n".join(parts) + "\n"


def _list_shares(summary: MixtureSummary) -> tuple[str, ...]:
    shares = [getattr(summary, metric) for metric in _METRICS]
    return (
        summary.mixture,
        INPUT_NAMES[summary.inputs],
        *(format_share(share) for share in shares),
        format_figure(_measure_gap(summary)),
        format_estimate(summary.twin_auc),
    )


def _measure_gap(summary: MixtureSummary) -> float | None:
    recognised, wrong = summary.recognised.over_seeds.mean, summary.false_interruption.over_seeds.mean
    return None if recognised is None or wrong is None else recognised - wrong


def _list_tests(results: MixtureResults) -> Iterable[tuple[str, ...]]:
    tests = {(t.first, t.second, t.inputs, t.metric, t.paired_by): t for t in results.comparisons}
    for (first, second, inputs, metric, paired_by), by_seed in tests.items():
        if paired_by != "seed":
            continue
        by_row = tests[first, second, inputs, metric, "row"]
        statistic = "undefined" if by_seed.p is None else f"{format_figure(by_seed.statistic)}, {format_p(by_seed.p)}"
        yield (
            first,
            second,
            INPUT_NAMES[inputs],
            _METRICS[metric],
            f"{by_seed.difference:+.2f}",
            statistic,
            format_p(by_row.p),
        )
