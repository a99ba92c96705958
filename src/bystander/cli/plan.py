"""`bystander plan`: what a build will take, before anyone pays for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bystander.cli.build_options import Config, Set
from bystander.cli.overrides import gather_overrides
from bystander.cli.plan_rebuild import app as rebuild_app
from bystander.cli.tables import open_console
from bystander.schemas.errors import ConfigError

if TYPE_CHECKING:
    from bystander.schemas.plan import Estimate, PlanReport


app = typer.Typer(
    name="plan",
    help="Say what a build will take, before anyone pays for it; `plan rebuild` says what it would reuse and redo.",
)
app.add_typer(rebuild_app, name="rebuild")


@app.callback(invoke_without_command=True)
def plan(
    context: typer.Context,
    profile: Annotated[str, typer.Option(help="Engines and sizes, as for `bystander build`.")] = "paper",
    dataset: Annotated[
        Literal["tpi-train", "tpi-bench"], typer.Option(help="Which dataset: tpi-train or tpi-bench.")
    ] = "tpi-train",
    queries: Annotated[str | None, typer.Option(help="Requests, as for `bystander build`: are there enough?")] = None,
    text_column: Annotated[str | None, typer.Option(help="Column of the request.")] = None,
    pack: Annotated[str | None, typer.Option(help="Response strategy, as for `bystander build`.")] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Rows in all, in the profile's proportions. Default: the profile's.")
    ] = None,
    measured_in: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="BUILD",
            help="Finished TPI-Train build whose yields, tries and lengths are taken: a small one with the same "
            "engines. Default: assumptions that ship with the package.",
        ),
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option(
            help="What one device does, as NAME=VALUE: writer, judge (generated tokens/s), writer_prompt, judge_prompt "
            "(prompt tokens/s not in the prefix cache), speech, recogniser (seconds of audio/s); may be repeated."
        ),
    ] = None,
    gpus: Annotated[
        list[str] | None,
        typer.Option(help="Devices of an engine, as ROLE=N, such as judge=16; may be repeated. Default: 1 each."),
    ] = None,
    thinking_tokens: Annotated[
        float | None, typer.Option(min=0, help="Tokens that a reasoning judge thinks for, a question, on average.")
    ] = None,
    price_per_gpu_hour: Annotated[
        float | None, typer.Option(min=0, help="What a GPU costs an hour, in any currency.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Estimate what a TPI build takes: calls, tokens, hours, storage, task runs. Opens no engine and asks no server.

    Ranges hold nine of ten simulated builds, whose yields are drawn from what is known of them.
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    from bystander.flows.pack_targets import fit_to_pack
    from bystander.schemas.config import load_bench_config, load_config, resize
    from bystander.tasks.plan_build import plan_build
    from bystander.tasks.plan_costs import RATE_KEYS, Resources

    overrides = gather_overrides(set_, {"queries.path": queries, "queries.text_column": text_column, "pack": pack})
    load = load_bench_config if dataset == "tpi-bench" else load_config
    settings = resize(fit_to_pack(load(profile, config or (), overrides)), rows)
    given = Resources(
        rates=_parse_numbers(rate or (), "--rate", RATE_KEYS),
        devices={name: int(value) for name, value in _parse_numbers(gpus or (), "--gpus", _ROLES, whole=True).items()},
        thinking_tokens=thinking_tokens,
        price_per_gpu_hour=price_per_gpu_hour,
    )
    report = plan_build(settings, measured_in, given)
    if json_:
        print(report.model_dump_json(indent=2))
    else:
        _show(report)


def _refuse_options(context: typer.Context) -> None:
    """Raise where options of the estimate stand before a sub-command, which would not hear of them."""
    given = [name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"]  # type: ignore[union-attr]
    if given:
        raise ConfigError(f"options of `plan` stand before `{context.invoked_subcommand}`: put them after its name")


_ROLES = ("writer", "judge", "speech", "recogniser")


def _parse_numbers(texts: Sequence[str], option: str, names: Sequence[str], whole: bool = False) -> dict[str, float]:
    """Return numbers above 0 by name, from texts such as `writer=2000`.

    Raises:
        ConfigError: a text is not of this form, names something else, or is no such number.
    """
    numbers = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or name not in names:
            raise ConfigError(f"{option} {text!r}: write it as name=value; names are {', '.join(names)}")
        try:
            numbers[name] = float(value)
        except ValueError:
            numbers[name] = 0.0
        if not 0 < numbers[name] < float("inf") or (whole and numbers[name] % 1):
            raise ConfigError(f"{option} {text!r}: {value!r} is no {'whole ' if whole else ''}number above 0")
    return numbers


def _show(report: PlanReport) -> None:
    from rich.table import Table

    console = open_console()

    def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        table = Table(title=title, title_justify="left")
        for number, column in enumerate(columns):
            table.add_column(column, justify="right" if number else "left", overflow="fold")
        for row in rows:
            table.add_row(*row)
        console.print(table)

    console.print(f"{report.dataset}, profile {report.profile}: {report.rows:,} rows", markup=False)
    console.print(f"Yields and lengths: {report.yields_from}.", markup=False)
    console.print("Each figure as expected, and in brackets the range of nine of ten simulated builds.\n")
    show(
        "Rows",
        ["", "rows"],
        [
            ["requests needed", _write(report.requests)],
            ["waves", _write(report.waves)],
            *([f"into {name}", _write(value)] for name, value in report.stages.items()),
        ],
    )
    show(
        "Calls of text engines, tokens in millions",
        ["task", "engine", "calls", "prompt", "of it cached", "generated"],
        [
            [
                call.task,
                call.role,
                _write(call.calls),
                _write_number(call.prompt_tokens.expected / 1e6),
                _write_number(call.cached_prompt_tokens.expected / 1e6),
                _write(call.generated_tokens, 1e6),
            ]
            for call in report.calls
        ],
    )
    show(
        "Engines",
        ["role", "engine", "devices", "device hours"],
        [
            [
                role.role,
                f"{role.engine} {role.model.rpartition('/')[2]}".strip(),
                f"{role.devices} {role.device}" if role.device != "none" else "",
                _write(role.hours) if role.hours is not None else "no rate",
            ]
            for role in report.roles
        ],
    )
    totals = [
        ["tracks spoken", _write(report.tracks)],
        ["hours of audio spoken and recognised", _write(report.spoken_hours)],
        ["hours of audio published", _write(report.published_hours)],
        ["cache, GB", _write(report.cache_gb)],
        ["shards, GB", _write(report.shards_gb)],
        ["rejects with audio, GB", _write(report.rejects_gb)],
        ["audio of one partition, MB", f"{report.partition_mb:,.0f}"],
        ["Prefect task runs", f"{_write(report.task_runs)}, {report.task_run_share:.2%} of the rows"],
    ]
    if report.hours is not None and report.slowest is not None:
        totals.append([f"hours from start to end (the {report.slowest} decides)", _write(report.hours)])
    if report.gpu_hours is not None and report.gpu_hours_held is not None:
        totals.append(["GPU hours at work", _write(report.gpu_hours)])
        totals.append(["GPU hours held until the end", _write(report.gpu_hours_held)])
        if report.price_per_gpu_hour is not None:
            totals.append(["price of GPU hours at work", _write(report.gpu_hours, 1 / report.price_per_gpu_hour)])
            totals.append(["price of GPU hours held", _write(report.gpu_hours_held, 1 / report.price_per_gpu_hour)])
    show("Totals", ["", ""], totals)
    for role in report.roles:
        console.print(f"Rate of the {role.role}: {role.rate}.", markup=False)
    for line in report.assumptions:
        console.print(f"Assumption, {line}.", markup=False)
    for line in report.warnings:
        console.print(f"Mind: {line}.", style="yellow", markup=False)


def _write(value: Estimate, unit: float = 1.0) -> str:
    """Return `expected (low to high)`, in `unit`, in as many digits as mean something."""
    numbers = [number / unit for number in (value.expected, value.low, value.high)]
    middle, low, high = (_write_number(number) for number in numbers)
    return middle if low == middle == high else f"{middle} ({low} to {high})"


def _write_number(number: float) -> str:
    if number >= 100_000:
        return f"{number / 1000:,.0f}K"
    if number >= 100 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:,.1f}" if number >= 10 else f"{number:.2f}"
