"""`bystander export`: write a finished build in another layout."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

export_app = typer.Typer(help="Write a finished build in another layout.", no_args_is_help=True)


@export_app.command("sid")
def export_sid(
    build: Annotated[str, typer.Argument(help="The finished SID build's folder or fsspec URL.")],
    to: Annotated[str, typer.Option(help="Folder or URL to write to; files of the same names are replaced.")],
    audio: Annotated[Literal["wav", "flac"], typer.Option(help="Format of the clips.")] = "wav",
    details: Annotated[
        bool,
        typer.Option(
            "--details/--plain",
            help="Whether lines also state category, language, source and recording, or only the published fields.",
        ),
    ] = True,
) -> None:
    """Write SID-Bench as its authors published theirs: JSONL of the break times, and a sound file a clip."""
    from bystander.storage.sid_export import export_sid_bench

    for file, lines in export_sid_bench(build, to, audio, details).items():
        typer.echo(f"{to.rstrip('/')}/{file}: {lines} lines")


@export_app.callback()
def _hold_commands() -> None:
    """Keep `sid` a command of its own while it is the only one."""
