"""`bystander diff`: which rows of two builds differ, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from bystander.schemas.build_differences import BuildDifferences, ComparedBuild

_MOST_CHANGES = 12
"""Changes of one section of the manifests that are listed."""
_TOO_FINE = ("by_label_and_scenario", "by_language_and_category")
_CHANGES_IN_WORDS = {
    "removed": "removed",
    "added": "added",
    "changed": "changed",
    "provenance": "only provenance",
}


def diff(
    first: Annotated[str, typer.Argument(metavar="BUILD_A", help="A finished build's folder or fsspec URL.")],
    second: Annotated[str, typer.Argument(metavar="BUILD_B", help="The build that it is held against.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as one JSON object.")] = False,
    rows: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write each row that differs to this .parquet or .csv, with its cause."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows to list.")] = 10,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if any row differs, as diff does.")
    ] = False,
) -> None:
    """List the rows that were removed, added and changed from one build to another, by cause.

    Rows are matched by their id. A row that changed is put down to the first stage that gave it another value, and to
    what of that stage's settings, prompts, engines or version differs between the two manifests. A row that only one
    build has is looked for among what the other rejected, left out or never began.
    """
    from bystander.storage.difference_table import check_table_name, write_difference_table
    from bystander.tasks.compare_builds import compare_builds

    if rows is not None:
        check_table_name(rows)
    found = compare_builds(first, second)
    if rows is not None:
        write_difference_table(rows, found.rows)
    if as_json:
        import json

        typer.echo(json.dumps(_as_json(found, limit), indent=2, ensure_ascii=False))
    else:
        from rich.console import Console

        _print(found, limit, Console(soft_wrap=True, highlight=False))
        if rows is not None:
            typer.echo(f"{rows}: {len(found.rows):,} rows written.")
    if exit_code and not found.identical:
        raise typer.Exit(1)


def _print(found: BuildDifferences, limit: int, console: Console) -> None:
    for name, build in (("first", found.before), ("second", found.after)):
        console.print(f"{name + ':':8}{build.uri} ({build.kind}, {build.rows} rows)", markup=False)
    counts = ", ".join(
        f"{found.count(change)} {words}"  # type: ignore[arg-type]
        for change, words in _CHANGES_IN_WORDS.items()
    )
    console.print(f"Rows: {found.same} the same, {counts}.", markup=False)
    for build in (found.before, found.after):
        if not build.has_fingerprints:
            console.print(
                f"{build.build} was made before manifests had fingerprints: which setting of a stage changed is not "
                "known.",
                markup=False,
            )
    for names, build in ((found.only_before, found.after), (found.only_after, found.before)):
        if names:
            console.print(f"Not compared, since {build.build} does not have them: {', '.join(names)}.", markup=False)
    _print_causes(found, console)
    if found.unexplained:
        console.print(
            f"Unexplained: {found.unexplained} rows changed though nothing that decides them did. The engines named "
            "are not deterministic, or depend on the versions of packages that differ; such a row cannot be made again."
        )
    audio = found.audio
    if audio.samples or audio.encoding_only:
        console.print(
            f"Audio: {audio.samples} clips sound otherwise, {audio.duration} of them have another duration; "
            f"{audio.encoding_only} are stored otherwise and decode to the same samples."
        )
    _print_rows(found, limit, console)
    _print_manifests(found, console)


def _print_causes(found: BuildDifferences, console: Console) -> None:
    if not found.rows:
        return
    table = _make_table("", ["rows", "change", "cause", "for instance"])
    table.columns[0].justify = "right"
    for change, causes, rows in found.group():
        why = "\n".join(cause.sentence for cause in causes) or ", ".join(rows[0].columns)
        table.add_row(f"{len(rows):,}", _CHANGES_IN_WORDS[change], why, rows[0].id)
    console.print(table, markup=False)


def _print_rows(found: BuildDifferences, limit: int, console: Console) -> None:
    if not found.rows or not limit:
        return
    table = _make_table("Rows", ["id", "change", "stage", "columns"])
    for row in found.rows[:limit]:
        stage = row.causes[0].stage if row.causes else ""
        table.add_row(row.id, _CHANGES_IN_WORDS[row.change], stage, ", ".join(row.columns))
    console.print(table, markup=False)
    if len(found.rows) > limit:
        console.print(f"… and {len(found.rows) - limit:,} more; --rows FILE writes all.", markup=False)


def _print_manifests(found: BuildDifferences, console: Console) -> None:
    if not found.manifest:
        console.print("Manifests: nothing that decides the rows differs.")
        return
    table = _make_table("Manifests", ["section", "field", found.before.build, found.after.build])
    for section, changes in found.manifest.items():
        shown = [change for change in changes if not change.field.startswith(_TOO_FINE)][:_MOST_CHANGES]
        for change in shown:
            table.add_row(section, change.field, change.before, change.after)
        if len(changes) > len(shown):
            table.add_row(section, f"… and {len(changes) - len(shown)} more; see --json", "", "")
    console.print(table, markup=False)


def _make_table(title: str, columns: list[str]) -> Any:
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _as_json(found: BuildDifferences, limit: int) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "first": _describe(found.before),
        "second": _describe(found.after),
        "identical": found.identical,
        "rows": {
            "same": found.same,
            "removed": found.count("removed"),
            "added": found.count("added"),
            "changed": found.count("changed"),
            "provenance": found.count("provenance"),
        },
        "causes": [
            {
                "change": change,
                "rows": len(rows),
                "causes": [asdict(cause) for cause in causes],
                "columns": sorted({name for row in rows for name in row.columns}),
                "examples": [row.id for row in rows[:5]],
            }
            for change, causes, rows in found.group()
        ],
        "unexplained": found.unexplained,
        "audio": asdict(found.audio),
        "columns_only_in_first": list(found.only_before),
        "columns_only_in_second": list(found.only_after),
        "shards_not_read": found.shards_not_read,
        "manifest": {section: [asdict(change) for change in changes] for section, changes in found.manifest.items()},
        "listed": [asdict(row) for row in found.rows[:limit]],
    }


def _describe(build: ComparedBuild) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(build)
