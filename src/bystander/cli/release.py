"""`bystander release`: which build of a dataset is its latest release, and pointing it elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="Show the releases of a store, or point `latest` to another build.", no_args_is_help=True)

_Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="Folder or URL of the dataset, as STORE/tpi-train.")]
_Quick = Annotated[bool, typer.Option("--quick", help="Decode a sample of the clips instead of all.")]


@app.command("list")
def list_releases(
    store: Annotated[str, typer.Argument(metavar="STORE", help="The folder or URL given to builds as --out.")],
) -> None:
    """List the builds of each dataset: which is the latest release, which were refused or withdrawn, and why."""
    from rich.console import Console
    from rich.table import Table

    from bystander.schemas.errors import BuildError
    from bystander.storage.dataset_folders import assert_is_store
    from bystander.storage.filesystem import open_store
    from bystander.storage.release_listing import list_builds

    opened = open_store(store)
    assert_is_store(opened, store)
    listing = list_builds(opened)
    builds = listing.builds
    console = Console(soft_wrap=True, highlight=False)
    if not builds and not listing.damage:
        console.print(f"{store}: no builds.", markup=False)
        return
    table = Table()
    for column in ("dataset", "build", "state", "rows", "made", "files"):
        table.add_column(column, justify="right" if column == "rows" else "left", no_wrap=True)
    for build in builds:
        rows = "" if build.rows is None else f"{build.rows:,}"
        files = "" if build.state == "unfinished" else "whole" if build.is_whole else "damaged"
        table.add_row(build.dataset, build.build, build.state, rows, build.made or "", files)
    console.print(table)
    for build in builds:
        for finding in build.findings:
            console.print(f"{build.dataset}/{build.build} was refused: {finding}", markup=False)
    if listing.damage:
        raise BuildError("; ".join(listing.damage))


@app.command("set")
def set_release(
    dataset: _Dataset,
    build: Annotated[str, typer.Argument(help="Name of the build.")],
    quick: _Quick = False,
) -> None:
    """Verify a build and point `latest` to it."""
    from bystander.tasks.move_release import set_release

    release = set_release(dataset, build, quick, lambda notice: typer.echo(f"{notice}."))
    typer.echo(f"{dataset.rstrip('/')}/latest is {release.build}, which was verified.")


@app.command("rollback")
def roll_back(
    dataset: _Dataset,
    to: Annotated[str | None, typer.Option(help="Name of the build. Default: the release before the latest.")] = None,
    quick: _Quick = False,
) -> None:
    """Verify the release before the latest and point `latest` back to it.

    What it pointed to counts as withdrawn: a run that would make just the same ends with nothing new.
    """
    from bystander.tasks.move_release import roll_back

    release = roll_back(dataset, to, quick)
    typer.echo(f"{dataset.rstrip('/')}/latest is {release.build}, which was verified.")
    typer.echo(f"Withdrawn: {', '.join(release.withdrawn)}.")
