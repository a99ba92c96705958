"""Options that the commands of `bystander review` share."""

from __future__ import annotations

from typing import Annotated

import typer

Build = Annotated[str, typer.Argument(help="Folder or fsspec URL of a finished TPI or SID build.")]
Reviews = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER", help="Folder that holds the journals of reviews; by default `reviews` in the build's store."
    ),
]
Seed = Annotated[int, typer.Option(help="Chooses the sample; of intervals, the resamples.")]
