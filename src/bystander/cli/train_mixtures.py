"""`bystander train mixtures`: does a model still take one speaker for two once it has heard hard negatives?"""

from __future__ import annotations

from typing import Annotated

import typer

from bystander.cli.overrides import gather_overrides
from bystander.cli.train_options import lay_dyadic


def train_mixtures(
    data: Annotated[
        list[str] | None,
        typer.Option(help="A finished TPI-Train build with hard negatives; may be repeated."),
    ] = None,
    dyadic: Annotated[
        list[str] | None,
        typer.Option(help="Requests of one speaker with replies, a build or Parquet; may be repeated."),
    ] = None,
    bench: Annotated[
        str | None, typer.Option(help="A finished TPI-Bench build that is disjoint from the data.")
    ] = None,
    bench_dyadic: Annotated[
        list[str] | None,
        typer.Option(help="Dyadic rows of the bench's requests, to be scored and drawn too; may be repeated."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Models a mixture. Default: 5.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the first of them. Default: 0.")] = None,
    out: Annotated[
        str | None,
        typer.Option(help="Store: folder or URL; results lie in OUT/trained/NAME. Default: bystander-store."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the folder. Default: derived from the settings.")] = None,
    config: Annotated[
        list[str] | None, typer.Option(help="YAML file of fields; may be repeated, the last one wins.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="One field as name=value; may be repeated. E.g. model.sound=log_mel."),
    ] = None,
) -> None:
    """Train a small model of words and sound on the mixtures base, va and full, and score each on TPI-Bench.

    Says how often each takes one speaker for an interruption, over seeds, with the same models of words alone and of
    sound alone, and controls that hear durations and levels only. Minutes on two cores.
    """
    from bystander.schemas.config import lay_over, validate_fields
    from bystander.schemas.mixture_config import CompareMixturesConfig

    given = {
        "data": data or None,
        "bench": bench,
        "bench_dyadic": [{"path": path} for path in bench_dyadic or []] or None,
        "seeds": seeds,
        "seed": seed,
        "store": out,
        "name": name,
    }
    overrides = lay_dyadic(dyadic, gather_overrides(set_, given))
    settings = validate_fields(CompareMixturesConfig, lay_over({}, config or (), overrides), "miniature")
    from bystander.flows.compare_mixtures import compare_mixtures
    from bystander.storage.mixture_files import TABLES_NAME

    outcome = compare_mixtures(settings, typer.echo)
    typer.echo("")
    for summary in outcome.results.summaries:
        share, accuracy = summary.false_interruption.over_seeds.mean, summary.class_accuracy.over_seeds.mean
        typer.echo(f"{summary.mixture}, {summary.inputs}: false interruptions {share:.2f}, class right {accuracy:.2f}")
    typer.echo(f"{outcome.location}/{TABLES_NAME}: all tables")
