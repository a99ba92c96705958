"""The tables and the page of a comparison of two packs' builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bystander.pages.page_templates import render_page
from bystander.schemas.pack_diff import LabelFigures, MeanFigure, Membership, PackDiff


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table in words; its first `heads` columns are text, the others figures."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    heads: int = 1
    note: str | None = None
    is_narrow: bool = False
    """Whether a page would only pull its few columns apart."""


@dataclass(frozen=True, slots=True)
class _Page:
    title: str
    facts: list[tuple[str, str]]


def list_tables(found: PackDiff) -> list[ShownTable]:
    """Return all tables of a comparison but those without rows, for a terminal or a page."""
    tables = [
        _tell_rows(found),
        _tell_labels(found),
        _tell_flips(found),
        _tell_kinds(found),
        _tell_replies(found),
        _tell_rejects(found),
        _tell_cost(found),
    ]
    return [table for table in tables if table.rows]


def render_pack_diff(found: PackDiff) -> str:
    """Return the page. It loads nothing from anywhere; the same comparison gives the same page."""
    page = _Page(
        title=f"{found.a.pack} against {found.b.pack}",
        facts=[
            (f"{letter} {name}", value)
            for letter, side in (("A", found.a), ("B", found.b))
            for name, value in (
                ("build", side.address),
                ("pack", f"{side.pack}, digest {side.pack_digest}"),
                ("classes", ", ".join(side.classes)),
                ("seed", str(side.seed)),
            )
        ],
    )
    tables: dict[str, list[ShownTable]] = {}
    for table in list_tables(found):
        tables.setdefault(table.key, []).append(table)
    most = max((count for row in found.labels.matrix.values() for count in row.values()), default=0)
    return render_page(
        "pack_diff.html.j2",
        ("packs.css",),
        data=page,
        found=found,
        tiles=[
            ("rows compared", f"{found.shared.compared:,}"),
            ("labels differ", _show_share(found.labels.flipped.mean)),
            (
                ("Cohen's kappa", _show_figure(found.labels.kappa))
                if found.labels.association is None
                else ("Cramér's V", _show_figure(found.labels.association))
            ),
            ("tokens a row, A", _show_number(found.cost.tokens_per_row_a)),
            ("tokens a row, B", _show_number(found.cost.tokens_per_row_b)),
        ],
        tables=tables,
        most=most or 1,
        least_alike=name_least_alike(found),
    )


def name_least_alike(found: PackDiff) -> str:
    """Return the title of the examples of replies."""
    alike = any(row.a.label == row.b.label for row in found.reply_examples)
    return "Replies least alike, of rows labelled alike" if alike else "Replies least alike"


def _tell_rows(found: PackDiff) -> ShownTable:
    def tell(letter: str, other: str, side: Membership) -> list[tuple[str, ...]]:
        return [
            (f"published in {letter} only", f"{side.only_here:,}"),
            *((f"  in {other}: {fate}", f"{count:,}") for fate, count in side.elsewhere.items()),
        ]

    shared = found.shared
    return ShownTable(
        "rows",
        "Two-speaker rows",
        ("", "rows"),
        (
            ("published in both", f"{found.membership_a.in_both:,}"),
            *tell("A", "B", found.membership_a),
            *tell("B", "A", found.membership_b),
            ("known to both, published or not", f"{shared.ids:,}"),
            ("  written differently, not compared", f"{shared.other_words:,}"),
            ("  without a label in A or B", f"{shared.unlabelled:,}"),
            ("  compared", f"{shared.compared:,}"),
        ),
        is_narrow=True,
    )


def _tell_labels(found: PackDiff) -> ShownTable:
    rows = [
        (
            letter,
            label,
            f"{figures.labelled:,}",
            f"{figures.published:,}",
            _show_mean(figures.words),
            _show_share(figures.mentions.mean),
        )
        for letter, side in (("A", found.a), ("B", found.b))
        for label, figures in side.labels.items()
    ]
    return ShownTable(
        "labels",
        "Labels of each build, over all its rows",
        ("", "label", "labelled", "published", "words a reply", "says that somebody spoke"),
        tuple(rows),
        heads=2,
    )


def _tell_flips(found: PackDiff) -> ShownTable:
    labels, n = found.labels, found.shared.compared
    if not n:
        return ShownTable("flips", "", (), ())
    rows = [
        (
            f"A: {one}",
            *(f"{count:,} ({count / n:.0%})" for count in row.values()),
            f"{sum(row.values()):,}",
        )
        for one, row in labels.matrix.items()
    ]
    columns = list(next(iter(labels.matrix.values())))
    totals = [sum(row[other] for row in labels.matrix.values()) for other in columns]
    rows.append(("all", *(f"{total:,}" for total in totals), f"{n:,}"))
    kappa = f"No kappa: {labels.kappa_note}."
    if labels.association is not None:
        kappa = f"Cramér's V {labels.association:.2f} (1: the label in A decides that in B; 0: it says nothing of it)."
    if labels.kappa is not None:
        kappa = f"Cohen's kappa {labels.kappa:.2f} [{labels.kappa_low:.2f}, {labels.kappa_high:.2f}]."
    return ShownTable(
        "flips",
        "Labels in A (rows) and in B (columns)",
        ("", *(f"B: {other}" for other in columns), "all"),
        tuple(rows),
        note=f"Labels differ in {_show_share_with_interval(labels.flipped)} of {n:,} rows. {kappa}",
    )


def _tell_kinds(found: PackDiff) -> ShownTable:
    rows: list[tuple[str, ...]] = []
    for kinds in found.kinds:
        rows.append(
            (kinds.label, "all that differ", "", f"{_show_share_with_interval(kinds.flipped)} of {kinds.flipped.n:,}")
        )
        moved = [
            (count, one, other) for one, row in kinds.counts.items() for other, count in row.items() if one != other
        ]
        rows += [
            ("", one, other, f"{count:,}")
            for count, one, other in sorted(moved, key=lambda item: (-item[0], item[1], item[2]))
        ]
    return ShownTable(
        "kinds",
        "Kinds that differ, of rows labelled alike",
        ("label", "kind in A", "kind in B", "rows"),
        tuple(rows),
        heads=3,
        is_narrow=True,
    )


def _tell_replies(found: PackDiff) -> ShownTable:
    return ShownTable(
        "replies",
        "Replies to the same texts",
        ("label", "n", "BLEU", "ROUGE-L", "identical", "words, A and B", "says so, A and B"),
        tuple(
            (
                group.group,
                f"{group.rouge_l.n:,}",
                _show_interval(group.bleu),
                _show_interval(group.rouge_l),
                _show_whole_share(group.identical.mean),
                f"{_show_mean(group.words_a)}, {_show_mean(group.words_b)}",
                f"{_show_whole_share(group.mentions_a.mean)}, {_show_whole_share(group.mentions_b.mean)}",
            )
            for group in found.replies
        ),
        note="1 is the same reply, 0 no word in common. Says so: that somebody else spoke.",
    )


def _tell_rejects(found: PackDiff) -> ShownTable:
    return ShownTable(
        "rejects",
        "Rejected over their texts",
        ("stage", "reason", "A", "of its rows", "B", "of its rows"),
        tuple(
            (one.stage, one.reason, f"{one.a:,}", _show_share(one.share_a), f"{one.b:,}", _show_share(one.share_b))
            for one in found.rejects
        ),
        heads=2,
    )


def _tell_cost(found: PackDiff) -> ShownTable:
    cost = found.cost
    rows: list[tuple[str, ...]] = [
        (
            task.task,
            task.role,
            _show_number(task.calls_a),
            _show_number(task.calls_b),
            _show_number(task.characters_a),
            _show_number(task.characters_b),
            _show_number(task.tokens_a),
            _show_number(task.tokens_b),
        )
        for task in cost.tasks
    ]
    total = (
        "all, for a row",
        "",
        _show_rate([task.calls_a for task in cost.tasks], found.a.labels),
        _show_rate([task.calls_b for task in cost.tasks], found.b.labels),
        "",
        "",
        _show_number(cost.tokens_per_row_a),
        _show_number(cost.tokens_per_row_b),
    )
    faults = [f"Prompts of {letter} cannot be known: {fault}." for letter, fault in _list_faults(found)]
    tries = f"Tries for a reply: A {_show_mean(cost.tries_a)}, B {_show_mean(cost.tries_b)}."
    return ShownTable(
        "cost",
        "Calls, and prompts of one call",
        ("task", "engine", "calls A", "calls B", "characters A", "characters B", "tokens A", "tokens B"),
        (*rows, total),
        heads=2,
        note=" ".join(["Tokens are estimated; calls that a cache answered count too.", tries, *faults]),
    )


def _list_faults(found: PackDiff) -> list[tuple[str, str]]:
    faults = (("A", found.cost.pack_fault_a), ("B", found.cost.pack_fault_b))
    return [(letter, fault) for letter, fault in faults if fault is not None]


def _show_rate(calls: Sequence[float], labels: Mapping[str, LabelFigures]) -> str:
    published = sum(figures.published for figures in labels.values())
    return f"{sum(calls) / published:,.1f}" if published else "–"


def _show_figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _show_number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _show_share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _show_whole_share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _show_mean(figure: MeanFigure) -> str:
    return "–" if figure.mean is None else f"{figure.mean:.1f}"


def _show_interval(figure: MeanFigure) -> str:
    return "–" if figure.mean is None else f"{figure.mean:.2f} [{figure.low:.2f}, {figure.high:.2f}]"


def _show_share_with_interval(figure: MeanFigure) -> str:
    return "–" if figure.mean is None else f"{figure.mean:.1%} [{figure.low:.1%}, {figure.high:.1%}]"
