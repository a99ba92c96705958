"""`bystander pack preview`: a pack's prompts for sample rows and, with engines, its replies beside another pack's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bystander.cli.build_options import Config, Set
from bystander.cli.overrides import gather_overrides
from bystander.cli.tables import open_console

if TYPE_CHECKING:
    from rich.console import Console

    from bystander.schemas.pack_preview import PackPreview, RenderedPrompt, RowAnswer, SampleRow

_PAGE_NAME = "pack_preview.html"


def pack_preview(
    pack: Annotated[str, typer.Argument(help="Name of a pack, or its folder.")],
    task: Annotated[str | None, typer.Option(help="Only the prompts of this task, such as write_reply.")] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            help="Rows to show: a finished build, or JSONL, CSV or Parquet with primary and third_party (and, where "
            "known, request, scenario, timing, spoken, answer). Default: rows of the package."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows at most.")] = 2,
    scenario: Annotated[str | None, typer.Option(help="Only rows of this scenario.")] = None,
    shown_class: Annotated[str | None, typer.Option("--class", help="Only prompts of this class.")] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Ask the writer and the judge of this profile for labels, kinds and replies. Without it (and without "
            "--config and --set) prompts are rendered and nobody is asked."
        ),
    ] = None,
    against: Annotated[
        str, typer.Option(help="Pack that is asked for the same rows, to be shown beside this one.")
    ] = "reference",
    alone: Annotated[bool, typer.Option("--alone", help="Ask no other pack for the same rows.")] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of replies. Default: the build's that the rows are of, else 0.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="Store whose cache of calls is used. Default: bystander-store.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help=f"Also write a page: an HTML file, or a folder, where it is {_PAGE_NAME}.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Show a pack's prompts for sample rows and, with engines, its labels and replies beside the reference pack's.

    What the engines answer is what a build of the same seed would keep or reject: the stages are the same.
    """
    from bystander.cli.page_file import prepare_page
    from bystander.schemas.config import load_config
    from bystander.tasks.preview_pack import preview_pack

    asked = profile is not None or config or set_
    settings = (
        load_config(profile or "laptop", config or (), gather_overrides(set_, {"store": store})) if asked else None
    )
    page = prepare_page(out, _PAGE_NAME) if out is not None else None
    preview = preview_pack(
        pack,
        rows_from=rows,
        limit=limit,
        task=task,
        scenario=scenario,
        shown_class=shown_class,
        config=settings,
        seed=seed,
        against=() if alone else (against,),
    )
    if json_:
        print(preview.model_dump_json(indent=2))
    else:
        _show(preview, in_full=task is not None)
    if page is not None:
        from bystander.pages.pack_preview import render_pack_preview

        page.write(render_pack_preview(preview))
        typer.echo(f"{page.address}: written.", err=json_)


def _show(preview: PackPreview, in_full: bool) -> None:
    """Print the preview; the text of prompts for all rows if `in_full`, else for the first."""
    from rich.table import Table

    from bystander.pages.pack_preview import group_prompts, join_answers, show_range

    console = open_console()
    console.print(f"Pack {preview.pack}, {preview.digest[:12]}: {preview.description}", markup=False)
    console.print(f"Rows: {preview.rows_from}.\n", markup=False)
    groups = group_prompts(preview)
    for group in groups:
        for prompt in group.prompts if in_full else group.prompts[:1]:
            _show_prompt(console, prompt)
    table = Table(title="Length of the prompts", title_justify="left")
    for number, column in enumerate(["task", "class", "answered with", "prompts", "characters", "tokens, estimated"]):
        table.add_column(column, justify="right" if number > 2 else "left", overflow="fold")
    for group in groups:
        table.add_row(
            group.task,
            group.shown_class or "",
            group.reply,
            str(len(group.prompts)),
            show_range(group.characters),
            show_range(group.tokens),
        )
    console.print(table)
    if not in_full and len(preview.rows) > 1:
        console.print("Shown is each prompt for the first row; --task shows one for all rows, --out a page of all.")
    if preview.answers:
        asked = ", ".join(f"{role} {name}" for role, name in preview.engines.items())
        console.print(f"\nAsked: {asked}.", markup=False)
        for row, answers in join_answers(preview):
            _show_answers(console, preview, row, answers)


def _show_prompt(console: Console, prompt: RenderedPrompt) -> None:
    of_class = f", class {prompt.shown_class}" if prompt.shown_class else ""
    console.rule(f"{prompt.task}{of_class}", align="left", style="dim")
    for message in prompt.messages:
        console.print(f"[bold]{message.role}[/bold]")
        console.print(message.content, markup=False)
    console.print()


def _show_answers(console: Console, preview: PackPreview, row: SampleRow, answers: list[RowAnswer]) -> None:
    from rich.table import Table
    from rich.text import Text

    from bystander.pages.pack_preview import name_packs

    meant = f" (meant: {row.primary_complete})" if row.primary_text != row.primary_complete else ""
    table = Table(
        title=Text(f"{row.scenario}, {row.timing.value}\nU: {row.primary_text}{meant}\nB: {row.third_party_text}"),
        title_justify="left",
        show_lines=True,
        expand=True,
    )
    table.add_column("")
    for name in name_packs(preview):
        table.add_column(name, overflow="fold", ratio=1)
    lines = [
        ("label", [f"{a.label} {a.label_score:.2f}" if a.label_score is not None else "–" for a in answers]),
        ("scores", ["\n".join(f"{score.key} {score.score:.2f}" for score in a.scores) or "–" for a in answers]),
        ("kind", [a.kind or "–" for a in answers]),
        ("reply", [_tell_reply(a) for a in answers]),
    ]
    for name, cells in lines:
        table.add_row(name, *(Text(cell) for cell in cells))
    console.print(table)


def _tell_reply(answer: RowAnswer) -> str:
    if answer.fault is not None:
        return (
            f"REJECTED at {answer.fault.stage}, {answer.fault.reason}: {answer.fault.detail or answer.fault.raw_output}"
        )
    tries = f" (after {answer.reply_attempts} tries)" if (answer.reply_attempts or 1) > 1 else ""
    return f"{answer.reply}{tries}"
