"""`bystander train`: models on finished builds, and what came of it."""

from __future__ import annotations

import typer

from bystander.cli.train_mixtures import train_mixtures
from bystander.cli.train_show import train_show
from bystander.cli.train_tpi import train_tpi

train_app = typer.Typer(help="Train models on finished builds, and look at training runs.", no_args_is_help=True)
train_app.command("mixtures")(train_mixtures)
train_app.command("show")(train_show)
train_app.command("tpi")(train_tpi)
