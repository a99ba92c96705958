"""`bystander verify`: is a finished build, or a training run, what its manifest says?"""

from __future__ import annotations

from typing import Annotated

import typer

MOST_SHOWN = 50


def verify(
    build: Annotated[
        str, typer.Argument(help="Folder or fsspec URL of a build, or of a training run: STORE/trained/NAME.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Decode a sample of the clips instead of all.")] = False,
    seed: Annotated[int, typer.Option(help="Chooses the clips of a quick check.")] = 0,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Another build, with which it must share no query, text or pair of voices, and no voice where one of "
            "the two promises that; of SID builds, no recording, noise or text with new intent. May be repeated. Those "
            "in its manifest are held against it in any case."
        ),
    ] = None,
) -> None:
    """Check a build's checksums, schema, rows, counts, quotas and disjointness; exit with 2 if anything is wrong.

    Of a training run, its files are checked.
    """
    from bystander.storage.releases import open_build
    from bystander.tasks.check_build import check_build

    checked = check_build(open_build(build), quick, seed, against or ())
    findings = checked.findings
    for finding in findings[:MOST_SHOWN]:
        typer.echo(str(finding))
    if len(findings) > MOST_SHOWN:
        typer.echo(f"… and {len(findings) - MOST_SHOWN} more.")
    for notice in checked.notices:
        typer.echo(f"note: {notice}")
    if findings:
        typer.echo(f"{build}: {len(findings)} finding{'s' if len(findings) > 1 else ''}.", err=True)
        raise typer.Exit(2)
    typer.echo(f"{build}: sound.")
