"""`bystander study`: ask people about a bench or about replies, and read what they said."""

from __future__ import annotations

import typer

from bystander.cli.study_make import make
from bystander.cli.study_results import import_results, report
from bystander.cli.study_serve import serve

study_app = typer.Typer(help="Ask people: realism, naturalness, replies, preference.", no_args_is_help=True)
study_app.command("make")(make)
study_app.command("serve")(serve)
study_app.command("import")(import_results)
study_app.command("report")(report)
