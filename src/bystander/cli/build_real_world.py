"""`bystander build real-world`."""

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


def build_real_world(
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            "--corpus",
            metavar="ADDRESS",
            help="Transcripts of people who talk to each other: a folder, file or zip archive (AMI's annotations, "
            "Friends-MMC, MELD, EmoryNLP, lhotse, STM, SegLST, TextGrid). May be repeated.",
        ),
    ] = None,
    audio: Annotated[
        list[str] | None,
        typer.Option(
            "--audio",
            metavar="FOLDER",
            help="Recordings of the corpus at the same place in the order; without it, pairs come out as text.",
        ),
    ] = None,
    licence: Annotated[
        list[str] | None,
        typer.Option("--licence", help="Terms of the corpus at the same place in the order, e.g. 'CC BY 4.0'."),
    ] = None,
    decisions: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="What reviewers decided, as `bystander review` exports it; it is applied."),
    ] = None,
    profile: Annotated[str, typer.Option(help="Who scores, labels and replies: laptop, paper or fake.")] = "laptop",
    pack: Annotated[str | None, typer.Option(help="Response pack: its name, or the path of its folder.")] = None,
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
    """Build a set of real interruptions: who asks for something and is cut into, in recordings of conversations.

    The rows are candidates until people have gone through them (`bystander review`). Ctrl-C loses nothing that is
    finished.
    """
    from bystander.flows.check_real_world import check_real_world_build
    from bystander.schemas.real_world_config import join_corpora, load_real_world_config

    given = {
        "corpora": join_corpora(corpus or [], audio or [], licence or []) or None,
        "decisions": decisions,
        "pack": pack,
        "seed": seed,
        "store": out,
        "build": name,
        "workers": workers,
    }
    settings = load_real_world_config(profile, config or (), gather_overrides(set_, given))
    options = read_release_options(settings, release, release_date, quick_verify, require_all)

    # Prefect takes seconds to import: it waits until the settings have been checked.
    def run() -> Outcome:
        from bystander.flows.curate_real_world import run_curate_real_world

        return build_or_release(settings, run_curate_real_world, options)

    def foresee(against: str | None) -> RebuildPlan:
        from bystander.flows.curate_real_world import foresee_curate_real_world

        return foresee_build_or_release(settings, foresee_curate_real_world, options, against)

    run_build(lambda: check_real_world_build(settings), run, require_all, foresee)
