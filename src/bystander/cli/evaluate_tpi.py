"""`bystander evaluate tpi`: score systems on TPI-Bench in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from bystander.cli.evaluate_options import (
    AllowMissing,
    Name,
    Out,
    Seed,
    Workers,
    parse_raters,
    run_and_show,
)
from bystander.cli.overrides import gather_overrides


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
    pack: Annotated[
        str | None,
        typer.Option(help="Whose strategy and rubrics apply: a pack's name or folder. Default: the bench's own pack."),
    ] = None,
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
            help="A system's embeddings, as system=file.npz with ids and embeddings (rows, d), or file.npy in the "
            "evaluation's order: TPI-Test, then Janus-Test; may be repeated."
        ),
    ] = None,
    allow_missing: AllowMissing = False,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Only so many rows of each test, linked pairs first. Default: all.")
    ] = None,
    seed: Seed = None,
    out: Out = None,
    name: Name = None,
    workers: Workers = None,
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
    from bystander.schemas.evaluate_profiles import load_evaluate_config, parse_pair

    given = {
        "bench": bench,
        "pack": pack,
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
    overrides = gather_overrides(set_, given)
    settings = load_evaluate_config(
        profile,
        config or (),
        overrides,
        **parse_raters(system, judge),
    )

    from bystander.flows.check_evaluate_tpi import check_evaluate_tpi

    # Prefect takes seconds to import, and its server more to start: mistakes are found before.
    check_evaluate_tpi(settings)

    def evaluate() -> tuple[Sequence[str], str]:
        from bystander.flows.evaluate_tpi import run_evaluate_tpi
        from bystander.tasks.evaluation_tables import format_table

        outcome = run_evaluate_tpi(settings)
        return outcome.summary, format_table(outcome.scores, "markdown")

    run_and_show(evaluate)
