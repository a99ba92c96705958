"""`bystander review agreement | export | import | label-studio`: what came of a review."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from bystander.cli.review_options import Build, Reviews, Seed
from bystander.schemas.errors import ConfigError

if TYPE_CHECKING:
    from bystander.tasks.metrics.review_agreement import AgreementFigure

_MOST_LISTED = 30


def show_agreement(
    build: Build,
    reviews: Reviews = None,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as one JSON object.")] = False,
) -> None:
    """Say how far annotators agree: raw, Cohen's kappa of each pair, Krippendorff's alpha, with 95 % intervals."""
    from bystander.storage.review_files import read_reviews
    from bystander.storage.review_rows import ReviewBuild, find_reviews_folder
    from bystander.tasks.metrics.review_agreement import measure_review_agreement

    opened = ReviewBuild(build, "all")
    found = measure_review_agreement(read_reviews(find_reviews_folder(opened, reviews), opened.digest), seed=seed)
    if as_json:
        import json
        from dataclasses import asdict

        typer.echo(json.dumps(asdict(found), indent=2, ensure_ascii=False))
        return
    typer.echo(f"{opened.name}: " + (", ".join(f"{name} judged {n}" for name, n in found.judged.items()) or "nobody"))
    typer.echo(f"raw agreement: {_tell(found.raw)}")
    typer.echo(f"Krippendorff's alpha, accept or reject: {_tell(found.alpha)}")
    typer.echo(f"Krippendorff's alpha, each reason by itself: {_tell(found.alpha_with_reasons)}")
    for pair in found.pairs:
        typer.echo(f"{pair.first}, {pair.second}: kappa {_tell(pair.kappa)}; raw {_tell(pair.raw)}")
    for one in found.reasons:
        typer.echo(
            f"{one.reason}: {one.rows} rows; {one.judged_by_several} of them judged by several, "
            f"{one.unanimous} with this reason by all"
        )
    typer.echo(f"disagreements: {len(found.disagreements)}")
    for row_id in found.disagreements[:_MOST_LISTED]:
        typer.echo(f"  {row_id}")
    if len(found.disagreements) > _MOST_LISTED:
        typer.echo(f"  … and {len(found.disagreements) - _MOST_LISTED} more; --json has all")


def _tell(figure: AgreementFigure) -> str:
    if figure.value is None or figure.low is None or figure.high is None:
        return figure.reason or "undefined"
    rows = f"{figure.n} row{'s' if figure.n != 1 else ''}"
    return f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}] over {rows}"


def export_decisions(
    build: Build,
    out: Annotated[str, typer.Option(metavar="FILE", help="Where to write the decisions, as .jsonl.")],
    rule: Annotated[
        str,
        typer.Option(
            help="unanimous: all must say the same. majority: more than half. Or the annotator whose word counts."
        ),
    ] = "unanimous",
    adjudicator: Annotated[
        str | None, typer.Option(help="An annotator whose word counts, before the rule, on the rows that they judged.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, help="Seconds in which two annotators' boundaries count as the same.")
    ] = 0.05,
    reviews: Reviews = None,
) -> None:
    """Make one decision a row of what the annotators said, for `build … --decisions FILE`."""
    from bystander.storage.review_files import write_decisions
    from bystander.storage.review_rows import ReviewBuild, find_reviews_folder
    from bystander.tasks.exchange_reviews import decide_rows
    from bystander.tasks.review.resolution import Resolution

    if not out.endswith(".jsonl"):
        raise ConfigError(f"--out {out}: give a name that ends in .jsonl")
    opened = ReviewBuild(build, "all")
    decisions = decide_rows(opened, find_reviews_folder(opened, reviews), Resolution(rule, adjudicator, tolerance))
    write_decisions(out, decisions)
    counts = Counter(decision.verdict for decision in decisions)
    edited = sum(bool(decision.edits.given) for decision in decisions)
    undecided = sum(not row.reject_reason for row in opened.rows.values()) - sum(
        not opened.rows[decision.row_id].reject_reason for decision in decisions
    )
    typer.echo(
        f"{out}: {counts['accept']} accepted ({edited} of them edited), {counts['reject']} rejected, "
        f"{counts['conflict']} in conflict; {undecided} rows of the build are undecided."
    )


def import_file(
    build: Build,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A JSON export of Label Studio, or a decisions file (.jsonl).")
    ],
    annotator: Annotated[
        str | None, typer.Option(help="Whose the annotations of an export are; by default whoever it says.")
    ] = None,
    reviews: Reviews = None,
) -> None:
    """Take annotations from a file into the journals; the same file may be taken again."""
    from bystander.schemas.review import normalise_annotator
    from bystander.storage.review_rows import ReviewBuild, find_reviews_folder
    from bystander.tasks.exchange_reviews import import_reviews

    if annotator is not None:
        try:
            annotator = normalise_annotator(annotator)
        except ValueError as exc:
            raise ConfigError(f"--annotator: {exc}") from exc
    opened = ReviewBuild(build, "all")
    for name, rows in import_reviews(opened, find_reviews_folder(opened, reviews), file, annotator).items():
        typer.echo(f"{name}: {rows} rows taken.")


def export_for_label_studio(
    build: Build,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where to write tasks, configuration and clips.")],
    audio_prefix: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Address that clips have, the row's id follows: http://127.0.0.1:8710/api/clips/ say, of a review "
            "server that was given --clips-for. By default clips are written, and served by Label Studio.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="FIELD=VALUE", help="As in `review open`. May be repeated.")
    ] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="So many rows, drawn by the seed.")] = None,
    seed: Seed = 0,
) -> None:
    """Write what Label Studio needs to review a build; `review import` takes its JSON export back."""
    from bystander.schemas.review_selection import select_rows
    from bystander.storage.review_rows import ReviewBuild
    from bystander.tasks.exchange_reviews import CONFIG_NAME, TASKS_NAME, export_label_studio

    opened = ReviewBuild(build)
    row_ids = select_rows(opened.rows.values(), only or (), sample, seed)
    tasks = export_label_studio(opened, row_ids, out, audio_prefix)
    typer.echo(f"{out}: {tasks} tasks in {TASKS_NAME}, for a project with the labelling interface {CONFIG_NAME}.")
