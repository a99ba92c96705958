"""The tables of an experiment with mixtures, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.mixture_results import PAPER_FIGURES, MixtureResults, MixtureSummary, SeedEstimate

_INPUTS = {"text_and_sound": "words and sound", "text": "words alone", "sound": "sound alone"}
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
        _tabulate(
            ("mixture", "perceives", *_METRICS.values(), "gap", "AUC of twins"),
            (_list_shares(summary) for summary in results.summaries),
        ),
        "False interruptions: share of the one-speaker rows taken for an interruption, lower is better. Recognised: of "
        "the two-speaker rows. Class right: recognised, and of the right class. False on dyadic: of requests said to "
        "the end by one speaker. Gap: recognised less false interruptions; a model that only says one thing more often "
        "than another has none. AUC of twins: whether the model finds the two-speaker one of two rows with the same "
        "words; 0.5 is chance, and all that words alone can reach.",
        "What the TPI paper measured with a model of seven billion weights, judged by a language model (Table 2):",
        _tabulate(
            ("mixture", "RSF on Janus-Test (lower is better)", "RSF on TPI-Test (higher is better)"),
            ((name, f"{figure.janus_rsf:.2f}", f"{figure.tpi_rsf:.2f}") for name, figure in PAPER_FIGURES.items()),
        ),
        "## Rows",
        _tabulate(
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
        _tabulate(
            ("first", "second", "perceives", "share", "difference", "by seed: t, p", "by row: p (McNemar, majority)"),
            _list_tests(results),
        ),
        "## Controls that do not know who speaks",
        _tabulate(
            ("hears", "mixture", "false interruptions", "recognised", "AUC of twins", "what it is"),
            (
                (
                    score.name,
                    score.mixture,
                    f"{score.false_interruption:.2f}",
                    f"{score.recognised:.2f}",
                    _format(score.twin_auc),
                    score.detail,
                )
                for score in results.confounds
            ),
        )
        if results.confounds
        else "None: no mixture has rows of one speaker.",
        "## Embeddings",
        f"A linear probe, tried on rows that it has not seen; AUC [{level}].",
        _tabulate(
            ("mixture", "tells", "from", "AUC", "rows"),
            (
                (
                    found.mixture,
                    found.first.replace("_", " "),
                    found.second.replace("_", " "),
                    f"{_format(found.auc)} [{_format(found.low)}, {_format(found.high)}]",
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
        _INPUTS[summary.inputs],
        *(_format_share(share) for share in shares),
        _format(_measure_gap(summary)),
        _format_estimate(summary.twin_auc),
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
        statistic = "undefined" if by_seed.p is None else f"{_format(by_seed.statistic)}, {_format_p(by_seed.p)}"
        yield (
            first,
            second,
            _INPUTS[inputs],
            _METRICS[metric],
            f"{by_seed.difference:+.2f}",
            statistic,
            _format_p(by_row.p),
        )


def _format_share(share: SeedEstimate | None) -> str:
    if share is None:
        return "-"
    rows = share.over_rows
    return f"{_format_estimate(share.over_seeds)[:-1]}; {_format(rows.low)}, {_format(rows.high)}]"


def _format_estimate(estimate: Estimate) -> str:
    if estimate.mean is None:
        return "-"
    return f"{_format(estimate.mean)} [{_format(estimate.low)}, {_format(estimate.high)}]"


def _format(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _format_p(p: float | None) -> str:
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _tabulate(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
