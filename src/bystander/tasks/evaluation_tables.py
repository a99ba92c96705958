"""The table of an evaluation, in the form of Table 2 of the TPI paper, as Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from bystander.schemas.evaluation import TESTS
from bystander.schemas.evaluation_scores import Comparison, Estimate, EvaluationScores, RaterInfo, SystemScore
from bystander.schemas.evaluation_table import (
    DIGITS,
    TEST_TITLES,
    AdjustedComparison,
    ScoreTable,
    TableCell,
    TableColumn,
    TableRow,
    TableStyle,
    show_figure,
    show_p,
)
from bystander.tasks.metrics.published_results import PublishedResults, PublishedSystem, load_published_results
from bystander.tasks.metrics.score_definitions import TABLE_SCORES, ScoreDefinition

_NOTHING = Estimate(mean=None, low=None, high=None, n=0)
_STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
_FIGURES = ("", ".low", ".high", ".n", ".missing", ".unparsable")  # after a score's key, in CSV


def format_table(scores: EvaluationScores, style: TableStyle, published: bool = False, intervals: bool = False) -> str:
    """Return the table as text that ends in a newline; the same scores give the same text.

    Args:
        scores: what the evaluation found.
        style: `markdown` shows two decimals, the best of each column bold, and the comparisons below; `csv` has one
            line for each system and judge, at full precision, an empty field where there is no figure; `json` holds
            the same and the comparisons.
        published: add the systems of the TPI paper, marked, with their source.
        intervals: show confidence intervals in Markdown (CSV and JSON always have them).
    """
    table = build_table(scores, published=published)
    if style == "csv":
        return _format_csv(table)
    comparisons = adjust_comparisons(scores.comparisons)
    if style == "json":
        return _format_json(scores, table, comparisons)
    return _format_markdown(scores, table, comparisons, intervals)


def build_table(scores: EvaluationScores, published: bool = False) -> ScoreTable:
    """Return the table: judge by judge, systems in the order in which the evaluation lists them.

    A figure is the best of its column where no other system under the same judge has a better one at two decimals, and
    at least two systems have one. Published systems do not take part: their bench was another.
    """
    judges = _order(scores.judges)
    systems = _order(scores.systems)
    ordered = sorted(
        scores.scores, key=lambda s: (judges.get(s.judge, len(judges)), systems.get(s.system, len(systems)))
    )
    rows = _mark_best([TableRow(s.system, s.judge, tuple(_find_cell(s, d) for d in TABLE_SCORES)) for s in ordered])
    columns = tuple(_make_column(definition) for definition in TABLE_SCORES)
    if not published:
        return ScoreTable(columns, tuple(rows))
    results = load_published_results()
    rows += [_make_published_row(system) for system in results.systems]
    return ScoreTable(columns, tuple(rows), _describe_source(results), results.source.address)


def adjust_comparisons(comparisons: Sequence[Comparison]) -> list[AdjustedComparison]:
    """Return the comparisons in their order, with p corrected by Holm's method (Holm 1979).

    The family of a comparison is all pairs of systems under the same judge, test and metric.
    """
    families: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for number, one in enumerate(comparisons):
        families[one.judge, one.test, one.metric].append(number)
    adjusted = [one.p for one in comparisons]
    for members in families.values():
        if len(members) > 1:
            from statsmodels.stats.multitest import multipletests

            corrected = multipletests([comparisons[number].p for number in members], method="holm")[1]
            for number, p in zip(members, corrected, strict=True):
                adjusted[number] = float(p)
    return [
        AdjustedComparison(one, p, next((stars for bound, stars in _STARS if p < bound), ""))
        for one, p in zip(comparisons, adjusted, strict=True)
    ]


def format_comparisons(comparisons: Sequence[AdjustedComparison]) -> str:
    """Return a Markdown list with a line for each judge, test and metric: all its pairs, with p; empty without any."""
    families: dict[str, list[AdjustedComparison]] = {}
    for one in comparisons:
        c = one.comparison
        # Which variant a test took depends on the pair; the page and the JSON say so.
        method = c.method.split(",")[0]
        head = f"{TEST_TITLES[c.test]} {c.metric.upper()}, judge {_escape(c.judge)} ({method}, n {c.n})"
        families.setdefault(head, []).append(one)
    return "".join(f"- {head}: {'; '.join(map(_describe_pair, pairs))}\n" for head, pairs in families.items())


def _order(raters: Iterable[RaterInfo]) -> dict[str, int]:
    return {rater.name: number for number, rater in enumerate(raters)}


def _make_column(definition: ScoreDefinition) -> TableColumn:
    return TableColumn(
        key=definition.key,
        group=TEST_TITLES[definition.bench_set] if definition.bench_set else "",
        title=definition.title,
        lowest=definition.lowest,
        highest=definition.highest,
        higher_is_better=definition.higher_is_better,
    )


def _find_cell(score: SystemScore, definition: ScoreDefinition) -> TableCell:
    if definition.bench_set is None:
        if score.pairs is None:
            return TableCell(_NOTHING)
        return TableCell(score.pairs.bleu if definition.key == "bleu" else score.pairs.rouge_l)
    found = (
        value
        for test in score.tests
        for metric, value in test.metrics.items()
        if f"{test.test}.{metric}" == definition.key
    )
    return next((TableCell(value.estimate, value.missing, value.unparsable) for value in found), TableCell(_NOTHING))


def _mark_best(rows: list[TableRow]) -> list[TableRow]:
    marked = [list(row.cells) for row in rows]
    for judge in {row.judge for row in rows}:
        members = [number for number, row in enumerate(rows) if row.judge == judge]
        for at, definition in enumerate(TABLE_SCORES):
            # Rounded first: figures that look equal in the table are equally bold.
            means = {
                number: round(mean, DIGITS) + 0.0
                for number in members
                if (mean := rows[number].cells[at].estimate.mean) is not None
            }
            if len(means) > 1:
                best = (max if definition.higher_is_better else min)(means.values())
                for number, mean in means.items():
                    marked[number][at] = replace(marked[number][at], best=mean == best)
    return [replace(row, cells=tuple(cells)) for row, cells in zip(rows, marked, strict=True)]


def _make_published_row(system: PublishedSystem) -> TableRow:
    def make_cell(key: str) -> TableCell:
        return TableCell(_NOTHING.model_copy(update={"mean": system.scores.get(key)}))

    return TableRow(system.name, "", tuple(make_cell(definition.key) for definition in TABLE_SCORES), published=True)


def _describe_source(results: PublishedResults) -> str:
    source = results.source
    return f"{source.authors}: {source.title}. {source.place}. {source.address}"


def _format_markdown(
    scores: EvaluationScores, table: ScoreTable, comparisons: Sequence[AdjustedComparison], intervals: bool
) -> str:
    own = [row for row in table.rows if not row.published]
    has_missing = any(cell.missing for row in own for cell in row.cells)
    has_unparsable = any(cell.unparsable for row in own for cell in row.cells)
    heads = ["System", *(["Judge"] if table.has_several_judges else []), *(c.head for c in table.columns), "n"]
    heads += ["Missing"] * has_missing + ["Unparsable"] * has_unparsable
    texts = 2 if table.has_several_judges else 1
    lines = [heads, ["---"] * texts + ["---:"] * (len(heads) - texts)]
    for row in table.rows:
        line = [_escape(row.system) + (" †" if row.published else "")]
        line += [_escape(row.judge) or "–"] * table.has_several_judges
        line += [_show_cell(cell, intervals) for cell in row.cells]
        line.append("–" if row.published else " / ".join(str(cell.estimate.n) for cell in _first_of_groups(table, row)))
        line += [_show_counts(row, "missing")] * has_missing + [_show_counts(row, "unparsable")] * has_unparsable
        lines.append(line)
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    text += f"\n{' '.join(_write_notes(scores, table, intervals, has_missing, has_unparsable))}\n"
    if table.source:
        text += f"\n† Published, measured on another bench: not to be compared closely. {_escape(table.source)}\n"
    if comparisons:
        text += (
            "\nPairs of systems on the same rows; p after Holm's correction over the pairs of a judge, test and metric "
            "(\\* < 0.05, \\*\\* < 0.01, \\*\\*\\* < 0.001):\n\n" + format_comparisons(comparisons)
        )
    return text


def _write_notes(
    scores: EvaluationScores, table: ScoreTable, intervals: bool, has_missing: bool, has_unparsable: bool
) -> list[str]:
    notes = ["↑ higher is better, ↓ lower is better; best figures are bold" + _under_each_judge(table) + "."]
    notes.append("n: rows of TPI-Test / rows of Janus-Test / linked pairs.")
    if intervals:
        notes.append(f"Brackets: {scores.confidence:.0%} bootstrap intervals.")
    if has_missing:
        notes.append("Missing: rows without an answer (TPI-Test / Janus-Test), counted as the worst.")
    if has_unparsable:
        notes.append("Unparsable: verdicts that could not be read (RSF + OH), left out of the mean.")
    return notes


def _under_each_judge(table: ScoreTable) -> str:
    return ", under each judge" if table.has_several_judges else ""


def _first_of_groups(table: ScoreTable, row: TableRow) -> list[TableCell]:
    groups = [column.group for column in table.columns]
    return [row.cells[groups.index(group)] for group in dict.fromkeys(groups)]


def _show_cell(cell: TableCell, intervals: bool) -> str:
    text = show_figure(cell.estimate.mean)
    if cell.best:
        text = f"**{text}**"
    if intervals and cell.estimate.low is not None:
        text += f" [{show_figure(cell.estimate.low)}, {show_figure(cell.estimate.high)}]"
    return text


def _show_counts(row: TableRow, kind: Literal["missing", "unparsable"]) -> str:
    if row.published:
        return "–"
    counts = []
    for test in TESTS:
        cells = [c for c, d in zip(row.cells, TABLE_SCORES, strict=True) if d.bench_set == test]
        numbers = [getattr(cell, kind) for cell in cells]
        # An answer that is missing is missing for both metrics; a verdict is of one.
        counts.append(max(numbers) if kind == "missing" else sum(numbers))
    return " / ".join(map(str, counts))


def _describe_pair(one: AdjustedComparison) -> str:
    c = one.comparison
    stars = f" {_escape(one.stars)}" if one.stars else ""
    effect = "" if c.effect_size is None else f", effect {c.effect_size:+.2f}"
    return (
        f"{_escape(c.first)} − {_escape(c.second)} {round(c.difference, 3) + 0.0:+.3f} "
        f"(p {show_p(one.adjusted_p)}{stars}{effect})"
    )


def _escape(text: str) -> str:
    """Return a name so that Markdown shows it as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|~])", r"\\\1", " ".join(text.split()))


def _format_csv(table: ScoreTable) -> str:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(
        ["system", "judge", "published_source", *(c.key + part for c in table.columns for part in _FIGURES)]
    )
    for row in table.rows:
        figures = [figure for cell in row.cells for figure in _list_figures(cell, row.published)]
        source = table.source_address if row.published else ""
        writer.writerow([row.system, row.judge, source, *("" if f is None else repr(f) for f in figures)])
    return sink.getvalue()


def _list_figures(cell: TableCell, published: bool) -> list[float | int | None]:
    estimate = cell.estimate
    counts: list[int | None] = [None] * 3 if published else [estimate.n, cell.missing, cell.unparsable]
    return [estimate.mean, estimate.low, estimate.high, *counts]


def _format_json(scores: EvaluationScores, table: ScoreTable, comparisons: Sequence[AdjustedComparison]) -> str:
    def list_scores(row: TableRow) -> dict[str, dict[str, float | int | None]]:
        names = ("mean", "low", "high", "n", "missing", "unparsable")
        return {
            column.key: dict(zip(names, _list_figures(cell, row.published), strict=True))
            for column, cell in zip(table.columns, row.cells, strict=True)
        }

    content = {
        "evaluation": scores.name,
        "bench": scores.bench.uri,
        "confidence": scores.confidence,
        "columns": [
            {"key": c.key, "test": c.group, "title": c.title, "higher_is_better": c.higher_is_better}
            for c in table.columns
        ],
        "rows": [
            {"system": row.system, "judge": row.judge or None, "published": row.published, "scores": list_scores(row)}
            for row in table.rows
        ],
        "published_source": table.source or None,
        "comparisons": [
            {**one.comparison.model_dump(mode="json"), "p_holm": one.adjusted_p, "stars": one.stars}
            for one in comparisons
        ],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
