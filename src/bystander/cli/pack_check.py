"""`bystander pack check`: every fault of a pack at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bystander.tasks.check_pack import PackReport


def check(
    pack: Annotated[
        str, typer.Argument(metavar="PACK", help="A folder, or the name of a built-in or installed pack (`pack list`).")
    ],
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    taxonomy: Annotated[
        str | None, typer.Option(help="YAML file of the scenarios to render for. Default: the built-in ones.")
    ] = None,
) -> None:
    """Report every fault of a pack at once, each with file and line; exit with 1 if there is an error."""
    from bystander.schemas.taxonomy import load_taxonomy
    from bystander.tasks.check_pack import check_pack

    report = check_pack(pack, load_taxonomy(taxonomy))
    failed = bool(report.errors) or (strict and bool(report.warnings))
    if as_json:
        typer.echo(json.dumps(_describe(report, not failed), indent=2, ensure_ascii=False))
    else:
        _print(pack, report)
    if failed:
        raise typer.Exit(1)


def _print(pack: str, report: PackReport) -> None:
    for fault in report.faults:
        typer.echo(f"{fault.level}: {fault}")
    if report.prompts:
        typer.echo("Longest prompts (characters, tokens as estimated, tokens that the reply may have by default):")
        width = max(map(len, report.prompts))
        for task, length in report.prompts.items():
            typer.echo(f"  {task:<{width}} {length.characters:>7,} {length.tokens:>7,} {length.reply_tokens:>5,}")
    if report.language.share is not None:
        typer.echo(f"{report.language.share:.0%} of the text of classes and templates is in the pack's language.")
    counts = [_count(len(report.errors), "error"), _count(len(report.warnings), "warning")]
    verdict = "sound" if not report.faults else " and ".join(counts)
    typer.echo(f"{pack}: {verdict}{f'; digest {report.digest[:12]}' if report.digest else ''}.")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _describe(report: PackReport, sound: bool) -> dict[str, object]:
    return {
        "pack": report.found.source,
        "origin": report.found.origin,
        "place": report.found.place,
        "name": report.name,
        "digest": report.digest,
        "passed": sound,
        "faults": [
            {"level": f.level, "file": f.file, "line": f.line, "field": f.field, "message": f.message}
            for f in report.faults
        ],
        "prompts": {
            task: {"characters": item.characters, "tokens": item.tokens, "reply_tokens": item.reply_tokens}
            for task, item in report.prompts.items()
        },
        "language_share": report.language.share,
    }
