"""`bystander study import` and `bystander study report`: read what raters said, and say what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bystander.schemas.study_report import RatingFigure, StudyReport

_Study = Annotated[str, typer.Argument(metavar="STUDY", help="The study's folder, STORE/studies/NAME.")]


def import_results(
    study: _Study,
    results: Annotated[
        list[str],
        typer.Argument(
            help="Batch results of Mechanical Turk (CSV), files that the page saved (JSON), or a line an answer (CSV, "
            "JSONL, Parquet with rater, item, question, answer)."
        ),
    ],
    rater: Annotated[str, typer.Option(help="Whose answers these are, where a file does not say.")] = "",
    consented: Annotated[
        bool, typer.Option("--consented", help="All agreed to take part elsewhere, so the file need not say so.")
    ] = False,
) -> None:
    """Read results into the study. Rater ids are stored as digests only; a file that was read before adds nothing."""
    from bystander.tasks.import_study import import_study

    for path in results:
        found = import_study(study, path, rater, consented)
        typer.echo(f"{path}: {found.answers} answers of {found.raters} raters.")
        if found.rejected:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(found.rejected.items()))
            typer.echo(f"Rejected: {reasons}; see {found.rejects_file}.")


def report(
    study: _Study,
    json: Annotated[bool, typer.Option("--json", help="Print report.json.")] = False,
    max_failed_traps: Annotated[int | None, typer.Option(min=0, help="Default: the study's.")] = None,
    min_seconds: Annotated[
        float | None, typer.Option(min=0, help="Least median time for an item. Default: the study's.")
    ] = None,
    keep_unfinished: Annotated[
        bool | None, typer.Option("--keep-unfinished/--drop-unfinished", help="Default: the study's.")
    ] = None,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Of the intervals.")] = 0.95,
) -> None:
    """Drop raters who fail, and write report.json, report.html and, of replies, ratings.csv into the study's folder."""
    from bystander.tasks.report_study import PAGE_NAME, report_study

    found = report_study(study, max_failed_traps, min_seconds, keep_unfinished, confidence)
    if json:
        typer.echo(found.report.model_dump_json(indent=2))
        return
    for line in describe_report(found.report):
        typer.echo(line)
    typer.echo(found.folder.uri_of(PAGE_NAME))


def describe_report(found: StudyReport) -> list[str]:
    """Return the report's main figures as lines."""
    dropped = ", ".join(f"{count} {reason}" for reason, count in found.dropped.items())
    lines = [
        f"{found.kept} of {found.raters} raters kept{f' ({dropped})' if dropped else ''}, {found.ratings} ratings."
    ]
    for one in found.questions:
        if one.figure.mean is not None:
            name = one.question if one.system is None else f"{one.question} of {one.system}"
            lines.append(f"{name}: {one.figure.mean:.3f} {_show_intervals(one.figure)}, {one.figure.n} ratings.")
    for pair in found.preferences:
        if pair.part is None and pair.n:
            who = f"{pair.first} against {pair.second}" if pair.second else pair.first
            shares = ", ".join(f"{count / pair.n:.1%}" for count in (pair.wins, pair.ties, pair.losses))
            tests = "" if pair.p is None else f"; sign test p = {pair.p:.2g}, by rater p = {pair.p_by_rater:.2g}"
            lines.append(f"{who}: for, neither, against {shares} of {pair.n}{tests}.")
    for alpha in found.alphas:
        value = alpha.reason if alpha.alpha is None else f"{alpha.alpha:.3f} ({alpha.scale}, {alpha.items} items)"
        lines.append(f"Krippendorff's alpha of {alpha.question}: {value}.")
    for judged in found.correlations:
        if judged.system is None:
            value = (
                judged.undefined if judged.pearson is None else f"r = {judged.pearson:.2f}, rho = {judged.spearman:.2f}"
            )
            lines.append(f"People and judge {judged.judge}, {judged.metric}: {value}, {judged.n} replies.")
    return lines


def _show_intervals(figure: RatingFigure) -> str:
    if figure.low is None:
        return "(no interval)"
    plain = f"({figure.low:.3f} to {figure.high:.3f} as if independent"
    clustered = f"; {figure.clustered_low:.3f} to {figure.clustered_high:.3f} clustered"
    return plain + (")" if figure.clustered_low is None else f"{clustered})")
