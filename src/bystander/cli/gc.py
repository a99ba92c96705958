"""`bystander gc`: removes what no kept build of a store refers to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bystander.cli.tables import format_mb
from bystander.schemas.errors import InputError

if TYPE_CHECKING:
    from bystander.storage.collect_garbage import Garbage


def gc(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="The store: the folder or URL given to builds as --out.")
    ],
    keep_last: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Keep the N newest releases of each dataset, and let older ones go."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Keep builds of this NAME or DATASET/NAME, a pattern with * or ?; may be repeated."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="DATASET/NAME", help="Let these builds go, a pattern with * or ?; may be repeated."),
    ] = None,
    calls: Annotated[
        bool, typer.Option("--calls", help="Remove the calls too, which all builds share: the next pays for them.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Remove it. Without, it is only listed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """List, and with --apply remove, what no kept build refers to.

    Without other options all finished builds are kept, and what goes is what stopped builds left: their folders and
    parts, and the parts, records and locks of builds that are gone. Kept in any case are what `latest` points to, what
    a kept build, evaluation or training run refers to, and whatever is not known to be ours. Refuses while one runs.
    """
    from bystander.storage.collect_garbage import collect_garbage, find_garbage
    from bystander.storage.dataset_folders import assert_is_store
    from bystander.storage.filesystem import open_store
    from bystander.storage.kept_builds import KeepRules

    rules = KeepRules(keep_last, tuple(keep or ()), tuple(drop or ()))
    opened = open_store(store)
    assert_is_store(opened, store)
    garbage = find_garbage(opened, rules, calls)
    _print(garbage, store)
    if garbage.nothing:
        typer.echo(f"{store}: nothing to remove.")
        return
    if not apply:
        typer.echo(f"{store}: {format_mb(garbage.bytes)} MB would be freed; --apply removes it.")
        return
    if not yes:
        question = f"{store}: remove this, {format_mb(garbage.bytes)} MB"
        if not sys.stdin.isatty():
            raise InputError(f"{question}? Nobody can be asked here; say --yes")
        typer.confirm(f"{question}?", abort=True)
    freed = collect_garbage(opened, rules, calls).bytes
    typer.echo(f"{store}: {format_mb(freed)} MB freed.")


def _print(garbage: Garbage, store: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(soft_wrap=True, highlight=False)
    if not garbage.nothing:
        table = Table(title=f"What goes of {store}", title_justify="left")
        for column in ("kind", "what", "number", "MB", "why"):
            table.add_column(column, justify="right" if column in ("number", "MB") else "left")
        for kind, what, number, size, why in _list_rows(garbage):
            table.add_row(kind, what, f"{number:,}", format_mb(size), why)
        console.print(table, markup=False)
    kept = [verdict for verdict in garbage.verdicts if not verdict.goes]
    if kept:
        table = Table(title="Builds that stay", title_justify="left")
        for column in ("build", "MB", "why"):
            table.add_column(column, justify="right" if column == "MB" else "left")
        for verdict in kept:
            table.add_row(verdict.build.name, format_mb(verdict.build.bytes), verdict.why)
        console.print(table, markup=False)
    for verdict in garbage.builds:
        if verdict.build.foreign:
            files = ", ".join(verdict.build.foreign[:3])
            console.print(f"Left in {verdict.build.name}, since they are not ours: {files}.", markup=False)
    for name, size in garbage.checkpoints.items():
        console.print(
            f"Checkpoints of the unfinished training run {name} stay, {format_mb(size)} MB: the same command goes on "
            f"from them. To give it up, remove cache/training/{name}.",
            markup=False,
        )
    if garbage.running:
        console.print(
            f"{', '.join(garbage.running)} is being made, so parts are left out here; while it is, --apply refuses.",
            markup=False,
        )
    elif garbage.cache is not None and garbage.cache.unrecorded:
        console.print(
            f"All parts stay: not known is which {', '.join(garbage.cache.unrecorded)} was made from; run it again, "
            "which makes no calls.",
            markup=False,
        )


def _list_rows(garbage: Garbage) -> list[tuple[str, str, int, int, str]]:
    rows = [
        ("build", verdict.build.name, len(verdict.build.files), verdict.build.bytes, verdict.why)
        for verdict in garbage.builds
    ]
    if garbage.cache is not None and garbage.parts_are_known:
        rows += [
            ("parts", stage, amount.count, amount.bytes, "no kept build uses them")
            for stage, amount in garbage.cache.unused.items()
        ]
        left = garbage.cache.leftovers
        if left.count:
            rows.append(("records", "notes, temporaries", left.count, left.bytes, "of what is gone"))
    if garbage.locks:
        size = sum(garbage.locks.values())
        rows.append(("locks", "lock files", len(garbage.locks), size, "of builds that are gone"))
    if garbage.calls and garbage.cache is not None and garbage.cache.calls is not None:
        calls = garbage.cache.calls
        rows.append(("calls", str(garbage.cache.calls_path), calls.count, calls.bytes, "--calls"))
    return rows
