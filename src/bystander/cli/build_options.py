"""What the build commands share: options, and running a build's flow under a progress display."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from bystander.cli.interruption import run_interruptibly
from bystander.schemas.errors import ConfigError, ShortBuildError

if TYPE_CHECKING:
    from bystander.flows.build_runs import BuildOutcome
    from bystander.schemas.build_config import BuildConfig

_Settings = TypeVar("_Settings", bound="BuildConfig")

if TYPE_CHECKING:
    from bystander.schemas.rebuild import RebuildPlan

Seed = Annotated[
    int | None,
    typer.Option(min=0, help="Seed of the build: the same seed and input give the same rows. Default: 0."),
]
Out = Annotated[
    str | None,
    typer.Option(
        help="Store: folder or URL that holds builds and caches; a build that was stopped goes on from them. "
        "Default: bystander-store."
    ),
]
Name = Annotated[
    str | None,
    typer.Option(help="Name of the build's folder, OUT/DATASET/NAME. Default: derived from the settings."),
]
RequireAll = Annotated[
    bool,
    typer.Option(
        "--require-all",
        help="Exit with 1 where the finished build has fewer rows than were asked for. It is published all the same.",
    ),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Partitions in work at once. Changes the speed, never a row.")]
Config = Annotated[
    list[str] | None,
    typer.Option(help="YAML file of fields laid over the profile; may be repeated, the last one wins."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="One field as name=value, over all files; may be repeated. E.g. stages.mix_speakers.offset_mean_s=-0.3.",
    ),
]


Release = Annotated[
    bool,
    typer.Option(
        "--release",
        help="Release the build: under today's date as its name, and, once it is verified, as the dataset's latest. "
        "Where the latest release is made of just the same, nothing is written.",
    ),
]
ReleaseDate = Annotated[
    str | None, typer.Option(help="Date that names the release instead of today's, as YYYY-MM-DD.", metavar="DATE")
]
QuickVerify = Annotated[
    bool, typer.Option("--quick-verify", help="Decode only a sample of the clips when the release is verified.")
]


@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    """How a build is released."""

    dated: date
    quick: bool
    require_all: bool


def read_release_options(
    config: BuildConfig, release: bool, release_date: str | None, quick: bool, require_all: bool
) -> ReleaseOptions | None:
    """Return how a build is to be released, or None if it is not.

    Raises:
        ConfigError: it is named otherwise, there is no such date, or there are options without `--release`.
    """
    from bystander.storage.release_folders import check_release

    if not release:
        for option, given in (("--release-date", release_date is not None), ("--quick-verify", quick)):
            if given:
                raise ConfigError(f"{option}: is for releases; add --release")
        return None
    return ReleaseOptions(
        check_release(config, date.today() if release_date is None else release_date), quick, require_all
    )


def build_or_release(
    config: _Settings, build: Callable[[_Settings], BuildOutcome[Any]], options: ReleaseOptions | None
) -> Outcome:
    """Make a build, as a release where there are options for one."""
    if options is None:
        return build(config)
    from bystander.flows.release import release_build

    return release_build(config, build, options.dated, options.quick, options.require_all)


def foresee_build_or_release(
    config: _Settings,
    foresee: Callable[[_Settings, str | None], RebuildPlan],
    options: ReleaseOptions | None,
    against: str | None,
) -> RebuildPlan:
    """Plan a build, as a release where there are options for one."""
    if options is None:
        return foresee(config, against)
    from bystander.flows.release import foresee_release

    return foresee_release(config, foresee, options.dated, against)


class Manifest(Protocol):
    """What is asked of any build's manifest."""

    @property
    def shortfalls(self) -> Sequence[Any]: ...


class Outcome(Protocol):
    """What a build's flow returns."""

    @property
    def location(self) -> str: ...

    @property
    def manifest(self) -> Manifest: ...

    @property
    def summary(self) -> tuple[str, ...]: ...


Foresee = Callable[[str | None], "RebuildPlan"]
"""From the name of the build to compare with to what a build would reuse and redo."""
_planner: ContextVar[Callable[[Foresee], None] | None] = ContextVar("bystander_planner", default=None)


@contextmanager
def planning(plan: Callable[[Foresee], None]) -> Iterator[None]:
    """Have the build commands plan in this block, instead of building: so both have the same options."""
    token = _planner.set(plan)
    try:
        yield
    finally:
        _planner.reset(token)


def run_build(check: Callable[[], None], run: Callable[[], Outcome], require_all: bool, foresee: Foresee) -> None:
    """Check a build's settings, run its flow in this process under a progress display, and print its summary.

    Within `planning`, hand over to the plan instead.

    Raises:
        UserError: the settings or what they name is wrong.
        ShortBuildError: rows are missing, and `require_all` is set.
    """
    planner = _planner.get()
    if planner is not None:
        planner(foresee)
        return
    # Prefect takes seconds to import, and its server more to start: mistakes are found before.
    check()

    from rich.console import Console

    from bystander.cli.progress import ProgressDisplay
    from bystander.flows.prefect_settings import configure_prefect

    configure_prefect()
    console = Console(soft_wrap=True)
    with ProgressDisplay(console) as display:

        def work() -> Outcome:
            from bystander.flows.listeners import listening

            with listening(display):
                return run()

        display.on_phase("starting Prefect")
        outcome = run_interruptibly(work)
    for line in outcome.summary:
        console.print(line, markup=False, highlight=False)
    if require_all and outcome.manifest.shortfalls:
        raise ShortBuildError(f"{outcome.location}: is published, but short: {_describe_shortfalls(outcome.manifest)}")


def _describe_shortfalls(manifest: Manifest) -> str:
    """Name the labels that are short, and count the scenarios: there may be dozens."""
    short = [
        f"{quota.stratum} {quota.got} of {quota.asked}"
        for quota in manifest.shortfalls
        if not getattr(quota, "scenario", None)
    ]
    scenarios = sum(bool(getattr(quota, "scenario", None)) for quota in manifest.shortfalls)
    return ", ".join([*short, *([f"{scenarios} of the scenarios"] if scenarios else [])])
