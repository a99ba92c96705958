"""`bystander models`: fetch, verify and list the model files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Fetch, verify and list model files.", no_args_is_help=True)

_Root = Annotated[
    Path | None,
    typer.Option("--root", help="Folder of the model store. Default: BYSTANDER_MODELS or the cache folder."),
]


@app.command("fetch")
def fetch_models(
    names: Annotated[list[str] | None, typer.Argument(help="Names of models; see `bystander models list`.")] = None,
    root: _Root = None,
    all_models: Annotated[bool, typer.Option("--all", help="Fetch every model of the manifest.")] = False,
) -> None:
    """Download models into the store, check them, and go on where an earlier fetch was interrupted."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from bystander.schemas.errors import ModelStoreError
    from bystander.storage.model_store import FetchProgress, ModelStore

    store = ModelStore(root)
    chosen = sorted(store.manifest.models) if all_models else list(names or [])
    if not chosen:
        raise ModelStoreError("name the models to fetch, or say --all; `bystander models list` shows them")
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as display:
        bars = {}

        def show(progress: FetchProgress) -> None:
            if progress.model not in bars:
                bars[progress.model] = display.add_task(progress.model)
            display.update(
                bars[progress.model],
                description=f"{progress.model}: {progress.step}",
                completed=progress.done_bytes,
                total=progress.total_bytes or None,
            )

        for name in chosen:
            (status,) = store.fetch([name], show)
            console.print(f"{name}: {status.state} in {status.path}", highlight=False, soft_wrap=True)


@app.command("verify")
def verify_models(
    names: Annotated[list[str] | None, typer.Argument(help="Names of models; those that are there by default.")] = None,
    root: _Root = None,
) -> None:
    """Hash model files anew and compare them with the manifest; fails if one is corrupt, or a named one missing."""
    from bystander.schemas.errors import ModelStoreError
    from bystander.storage.model_store import ModelStore

    statuses = ModelStore(root).verify(names or ())
    bad = [status for status in statuses if status.state == "corrupt" or (names and status.state == "missing")]
    for status in statuses:
        faults = f" ({', '.join(status.faults)})" if status in bad else ""
        typer.echo(f"{status.name}: {status.state}{faults}")
    if bad:
        raise ModelStoreError(
            f"{len(bad)} of {len(statuses)} models are not as they should be; "
            f"run: bystander models fetch {' '.join(status.name for status in bad)}"
        )


@app.command("list")
def list_models(root: _Root = None) -> None:
    """Show all models of the manifest: state, size on disk, licence."""
    from rich.console import Console
    from rich.table import Table

    from bystander.storage.model_store import ModelStore

    store = ModelStore(root)
    table = Table(title=f"Models in {store.root}")
    for column in ("name", "state", "MB", "licence"):
        table.add_column(column, justify="right" if column == "MB" else "left", no_wrap=column == "name")
    for status in store.list():
        megabytes = f"{status.size_bytes / 1e6:,.0f}"
        table.add_row(status.name, status.state, megabytes, status.licence)
    Console().print(table)
