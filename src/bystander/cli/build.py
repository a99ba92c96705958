"""`bystander build`: run a build flow in this process."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from bystander.cli.progress import ProgressDisplay
from bystander.flows.prefect_settings import configure_prefect
from bystander.schemas.config import load_config, parse_override

build_app = typer.Typer(help="Build a dataset.", no_args_is_help=True)


@build_app.callback()
def _group() -> None:
    """Keep `tpi-train` a sub-command while it is the only one."""


@build_app.command("tpi-train")
def build_tpi_train(
    profile: Annotated[str, typer.Option(help="Engines and sizes: laptop, playbook, fake, ...")] = "laptop",
    queries: Annotated[
        str | None, typer.Option(help="Path, glob or URL of requests; default: the starter set.")
    ] = None,
    text_column: Annotated[str | None, typer.Option(help="Column of the request in --queries.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows in all, in the proportions of the profile.")] = None,
    hard_negatives: Annotated[int | None, typer.Option(min=0, help="Rows with one speaker.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the build.")] = None,
    out: Annotated[str | None, typer.Option(help="Store: folder or URL for builds and caches.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the build's folder.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Partitions in work at once.")] = None,
    config: Annotated[list[str] | None, typer.Option(help="YAML file laid over the profile; may be repeated.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="One field, e.g. stages.mix_speakers.offset_mean_s=-0.3.")
    ] = None,
) -> None:
    """Build TPI-Train: requests in, Parquet shards of interrupted requests with replies out."""
    overrides: dict[str, Any] = dict(parse_override(text) for text in set_ or [])
    given = {
        "queries.path": queries,
        "queries.text_column": text_column,
        "seed": seed,
        "store": out,
        "build": name,
        "workers": workers,
    }
    overrides.update({key: value for key, value in given.items() if value is not None})
    settings = load_config(profile, config or (), overrides)
    if rows is not None:
        settings = settings.model_copy(update={"targets": settings.targets.scaled_to(rows)})
    if hard_negatives is not None:
        targets = settings.targets.model_copy(update={"hard_negatives": hard_negatives})
        settings = settings.model_copy(update={"targets": targets})
    configure_prefect()
    # Prefect takes seconds to import: only now, so that --help and mistakes in options answer at once.
    from bystander.flows.build_tpi_train import run_build_tpi_train
    from bystander.flows.listeners import listening

    console = Console(soft_wrap=True)
    with ProgressDisplay(console) as display, listening(display):
        outcome = run_build_tpi_train(settings)
    for line in outcome.summary:
        console.print(line, markup=False, highlight=False)
