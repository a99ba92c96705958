"""Entry point of the `bystander` command: puts the groups together and turns our errors into one line each."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

import bystander
from bystander.cli.build import build_app
from bystander.cli.doctor import doctor
from bystander.cli.models import app as models_app
from bystander.cli.verify import verify
from bystander.schemas.errors import BystanderError, UserError

app = typer.Typer(
    name="bystander",
    help="Build, check and score speech datasets about interruptions of voice assistants.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(build_app, name="build")
app.add_typer(models_app, name="models")
app.command("verify")(verify)
app.command("doctor")(doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"bystander {bystander.__version__}")
        raise typer.Exit


@app.callback()
def _set_up(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Hold the options that come before any command."""


def main() -> None:
    """Run the command line. Errors of the user's making are one line on stderr and exit code 2; others exit with 1."""
    console = Console(stderr=True, soft_wrap=True)
    try:
        app()
    except BystanderError as exc:
        console.print(f"error: {exc}", style="red", markup=False, highlight=False)
        sys.exit(2 if isinstance(exc, UserError) else 1)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here", markup=False)
        sys.exit(130)


if __name__ == "__main__":
    main()
