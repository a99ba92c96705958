"""`bystander build`: run a build flow in this process."""

from __future__ import annotations

import typer

from bystander.cli.build_dyadic import build_dyadic
from bystander.cli.build_real_world import build_real_world
from bystander.cli.build_sid import make_sid_command
from bystander.cli.build_tpi import build_tpi_bench, build_tpi_train

build_app = typer.Typer(help="Build a dataset.", no_args_is_help=True)
build_app.command("tpi-train")(build_tpi_train)
build_app.command("tpi-bench")(build_tpi_bench)
build_app.command("sid-bench")(make_sid_command("bench"))
build_app.command("sid-train")(make_sid_command("train"))
build_app.command("dyadic")(build_dyadic)
build_app.command("real-world")(build_real_world)
