"""`bystander pack`: response strategies as packs of prompts: list, begin, check and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bystander.cli.pack_check import check
from bystander.cli.pack_diff import pack_diff
from bystander.cli.pack_preview import pack_preview

pack_app = typer.Typer(
    help="Response strategies as packs of prompts: list, begin, check and compare them.", no_args_is_help=True
)
pack_app.command("check")(check)
pack_app.command("preview")(pack_preview)
pack_app.command("diff")(pack_diff)


@pack_app.command("list")
def list_() -> None:
    """List the packs that can be named: the built-in ones and those of installed packages."""
    from bystander.prompts.find_packs import list_packs
    from bystander.prompts.load import load_pack
    from bystander.schemas.errors import PackError

    for found in list_packs():
        try:
            if found.fault:
                raise PackError(found.fault)
            pack = load_pack(found.source)
        except PackError as exc:
            typer.echo(f"{found.source}: {found.origin} ({found.place}), cannot be loaded: {exc}")
            continue
        classes = ", ".join(item.key for item in pack.classes)
        typer.echo(
            f"{found.source}: {found.origin} ({found.place}), language {pack.language}, classes {classes}, "
            f"digest {pack.digest[:12]}"
        )


@pack_app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="The pack's name: small letters, digits, _ and -, a letter first.")],
    from_: Annotated[
        str, typer.Option("--from", help="A pack to copy. Default: a skeleton in which every field is explained.")
    ] = "skeleton",
    to: Annotated[Path | None, typer.Option(help="Folder to write. Default: one of the pack's name, here.")] = None,
) -> None:
    """Begin a pack: write a commented skeleton, or a copy of another pack, to be changed."""
    from bystander.prompts.new_pack import write_new_pack

    folder = write_new_pack(name, from_, to)
    # A bare name could be that of an installed pack too.
    path = str(folder) if folder.is_absolute() or len(folder.parts) > 1 else f"./{folder}"
    typer.echo(f"wrote {path}; after each change: bystander pack check {path}")
    typer.echo(f"build with it: bystander build tpi-train --pack {path}")
