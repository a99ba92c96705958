"""`bystander plan rebuild`: what a build would reuse and redo, and why, before it is run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bystander.cli.build_dyadic import build_dyadic
from bystander.cli.build_options import Foresee, planning
from bystander.cli.build_real_world import build_real_world
from bystander.cli.build_sid import make_sid_command
from bystander.cli.build_tpi import build_tpi_bench, build_tpi_train
from bystander.cli.tables import open_console

if TYPE_CHECKING:
    from bystander.schemas.rebuild import RebuildPlan

app = typer.Typer(
    name="rebuild",
    help="Say what a build would reuse and redo, by stage and row count, and why. Options are those of `bystander "
    "build`. No model is called, and nothing is written.",
    no_args_is_help=True,
)

_AGAINST = inspect.Parameter(
    "against",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        str | None,
        typer.Option(
            metavar="BUILD",
            help="Finished build to compare with: its name, or `latest`. Default: the one of the same name, else the "
            "latest release, else the one most like it.",
        ),
    ],
)
_JSON = inspect.Parameter(
    "json_",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")],
)
_OF_RUNS = frozenset({"require_all", "workers", "quick_verify"})
"""Options that say how a build is run and verified: a plan has no use for them."""
_WIDTH = 140  # of a table in a file or a pipe


def make_plan_command(build: Callable[..., None], help_: str) -> Callable[..., None]:
    """Return the command that plans what `build` would do, with its options and two more."""

    def plan(against: str | None = None, json_: bool = False, **options: Any) -> None:
        def show(foresee: Foresee) -> None:
            found = foresee(against)
            if json_:
                print(found.model_dump_json(indent=2))
            else:
                _show(found)

        with planning(show):
            build(**options)

    given = inspect.signature(build, eval_str=True)
    kept = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in given.parameters.items()
        if name not in _OF_RUNS
    ]
    plan.__signature__ = given.replace(parameters=[*kept, _AGAINST, _JSON])  # type: ignore[attr-defined]
    plan.__annotations__ = {one.name: one.annotation for one in (*kept, _AGAINST, _JSON)}
    plan.__doc__ = help_
    return plan


for _name, _build in (
    ("tpi-train", build_tpi_train),
    ("tpi-bench", build_tpi_bench),
    ("sid-bench", make_sid_command("bench")),
    ("sid-train", make_sid_command("train")),
    ("dyadic", build_dyadic),
    ("real-world", build_real_world),
):
    app.command(_name)(make_plan_command(_build, f"What `bystander build {_name}` would reuse and redo, and why."))


def _show(plan: RebuildPlan) -> None:
    from rich.table import Table

    console = open_console(_WIDTH)
    console.print(plan.headline, markup=False)
    table = Table()
    for name in ("stage", "reused", "regrouped", "redone", "new", "why"):
        table.add_column(name, justify="left" if name in ("stage", "why") else "right", overflow="fold")
    for stage in plan.stages:
        table.add_row(*stage.as_row().values())
    console.print(table)
    for note in plan.notes:
        console.print(note, markup=False)
