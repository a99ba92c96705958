"""`bystander evaluate tpi`: score systems on TPI-Bench in this process."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bystander.cli.interruption import run_interruptibly


def evaluate_tpi(
    bench: Annotated[
        str | None,
        typer.Option(help="Folder or URL of a finished build with two-speaker rows, one-speaker rows, or both."),
    ] = None,
    profile: Annotated[
        str,
        typer.Option(
            help="Judge and sizes: laptop (embedded model, no GPU), playbook (written rules; the acoustic control "
            "hears) or fake (written rules; for benches of the fake profile)."
        ),
    ] = "laptop",
    system: Annotated[
        list[str] | None,
        typer.Option(
            help="A system as name=config.yaml, name=predictions.jsonl (or .parquet), or name={engine: ...}; may be "
            "repeated."
        ),
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            help="A judge as name=config.yaml, name={engine: ...} or name=KIND, such as rules=playbook; may be "
            "repeated, and takes the place of the profile's."
        ),
    ] = None,
    ratings: Annotated[
        list[str] | None,
        typer.Option(
            help="Scores that people gave, as name=file: JSONL, CSV or Parquet with id, system, rsf, oh; may be "
            "repeated."
        ),
    ] = None,
    embeddings: Annotated[
        list[str] | None,
        typer.Option(
            help="A system's embeddings, as system=file.npy of shape (rows, d) in the bench's order; may be repeated."
        ),
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Let rows without an answer count as the worst answer.")
    ] = False,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Only so many rows of each test, linked pairs first. Default: all.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of answers, verdicts and intervals. Default: 0.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="Store: folder or URL of evaluations and caches; one that was stopped goes on from them. Default: "
            "bystander-store."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the folder, OUT/evaluations/NAME. Default: derived from the settings."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Partitions in work at once. Changes the speed, never a score.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(help="YAML file of fields laid over the profile; may be repeated, the last one wins."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="One field as name=value, over all files; may be repeated. E.g. resamples=500."),
    ] = None,
) -> None:
    """Score systems on TPI-Bench: does a reply follow the strategy, does it help, does it hear who spoke?

    Ctrl-C loses nothing that is finished: the same command goes on from there.
    """
    from bystander.schemas.config import parse_override
    from bystander.schemas.evaluate_profiles import load_evaluate_config, parse_judge, parse_pair, parse_system

    overrides: dict[str, Any] = dict(parse_override(text) for text in set_ or [])
    given = {
        "bench": bench,
        "rows": rows,
        "seed": seed,
        "store": out,
        "name": name,
        "workers": workers,
        "allow_missing": allow_missing or None,
        "ratings": [dict(zip(("name", "path"), parse_pair(text, "--ratings"), strict=True)) for text in ratings or []]
        or None,
        "embeddings": dict(parse_pair(text, "--embeddings") for text in embeddings or []) or None,
    }
    overrides.update({key: value for key, value in given.items() if value is not None})
    settings = load_evaluate_config(
        profile,
        config or (),
        overrides,
        systems=dict(parse_system(text) for text in system or []),
        judges=dict(parse_judge(text) for text in judge or []),
    )

    from bystander.flows.check_evaluate_tpi import check_evaluate_tpi

    # Prefect takes seconds to import, and its server more to start: mistakes are found before.
    check_evaluate_tpi(settings)

    from rich.console import Console

    from bystander.cli.progress import ProgressDisplay
    from bystander.flows.prefect_settings import configure_prefect

    configure_prefect()
    console = Console(soft_wrap=True)
    with ProgressDisplay(console) as display:

        def work() -> tuple[tuple[str, ...], str]:
            from bystander.flows.evaluate_tpi import run_evaluate_tpi
            from bystander.flows.listeners import listening
            from bystander.tasks.evaluation_tables import format_table

            with listening(display):
                outcome = run_evaluate_tpi(settings)
            return outcome.summary, format_table(outcome.scores, "markdown")

        display.on_phase("starting Prefect")
        summary, table = run_interruptibly(work)
    for line in summary:
        console.print(line, markup=False, highlight=False)
    console.print(f"\n{table}", markup=False, highlight=False, end="")
