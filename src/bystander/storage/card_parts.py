"""What the dataset cards of all builds share: the head's layout, tables in Markdown, the templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bystander.storage.build_manifest import ManifestBase
from bystander.storage.hf_features import describe_card_features

if TYPE_CHECKING:
    from jinja2 import Template

CARD_NAME = "README.md"

_SIZE_BOUNDS = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def describe_layout(manifest: ManifestBase, rows_by_split: Mapping[str, int], schema: pa.Schema) -> dict[str, Any]:
    """Return the part of a card's YAML head that says where the rows lie and what they hold."""
    bytes_by_split = {s: sum(shard.bytes for shard in manifest.shards if shard.split == s) for s in rows_by_split}
    rows = sum(rows_by_split.values())
    return {
        "size_categories": [next((name for bound, name in _SIZE_BOUNDS if rows < bound), "1M<n<10M")],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": f"data/{split}-*-of-*.parquet"} for split in rows_by_split],
            }
        ],
        "dataset_info": {
            "features": describe_card_features(schema, manifest.sampling_rate or None),
            "splits": [
                {"name": split, "num_bytes": bytes_by_split[split], "num_examples": rows_by_split[split]}
                for split in rows_by_split
            ],
            "download_size": sum(bytes_by_split.values()),
            "dataset_size": sum(bytes_by_split.values()),
        },
    }


def describe_tables(manifest: ManifestBase, schema: pa.Schema, notes: Mapping[str, str]) -> dict[str, str]:
    """Return the tables of stages, engines, models and columns; `notes` say what each column means."""
    return {
        "stage_table": render_table(
            ("Stage", "In", "Kept", "Rejected", "Reasons"),
            (
                (s.stage, s.rows_in, s.kept, s.rejected, ", ".join(f"{r} {n}" for r, n in sorted(s.reasons.items())))
                for s in manifest.stages
            ),
        ),
        "engine_table": render_table(
            ("Role", "Engine", "Model", "Revision"),
            ((role, e.name, e.model, e.revision[:12]) for role, e in manifest.engines.items()),
        ),
        "model_table": render_table(
            ("Model", "Licence", "Bytes", "SHA-256", "Sources"),
            ((m.name, m.licence, m.bytes, f"`{m.sha256[:12]}…`", ", ".join(m.sources)) for m in manifest.models),
        ),
        "column_table": render_table(
            ("Column", "Type", "Meaning"),
            ((f"`{c.name}`", _name_type(c.type), notes.get(c.name, "")) for c in schema),
        ),
    }


def describe_hours(seconds: float) -> str:
    """Return a duration in hours or minutes."""
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"


def render_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""

    def render_line(cells: Iterable[object]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return "\n".join([render_line(head), "|" + " --- |" * len(head), *map(render_line, rows)])


def _name_type(kind: pa.DataType) -> str:
    described: Mapping[str, Any] = describe_card_features(pa.schema([("x", kind)]), None)[0]
    if "list" in described:
        return "list"
    return str(described.get("dtype", "struct"))


@cache
def load_card_template(name: str) -> Template:
    """Return a template of this package's cards."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bystander.storage"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template(name)
