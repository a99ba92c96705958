"""`bystander build dyadic`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bystander.cli.build_options import (
    Config,
    Name,
    Out,
    Outcome,
    QuickVerify,
    Release,
    ReleaseDate,
    RequireAll,
    Seed,
    Set,
    Workers,
    build_or_release,
    foresee_build_or_release,
    read_release_options,
    run_build,
)
from bystander.cli.overrides import gather_overrides

if TYPE_CHECKING:
    from bystander.schemas.rebuild import RebuildPlan


def build_dyadic(
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="BUILD",
            help="The finished TPI build that requests, replies and voices are taken from: its folder or URL.",
        ),
    ] = None,
    profile: Annotated[
        str,
        typer.Option(
            help="What speaks and listens, as for the build named in --from: laptop, playbook, paper or fake. Only "
            "its speech counts; no text is written."
        ),
    ] = "laptop",
    pack: Annotated[
        str | None, typer.Option(help="Folder of the pack of that build, where it is no longer where it was.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Rows wanted. Default: one of each request that can be used.")
    ] = None,
    seed: Seed = None,
    out: Out = None,
    name: Name = None,
    workers: Workers = None,
    release: Release = False,
    release_date: ReleaseDate = None,
    quick_verify: QuickVerify = False,
    require_all: RequireAll = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Build dyadic rows: requests that one person says to the end, with replies, from a finished TPI build.

    They are the one-speaker part of training mixtures. Ctrl-C loses nothing that is finished.
    """
    from bystander.flows.check_dyadic import check_dyadic_build
    from bystander.schemas.dyadic_config import load_dyadic_config

    given = {
        "source": source,
        "pack": pack,
        "rows": rows,
        "seed": seed,
        "store": out,
        "build": name,
        "workers": workers,
    }
    settings = load_dyadic_config(profile, config or (), gather_overrides(set_, given))
    options = read_release_options(settings, release, release_date, quick_verify, require_all)

    # Prefect takes seconds to import: it waits until the settings have been checked.
    def run() -> Outcome:
        from bystander.flows.build_dyadic import run_build_dyadic

        return build_or_release(settings, run_build_dyadic, options)

    def foresee(against: str | None) -> RebuildPlan:
        from bystander.flows.build_dyadic import foresee_build_dyadic

        return foresee_build_or_release(settings, foresee_build_dyadic, options, against)

    run_build(lambda: check_dyadic_build(settings), run, require_all, foresee)
