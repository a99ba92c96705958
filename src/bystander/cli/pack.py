"""`bystander pack`: response-strategy packs."""

from __future__ import annotations

import typer

from bystander.cli.pack_diff import pack_diff
from bystander.cli.pack_preview import pack_preview

pack_app = typer.Typer(help="Make, check and compare response-strategy packs.", no_args_is_help=True)
pack_app.command("preview")(pack_preview)
pack_app.command("diff")(pack_diff)
