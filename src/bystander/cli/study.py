"""`bystander study`: ask people about a bench or about replies, and read what they said."""

from __future__ import annotations

import typer

from bystander.cli.study_make import make

study_app = typer.Typer(help="Ask people: realism, naturalness, replies, preference.", no_args_is_help=True)
study_app.command("make")(make)
