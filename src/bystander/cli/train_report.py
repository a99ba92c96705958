"""`bystander train report`: one page that joins training runs, detectors on benches, and mixtures."""

from __future__ import annotations

from typing import Annotated

import typer


def train_report(
    out: Annotated[str, typer.Option(help="The page: a file that ends in .html, or a folder. Path or URL.")],
    run: Annotated[
        list[str] | None, typer.Option(help="Folder of a training run, for its curves; may be repeated.")
    ] = None,
    evaluation: Annotated[
        list[str] | None,
        typer.Option(help="Folder of an evaluation of interruption detection, for its table; may be repeated."),
    ] = None,
    mixtures: Annotated[
        str | None, typer.Option(help="Folder of an experiment that `bystander train mixtures` made.")
    ] = None,
    goal: Annotated[
        float | None,
        typer.Option(min=0, help="How many times better than the best VAD in APT a trained detector is hoped to be."),
    ] = None,
) -> None:
    """Write one page of what was trained and how it did: detectors beside each other, mixtures, curves."""
    from bystander.cli.page_file import prepare_page
    from bystander.pages.training_report import render_training_report
    from bystander.schemas.errors import InputError
    from bystander.storage.filesystem import open_store
    from bystander.tasks.training.report_experiments import describe_experiments

    if not (run or evaluation or mixtures):
        raise InputError("train report: name what it is about with --run, --evaluation or --mixtures")
    page = prepare_page(out, "experiments.html")
    report = describe_experiments(
        [open_store(address) for address in run or ()],
        [open_store(address) for address in evaluation or ()],
        open_store(mixtures) if mixtures else None,
        goal,
        page.folder,
    )
    page.write(render_training_report(report))
    typer.echo(page.address)
