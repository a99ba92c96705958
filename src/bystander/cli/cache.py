"""`bystander cache`: how big a store's caches are, and how to make them smaller."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bystander.cli.tables import format_mb
from bystander.schemas.errors import InputError

if TYPE_CHECKING:
    from bystander.storage.clean_cache import Cleaning

app = typer.Typer(help="Show or clean what builds keep for their next run.", no_args_is_help=True)

_Store = Annotated[str, typer.Argument(metavar="STORE", help="The store: the folder or URL given to builds as --out.")]


@app.command("show")
def show_cache(store: _Store) -> None:
    """Show how big a store's parts and calls are, and how much of them no finished build uses."""
    from rich.console import Console
    from rich.table import Table

    from bystander.storage.clean_cache import Amount, inspect_cache
    from bystander.storage.filesystem import open_store

    content = inspect_cache(open_store(store))
    table = Table(title=f"Cache of {store}")
    for column in ("parts", "used", "MB", "unused", "unused MB"):
        table.add_column(column, justify="left" if column == "parts" else "right", no_wrap=True)
    for name in sorted({*content.used, *content.unused}):
        used, unused = content.used.get(name, Amount()), content.unused.get(name, Amount())
        table.add_row(name, f"{used.count:,}", format_mb(used.bytes), f"{unused.count:,}", format_mb(unused.bytes))
    if content.leftovers.count:
        table.add_row("leftovers", "", "", f"{content.leftovers.count:,}", format_mb(content.leftovers.bytes))
    console = Console(soft_wrap=True, highlight=False)
    console.print(table)
    builds = ", ".join("/".join(build) for build in content.builds) or "none"
    console.print(f"Finished builds: {builds}.", markup=False)
    if content.unrecorded:
        console.print(f"Not known what they use: {', '.join(content.unrecorded)}; run them again.", markup=False)
    console.print(f"Parts: {format_mb(content.parts_bytes)} MB, {format_mb(content.unused_bytes)} MB unused.")
    if content.calls is None:
        console.print("Calls: none kept.")
    else:
        console.print(f"Calls: {content.calls.count:,}, {format_mb(content.calls.bytes)} MB, {content.calls_path}.")


@app.command("clean")
def clean_cache(
    store: _Store,
    keep_builds: Annotated[
        bool,
        typer.Option(
            "--keep-builds",
            help="Remove the parts that no finished build uses. So it is without other options. Parts of a build that "
            "was stopped go too; its calls stay, and make them again.",
        ),
    ] = False,
    all_parts: Annotated[
        bool,
        typer.Option(
            "--all-parts", help="Remove all parts. A finished build that is run again makes its parts from the calls."
        ),
    ] = False,
    calls: Annotated[
        bool,
        typer.Option(
            "--calls",
            help="Remove the calls: no other build can use them then. Alone, it leaves the parts; with --all-parts "
            "nothing is left, and a build that is run again pays for every call.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove what builds keep for their next run; finished builds are not touched.

    Refuses while a build runs in the store. An object store without conditional puts has no locks: see for yourself
    that none does there.
    """
    from bystander.storage import clean_cache as cleaner
    from bystander.storage.filesystem import open_store

    if keep_builds and all_parts:
        raise InputError("--keep-builds and --all-parts: name one of them")
    cleaning = cleaner.Cleaning(unused_parts=keep_builds or not (all_parts or calls), all_parts=all_parts, calls=calls)
    opened = open_store(store)
    if not yes:
        _ask(store, cleaning, cleaning.measure(cleaner.inspect_cache(opened)))
    freed = cleaner.clean_cache(opened, cleaning)
    typer.echo(f"{store}: {format_mb(freed)} MB freed.")


def _ask(store: str, cleaning: Cleaning, size: int) -> None:
    asked = {"all parts": cleaning.all_parts, "unused parts": cleaning.unused_parts, "all calls": cleaning.calls}
    question = f"{store}: remove {' and '.join(what for what, is_asked in asked.items() if is_asked)}, "
    question += f"{format_mb(size)} MB"
    if not sys.stdin.isatty():
        raise InputError(f"{question}? Nobody can be asked here; say --yes")
    typer.confirm(f"{question}?", abort=True)
