"""`bystander split`: cut a finished build into parts that share nothing."""

from __future__ import annotations

from typing import Annotated

import typer


def split(
    build: Annotated[str, typer.Argument(help="The finished build's folder or fsspec URL.")],
    name: Annotated[str, typer.Option(help="Name of the new build's folder, OUT/DATASET/NAME.")],
    out: Annotated[str, typer.Option(help="Store that gets the new build: folder or URL.")] = "bystander-store",
    parts: Annotated[
        str, typer.Option(help="Splits of the new build and the share of the rows that each aims at.")
    ] = "train=0.8,validation=0.1,test=0.1",
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Settles which of equal choices is taken.")] = 0,
) -> None:
    """Cut one build into splits that have no query, no text of the same words and no pair of voices in common.

    Twins stay together. Rows that cannot be placed so are left out and listed in rejects/split.parquet; the fewer rows
    a query has, and the more voices there are, the fewer these are.
    """
    from bystander.tasks.split_tpi import split_tpi
    from bystander.tasks.stages.assign_parts import parse_parts

    for line in split_tpi(build, out, name, parse_parts(parts), seed).summary:
        typer.echo(line)
