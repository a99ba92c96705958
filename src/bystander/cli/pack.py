"""`bystander pack`: response strategies as packs of prompts: list, begin, check and compare them."""

from __future__ import annotations

from typing import Annotated

import typer

from bystander.cli.pack_diff import pack_diff
from bystander.cli.pack_preview import pack_preview

pack_app = typer.Typer(
    help="Response strategies as packs of prompts: list, begin, check and compare them.", no_args_is_help=True
)
pack_app.command("preview")(pack_preview)
pack_app.command("diff")(pack_diff)

PackArgument = Annotated[
    str, typer.Argument(metavar="PACK", help="A folder, or the name of a built-in or installed pack (`pack list`).")
]


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
            typer.echo(f"{found.source}: {found.origin} ({found.place}): cannot be loaded: {exc}")
            continue
        classes = ", ".join(item.key for item in pack.classes)
        typer.echo(
            f"{found.source}: {found.origin} ({found.place}), {pack.language}, {classes}; digest {pack.digest[:12]}"
        )
