"""What the commands that score systems share: options, and a run whose summary and table are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from bystander.cli.interruption import run_interruptibly
from bystander.schemas.errors import ConfigError

AllowMissing = Annotated[
    bool, typer.Option("--allow-missing", help="Let rows without an answer count as the worst answer.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of answers, verdicts and intervals. Default: 0.")]
Out = Annotated[
    str | None,
    typer.Option(
        help="Store: folder or URL of evaluations and caches; one that was stopped goes on from them. Default: "
        "bystander-store."
    ),
]
Name = Annotated[
    str | None,
    typer.Option(help="Name of the folder, OUT/evaluations/NAME. Default: derived from the settings."),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Partitions in work at once. Changes the speed, never a score.")
]


def parse_raters(system: Sequence[str] | None, judge: Sequence[str] | None) -> dict[str, dict[str, Any]]:
    """Return `systems` and `judges` by name, from the options that name them.

    Raises:
        ConfigError: one is written wrongly, or its file cannot be read.
    """
    from bystander.schemas.evaluate_profiles import parse_judge, parse_system

    return {
        "systems": name_once([parse_system(text) for text in system or []], "--system"),
        "judges": name_once([parse_judge(text) for text in judge or []], "--judge"),
    }


def name_once(raters: Sequence[tuple[str, Any]], option: str) -> dict[str, Any]:
    """Return what `option` named, by name.

    Raises:
        ConfigError: two have one name.
    """
    named = dict(raters)
    if len(named) < len(raters):
        names = [name for name, _ in raters]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{option}: {twice} comes twice; give each a name of its own")
    return named


def run_and_show(evaluate: Callable[[], tuple[Sequence[str], str]]) -> None:
    """Run an evaluation with its progress shown, and print the summary and the table that it returns."""
    from rich.console import Console

    from bystander.cli.progress import ProgressDisplay
    from bystander.flows.prefect_settings import configure_prefect

    configure_prefect()
    console = Console(soft_wrap=True)
    with ProgressDisplay(console) as display:

        def work() -> tuple[Sequence[str], str]:
            from bystander.flows.listeners import listening

            with listening(display):
                return evaluate()

        display.on_phase("starting Prefect")
        summary, table = run_interruptibly(work)
    for line in summary:
        console.print(line, markup=False, highlight=False)
    console.print(f"\n{table}", markup=False, highlight=False, end="")
