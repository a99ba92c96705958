"""`bystander evaluate`: systems on a bench, and what a bench measures."""

from __future__ import annotations

import typer

from bystander.cli.evaluate_controls import evaluate_controls
from bystander.cli.evaluate_sid import evaluate_sid
from bystander.cli.evaluate_tpi import evaluate_tpi
from bystander.cli.evaluate_voicebench import evaluate_voicebench

evaluate_app = typer.Typer(help="Evaluate systems on a bench, or a bench itself.", no_args_is_help=True)
evaluate_app.command("tpi")(evaluate_tpi)
evaluate_app.command("sid")(evaluate_sid)
evaluate_app.command("controls")(evaluate_controls)
evaluate_app.command("voicebench")(evaluate_voicebench)
