"""`bystander review`: people verify a build's rows in a local page, and what came of it."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from bystander.cli.review_exchange import export_decisions, export_for_label_studio, import_file, show_agreement
from bystander.cli.review_open import open_review

_OPEN = "open"


class _OpenByDefault(TyperGroup):
    """`bystander review BUILD` is `bystander review open BUILD`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [_OPEN, *args]
        return super().parse_args(ctx, args)


review_app = typer.Typer(
    cls=_OpenByDefault,
    help="Listen to rows, accept, reject and correct them; `review BUILD` opens the page.",
    no_args_is_help=True,
)
review_app.command(_OPEN)(open_review)
review_app.command("agreement")(show_agreement)
review_app.command("export")(export_decisions)
review_app.command("import")(import_file)
review_app.command("label-studio")(export_for_label_studio)
