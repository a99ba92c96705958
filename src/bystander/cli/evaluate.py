"""`bystander evaluate`: what a bench measures."""

from __future__ import annotations

import typer

from bystander.cli.evaluate_voicebench import evaluate_voicebench

evaluate_app = typer.Typer(help="Evaluate a bench, or systems on it.", no_args_is_help=True)


@evaluate_app.callback()
def _group() -> None:
    """Keep `voicebench` a sub-command while it is the only one."""


evaluate_app.command("voicebench")(evaluate_voicebench)
