"""`bystander pack diff`: what another pack made of the same requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from bystander.cli.tables import open_console

if TYPE_CHECKING:
    from rich.console import Console

    from bystander.schemas.pack_diff import PackDiff, RowPair

_PAGE_NAME = "pack_diff.html"


def pack_diff(
    build_a: Annotated[str, typer.Argument(help="A finished TPI build: folder or URL, or .../latest.")],
    build_b: Annotated[str, typer.Argument(help="Another one of the same requests, with another pack or version.")],
    limit: Annotated[int, typer.Option(min=0, help="Examples of flips, and of replies, at most.")] = 10,
    out: Annotated[
        str | None, typer.Option(help=f"Also write a page: an HTML file, or a folder, where it is {_PAGE_NAME}.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compare two builds of the same requests: label flips, kinds, likeness of replies, rejects, cost.

    Rows are joined by id, which does not depend on the pack. Intervals are 95 % and draw whole requests.
    """
    from bystander.cli.page_file import prepare_page
    from bystander.tasks.compare_packs import compare_packs

    page = prepare_page(out, _PAGE_NAME) if out is not None else None
    found = compare_packs(build_a, build_b, limit)
    if json_:
        print(found.model_dump_json(indent=2))
    else:
        _show(found)
    if page is not None:
        from bystander.pages.pack_diff import render_pack_diff

        page.write(render_pack_diff(found))
        typer.echo(f"{page.address}: written.", err=json_)


def _show(found: PackDiff) -> None:
    from rich.table import Table
    from rich.text import Text

    from bystander.pages.pack_diff import list_tables, name_least_alike

    console = open_console()
    for letter, side in (("A", found.a), ("B", found.b)):
        pack = f"pack {side.pack} {side.pack_digest[:8]} ({', '.join(side.classes)})"
        console.print(f"{letter}: {side.address}, {pack}, seed {side.seed}", markup=False)
    for note in found.notes:
        console.print(f"Mind: {note}", style="yellow", markup=False)
    console.print()
    for shown in list_tables(found):
        table = Table(title=Text(shown.title), title_justify="left", caption=shown.note, caption_justify="left")
        for number, column in enumerate(shown.columns):
            table.add_column(column, justify="right" if number >= shown.heads else "left", overflow="fold")
        for row in shown.rows:
            table.add_row(*map(Text, row))
        console.print(table)
    _show_examples(console, "Rows whose labels differ", found.flip_examples)
    _show_examples(console, name_least_alike(found), found.reply_examples)


def _show_examples(console: Console, title: str, rows: Sequence[RowPair]) -> None:
    from rich.text import Text

    if not rows:
        return
    console.print(f"\n{title}", style="bold")
    for row in rows:
        console.print(
            Text(f"\n{row.id}, {row.scenario}, {row.timing}\n  U: {row.primary_text}\n  B: {row.third_party_text}")
        )
        for letter, side in (("A", row.a), ("B", row.b)):
            score = f" {side.label_score:.2f}" if side.label_score is not None else ""
            kind = f", {side.kind}" if side.kind else ""
            console.print(Text(f"  {letter} [{side.label}{score}{kind}; {side.fate}] {side.reply or 'no reply'}"))
