"""Entry point of the `bystander` command: puts the groups together and turns errors into one line each."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import Any, NoReturn

import typer

import bystander
from bystander.cli.build import build_app
from bystander.cli.cache import app as cache_app
from bystander.cli.diff import diff
from bystander.cli.doctor import doctor
from bystander.cli.evaluate import evaluate_app
from bystander.cli.export import export_app
from bystander.cli.gc import gc
from bystander.cli.interruption import Interrupted, leave, raising_on_signals
from bystander.cli.listen import listen
from bystander.cli.models import app as models_app
from bystander.cli.pack import pack_app
from bystander.cli.plan import app as plan_app
from bystander.cli.publish import publish
from bystander.cli.release import app as release_app
from bystander.cli.review import review_app
from bystander.cli.session import session_app
from bystander.cli.simulate import simulate_app
from bystander.cli.split import split
from bystander.cli.study import study_app
from bystander.cli.train import train_app
from bystander.cli.verify import verify
from bystander.cli.voices import app as voices_app
from bystander.schemas.errors import BystanderError, UserError

_ClickError: Any = typer.BadParameter.__mro__[2]
"""`ClickException`. Where typer has it from depends on its version; what it exports always descends from it."""

app = typer.Typer(
    name="bystander",
    help="Build, check and score speech datasets about interruptions of voice assistants.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(build_app, name="build")
app.add_typer(evaluate_app, name="evaluate")
app.add_typer(export_app, name="export")
app.command("listen")(listen)
app.add_typer(models_app, name="models")
app.add_typer(pack_app, name="pack")
app.add_typer(plan_app, name="plan")
app.command("diff")(diff)
app.command("gc")(gc)
app.command("publish")(publish)
app.add_typer(release_app, name="release")
app.add_typer(review_app, name="review")
app.command("split")(split)
app.add_typer(cache_app, name="cache")
app.add_typer(session_app, name="session")
app.add_typer(simulate_app, name="simulate")
app.add_typer(study_app, name="study")
app.add_typer(train_app, name="train")
app.command("verify")(verify)
app.add_typer(voices_app, name="voices")
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
    """Run the command line.

    Errors of the user's making are one line on stderr and exit code 2; others exit with 1, an interruption with 128 and
    the signal's number.
    """
    try:
        with raising_on_signals():
            code = app(standalone_mode=False)
    except BystanderError as exc:
        _complain(str(exc))
        code = 2 if isinstance(exc, UserError) else 1
    except Interrupted as exc:
        _say("stopped; the same command goes on from here")
        leave(exc.exit_code)
    except typer.Abort:
        code = 1
    except _ClickError as exc:
        code = _report_usage(exc)
    sys.exit(code if isinstance(code, int) else 0)


def run_program() -> NoReturn:
    """Run the command line as a program, which ends with its exit code whatever libraries do once it is over.

    Threads of native libraries that still run when the interpreter is taken down can abort a process that has done all
    its work, and a scheduler takes that for a failure. So what Python does at its end is done here, and no more.
    """
    code: int | str | None = 0
    try:
        main()
    except SystemExit as exc:
        code = exc.code
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does first
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _report_usage(exc: Any) -> int:
    """Say what is wrong with the options in one line; a command without its sub-command shows its help instead."""
    context = getattr(exc, "ctx", None)
    message = exc.format_message()
    if type(exc).__name__ != "NoArgsIsHelpError":
        help_hint = f"; see {context.command_path} --help" if context is not None else ""
        _complain(f"{message.rstrip('.')}{help_hint}")
    return int(exc.exit_code)


def _complain(message: str) -> None:
    _say(f"error: {' '.join(message.split())}", style="red")


def _say(line: str, style: str | None = None) -> None:
    from rich.console import Console

    Console(stderr=True, soft_wrap=True).print(line, style=style, markup=False, highlight=False)


if __name__ == "__main__":
    run_program()
