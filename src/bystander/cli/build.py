"""`bystander build`: run a build flow in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bystander.cli.interruption import run_interruptibly
from bystander.schemas.errors import ShortBuildError

if TYPE_CHECKING:
    from bystander.flows.tpi_build import BuildOutcome
    from bystander.storage.build_manifest import BuildManifest

build_app = typer.Typer(help="Build a dataset.", no_args_is_help=True)

_Profile = Annotated[
    str,
    typer.Option(
        help="Engines and sizes: laptop (embedded models, no GPU), playbook (authored texts, embedded speech) or "
        "fake (no models, for trying things out)."
    ),
]
_Queries = Annotated[
    str | None,
    typer.Option(
        help="Requests to build from: path, glob or URL of JSONL, CSV, TSV, TXT or Parquet. Default: the starter "
        "set of the package."
    ),
]
_TextColumn = Annotated[
    str | None,
    typer.Option(help="Column of the request in --queries. Default: question, text, query, ..., the first there is."),
]
_Rows = Annotated[
    int | None,
    typer.Option(min=1, help="Rows in all, one-speaker rows included, in the proportions of the profile."),
]
_Seed = Annotated[
    int | None,
    typer.Option(min=0, help="Seed of the build: the same seed and input give the same rows. Default: 0."),
]
_DisjointFrom = Annotated[
    list[str] | None,
    typer.Option(
        help="A finished build with which this one shares no query, no text and no pair of voices; may be repeated."
    ),
]
_Out = Annotated[
    str | None,
    typer.Option(
        help="Store: folder or URL that holds builds and caches; a build that was stopped goes on from them. "
        "Default: bystander-store."
    ),
]
_Name = Annotated[
    str | None,
    typer.Option(help="Name of the build's folder, OUT/DATASET/NAME. Default: derived from the settings."),
]
_RequireAll = Annotated[
    bool,
    typer.Option(
        "--require-all",
        help="Exit with 1 where the finished build has fewer rows than were asked for. It is published all the same.",
    ),
]
_Workers = Annotated[
    int | None, typer.Option(min=1, help="Partitions in work at once. Changes the speed, never a row.")
]
_Config = Annotated[
    list[str] | None,
    typer.Option(help="YAML file of fields laid over the profile; may be repeated, the last one wins."),
]
_Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="One field as name=value, over all files; may be repeated. E.g. stages.mix_speakers.offset_mean_s=-0.3.",
    ),
]


@build_app.command("tpi-train")
def build_tpi_train(
    profile: _Profile = "laptop",
    queries: _Queries = None,
    text_column: _TextColumn = None,
    rows: _Rows = None,
    hard_negatives: Annotated[
        int | None,
        typer.Option(
            min=0, help="Of two-speaker rows, how many get a one-speaker twin; these come on top of --rows' pairs."
        ),
    ] = None,
    seed: _Seed = None,
    disjoint_from: _DisjointFrom = None,
    out: _Out = None,
    name: _Name = None,
    workers: _Workers = None,
    require_all: _RequireAll = False,
    config: _Config = None,
    set_: _Set = None,
) -> None:
    """Build TPI-Train: requests in, Parquet shards of interrupted requests with replies out.

    Ctrl-C loses nothing that is finished: the same command goes on from there.
    """
    from bystander.schemas.config import load_config, resize

    overrides = _lay_over(set_, queries, text_column, seed, disjoint_from, out, name, workers)
    settings = resize(load_config(profile, config or (), overrides), rows, hard_negatives)

    def run() -> BuildOutcome:
        from bystander.flows.build_tpi_train import run_build_tpi_train

        return run_build_tpi_train(settings)

    _run(settings, run, require_all)


@build_app.command("tpi-bench")
def build_tpi_bench(
    profile: _Profile = "laptop",
    queries: _Queries = None,
    text_column: _TextColumn = None,
    rows: _Rows = None,
    one_speaker: Annotated[
        int | None,
        typer.Option(min=0, help="Rows of Janus-Test, the one-speaker split, instead of its share of --rows."),
    ] = None,
    seed: _Seed = None,
    disjoint_from: _DisjointFrom = None,
    out: _Out = None,
    name: _Name = None,
    workers: _Workers = None,
    require_all: _RequireAll = False,
    config: _Config = None,
    set_: _Set = None,
) -> None:
    """Build TPI-Bench: TPI-Test (two speakers) and Janus-Test (the same kind of words, one speaker), twins linked.

    Name the training builds with --disjoint-from. Ctrl-C loses nothing that is finished.
    """
    from bystander.schemas.config import load_bench_config, resize

    overrides = _lay_over(set_, queries, text_column, seed, disjoint_from, out, name, workers)
    settings = resize(load_bench_config(profile, config or (), overrides), rows, one_speaker)

    def run() -> BuildOutcome:
        from bystander.flows.build_tpi_bench import run_build_tpi_bench

        return run_build_tpi_bench(settings)

    _run(settings, run, require_all)


def _lay_over(
    set_: list[str] | None,
    queries: str | None,
    text_column: str | None,
    seed: int | None,
    disjoint_from: list[str] | None,
    out: str | None,
    name: str | None,
    workers: int | None,
) -> dict[str, Any]:
    """Return the fields that options give, over those of `--set`."""
    from bystander.schemas.config import parse_override

    overrides: dict[str, Any] = dict(parse_override(text) for text in set_ or [])
    given = {
        "queries.path": queries,
        "queries.text_column": text_column,
        "seed": seed,
        "disjoint_from": disjoint_from or None,
        "store": out,
        "build": name,
        "workers": workers,
    }
    return overrides | {key: value for key, value in given.items() if value is not None}


def _run(settings: Any, run: Callable[[], BuildOutcome], require_all: bool) -> None:
    from bystander.flows.check_tpi_train import check_tpi_build

    # Prefect takes seconds to import, and its server more to start: mistakes are found before.
    check_tpi_build(settings)

    from rich.console import Console

    from bystander.cli.progress import ProgressDisplay
    from bystander.flows.prefect_settings import configure_prefect

    configure_prefect()
    console = Console(soft_wrap=True)
    with ProgressDisplay(console) as display:

        def work() -> BuildOutcome:
            from bystander.flows.listeners import listening

            with listening(display):
                return run()

        display.on_phase("starting Prefect")
        outcome = run_interruptibly(work)
    for line in outcome.summary:
        console.print(line, markup=False, highlight=False)
    if require_all and outcome.manifest.shortfalls:
        raise ShortBuildError(f"{outcome.location}: is published, but short: {_describe_shortfalls(outcome.manifest)}")


def _describe_shortfalls(manifest: BuildManifest) -> str:
    """Name the labels that are short, and count the scenarios: there may be dozens."""
    short = [f"{quota.stratum} {quota.got} of {quota.asked}" for quota in manifest.shortfalls if not quota.scenario]
    scenarios = sum(bool(quota.scenario) for quota in manifest.shortfalls)
    return ", ".join([*short, *([f"{scenarios} of the scenarios"] if scenarios else [])])
