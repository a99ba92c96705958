"""`bystander build`: run a build flow in this process."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bystander.cli.interruption import run_interruptibly

build_app = typer.Typer(help="Build a dataset.", no_args_is_help=True)


@build_app.callback()
def _group() -> None:
    """Keep `tpi-train` a sub-command while it is the only one."""


@build_app.command("tpi-train")
def build_tpi_train(
    profile: Annotated[
        str,
        typer.Option(
            help="Engines and sizes: laptop (embedded models, no GPU), playbook (authored texts, embedded speech) or "
            "fake (no models, for trying things out)."
        ),
    ] = "laptop",
    queries: Annotated[
        str | None,
        typer.Option(
            help="Requests to build from: path, glob or URL of JSONL, CSV, TSV, TXT or Parquet. Default: the starter "
            "set of the package."
        ),
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option(
            help="Column of the request in --queries. Default: question, text, query, ..., the first there is."
        ),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Rows in all, hard negatives included, in the proportions of the profile.")
    ] = None,
    hard_negatives: Annotated[
        int | None,
        typer.Option(
            min=0, help="Of two-speaker rows, how many get a one-speaker twin; these come on top of --rows' pairs."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of the build: the same seed and input give the same rows. Default: 0."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="Store: folder or URL that holds builds and caches; a build that was stopped goes on from them. "
            "Default: bystander-store."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the build's folder, OUT/tpi-train/NAME. Default: derived from the settings."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Partitions in work at once. Changes the speed, never a row.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(help="YAML file of fields laid over the profile; may be repeated, the last one wins."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="One field as name=value, over all files; may be repeated. E.g. "
            "stages.mix_speakers.offset_mean_s=-0.3.",
        ),
    ] = None,
) -> None:
    """Build TPI-Train: requests in, Parquet shards of interrupted requests with replies out.

    Ctrl-C loses nothing that is finished: the same command goes on from there.
    """
    from bystander.schemas.config import load_config, parse_override, resize

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
    settings = resize(load_config(profile, config or (), overrides), rows, hard_negatives)

    from bystander.flows.check_tpi_train import check_tpi_build

    # Prefect takes seconds to import, and its server more to start: mistakes are found before.
    check_tpi_build(settings)

    from rich.console import Console

    from bystander.cli.progress import ProgressDisplay
    from bystander.flows.prefect_settings import configure_prefect

    configure_prefect()
    console = Console(soft_wrap=True)
    with ProgressDisplay(console) as display:

        def work() -> tuple[str, ...]:
            from bystander.flows.build_tpi_train import run_build_tpi_train
            from bystander.flows.listeners import listening

            with listening(display):
                return run_build_tpi_train(settings).summary

        display.on_phase("starting Prefect")
        summary = run_interruptibly(work)
    for line in summary:
        console.print(line, markup=False, highlight=False)
