"""`bystander train show`: what was trained on what, how it went, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bystander.storage.training_manifest import TrainingManifest


def train_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a run, or its folder or URL.")],
    out: Annotated[str, typer.Option(help="Store: folder or URL that the run lies in.")] = "bystander-store",
    as_json: Annotated[bool, typer.Option("--json", help="Print its manifest as one JSON object.")] = False,
) -> None:
    """Show a training run: its data, settings, figures, and its losses over the steps; or an experiment's tables."""
    from bystander.cli.tables import open_console
    from bystander.storage.build_manifest import MANIFEST_NAME
    from bystander.storage.filesystem import open_store
    from bystander.storage.mixture_files import TABLES_NAME, is_mixtures, read_mixtures
    from bystander.storage.training_manifest import open_training, read_training
    from bystander.tasks.training.published_curves import draw_curves

    folder = open_store(name) if "/" in name else open_training(open_store(out), name)
    if folder.exists(MANIFEST_NAME) and is_mixtures(folder.read_bytes(MANIFEST_NAME)):
        mixtures = read_mixtures(folder)
        typer.echo(mixtures.model_dump_json(indent=2) if as_json else folder.read_bytes(TABLES_NAME).decode().rstrip())
        return
    manifest = read_training(folder)
    if as_json:
        typer.echo(manifest.model_dump_json(indent=2))
        return
    curves = draw_curves(folder.uri, manifest)
    console = open_console()
    for table in _make_tables(manifest):
        console.print(table, markup=False)
    for note in manifest.notes:
        console.print(f"- {note}", markup=False, highlight=False)
    console.print(f"\n{curves}", markup=False, highlight=False, end="")


def _make_tables(manifest: TrainingManifest) -> Iterator[Any]:
    base = manifest.base_model
    yield _make_table(
        f"{manifest.name}: {manifest.architecture} ({manifest.kind})",
        {
            "began with": f"{base.name}{f' at {base.revision}' if base.revision else ''}" if base else "random weights",
            **_flatten({key: value for key, value in manifest.config.items() if key not in ("name", "store")}),
            "content": manifest.content_digest[:12],
            "made by": f"bystander {manifest.code_version}",
        },
    )
    data = manifest.data
    rows = {s.address: f"{s.rows:,} rows ({s.rows_digest[:12]})" for s in data.sources}
    for name, part in data.parts.items():
        rows[name] = f"{part.rows:,} rows, {part.an_epoch:,} examples an epoch, {part.held_out:,} held out"
    rows |= {f"left out, {reason}": f"{count:,} rows" for reason, count in data.left_out.items()}
    yield _make_table(f"Data{f', mixture {data.mixture}' if data.mixture else ''}", rows)
    for phase in manifest.phases:
        figures = {
            "examples an epoch": f"{phase.examples:,}, and {phase.held_out:,} held out",
            "steps": f"{phase.steps:,}",
            "taken up again at step": ", ".join(map(str, phase.resumed_from)),
            "loss, first and last": _pair(phase.first_loss, phase.last_loss),
            "held-out loss, first and last": _pair(phase.first_held_out_loss, phase.last_held_out_loss),
            "lowest held-out loss": (
                "" if phase.best_held_out_loss is None else f"{phase.best_held_out_loss:.4f} at step {phase.best_step}"
            ),
        }
        yield _make_table(f"Phase {phase.phase}", {key: value for key, value in figures.items() if value})
    if manifest.figures:
        yield _make_table("Figures", _flatten(manifest.figures))


def _make_table(title: str, rows: Mapping[str, Any]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    for name, value in rows.items():
        table.add_row(name, str(value))
    return table


def _flatten(values: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Return the fields of nested mappings under dotted names, as `--set` takes them; items of lists are numbered."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, list) and any(isinstance(one, Mapping | list) for one in value):
            flat |= _flatten({str(number): one for number, one in enumerate(value)}, f"{above}{name}.")
        elif isinstance(value, Mapping) and value:
            flat |= _flatten(value, f"{above}{name}.")
        else:
            flat[f"{above}{name}"] = _show(value)
    return flat


def _show(value: Any) -> str:
    """Return a value of JSON as a person reads it; what is null or empty is a dash."""
    if isinstance(value, list | Mapping):
        return ", ".join(map(_show, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "-" if value is None else str(value)


def _pair(first: float | None, last: float | None) -> str:
    return "" if first is None or last is None else f"{first:.4f}, {last:.4f}"
