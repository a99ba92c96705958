"""What is checked of every finished build, whatever its rows are: files, checksums, schema, counts, stages, rejects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from bystander.schemas.errors import StorageError
from bystander.schemas.identity import derive_seed
from bystander.storage.build_manifest import MANIFEST_NAME, FileInfo, ManifestBase, ShardInfo
from bystander.storage.filesystem import Store
from bystander.storage.parquet_files import open_parquet


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a build. `row` and `field` are empty where it concerns a whole file."""

    file: str
    problem: str
    row: str = ""
    field: str = ""

    def __str__(self) -> str:
        row = f"row {self.row}: " if self.row else ""
        field = f"{self.field} " if self.field else ""
        return f"{self.file}: {row}{field}{self.problem}."


def check_files(store: Store, manifest: ManifestBase) -> Iterator[Finding]:
    """Yield files that are missing, of another size or checksum, or not in the manifest."""
    candidates: FileInfo | None = getattr(manifest, "candidates", None)
    if not manifest.shards and candidates is None:
        yield Finding(MANIFEST_NAME, "lists no shards")
    listed = [*manifest.shards, *manifest.rejects, *([candidates] if candidates is not None else [])]
    for info in listed:
        if not store.exists(info.file):
            yield Finding(info.file, "is missing")
            continue
        size = store.size(info.file)
        if size != info.bytes:
            yield Finding(info.file, f"has {size} bytes, the manifest says {info.bytes}")
        elif (found := store.sha256(info.file)) != info.sha256:
            yield Finding(info.file, f"has checksum {found[:12]}…, the manifest says {info.sha256[:12]}…")
    known = {info.file for info in listed}
    for folder in ("data", "rejects"):
        for name in store.list(folder):
            if name not in known:
                yield Finding(name, "is not in the manifest")
    yield from _check_pages(store)


def _check_pages(store: Store) -> Iterator[Finding]:
    """Yield where the card or the report is missing or not whole; no checksum of them is kept."""
    for name in ("README.md", "report.html"):
        if not store.exists(name):
            yield Finding(name, "is missing")
            continue
        text = store.read_bytes(name).rstrip()
        if not text:
            yield Finding(name, "is empty")
        elif name.endswith(".html") and not text.endswith(b"</html>"):
            yield Finding(name, "breaks off before its end, </html>")


def read_batches(store: Store, info: FileInfo, schema: pa.Schema | None) -> Iterator[pa.RecordBatch | Finding]:
    """Yield a file's row groups; a finding, and no more, where it cannot be read or has other columns.

    Nullable columns that came after the file was written are full of nulls.
    """
    try:
        with open_parquet(store, info.file, info.bytes) as parquet:
            found = parquet.schema_arrow
            if schema is not None:
                actual = {column.name: column.type for column in found}
                expected = {c.name: c.type for c in schema if not c.nullable or c.name in actual}
                odd = [n for n in (*expected, *actual) if expected.get(n) != actual.get(n)]
                if odd:
                    names = ", ".join(dict.fromkeys(odd))
                    yield Finding(info.file, f"has a schema that differs in {names}")
                    return
            for index in range(parquet.num_row_groups):
                for batch in parquet.read_row_group(index).to_batches():
                    yield batch if schema is None else fill_absent(batch, schema)
    except StorageError:
        return  # `check_files` has said so
    except (pa.ArrowException, OSError, ValueError) as exc:
        yield Finding(info.file, f"cannot be read as Parquet ({str(exc).splitlines()[0].rstrip('.')})")


def fill_absent(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with the columns of `schema` in its order, those that they lack being null."""
    columns = [
        batch.column(column.name) if column.name in batch.schema.names else pa.nulls(batch.num_rows, column.type)
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema.names)


def read_rows(
    store: Store, manifest: ManifestBase, schema: pa.Schema, count: Callable[[pa.RecordBatch], None]
) -> Iterator[tuple[dict[str, Any], ShardInfo] | Finding]:
    """Yield every row of every shard and what is wrong with shards; `count` is told of each row group."""
    for shard in manifest.shards:
        rows = 0
        for batch in read_batches(store, shard, schema):
            if isinstance(batch, Finding):
                yield batch
                continue
            rows += batch.num_rows
            count(batch)
            for row in batch.to_pylist():
                yield row, shard
        if rows != shard.rows:
            yield Finding(shard.file, f"has {rows} readable rows, the manifest says {shard.rows}")


def compare_counts(stated: BaseModel, found: BaseModel) -> Iterator[Finding]:
    """Yield where the counts of a manifest are not those of its shards."""
    for name in type(stated).model_fields:
        said, is_now = getattr(stated, name), getattr(found, name)
        if isinstance(said, dict):
            for key in sorted({*said, *is_now}):
                if said.get(key) != is_now.get(key):
                    problem = f"says {said.get(key, 0)} for {key}, the shards have {is_now.get(key, 0)}"
                    yield Finding(MANIFEST_NAME, problem, field=f"counts.{name}")
        elif abs(said - is_now) > 0.01:
            yield Finding(MANIFEST_NAME, f"says {said}, the shards have {is_now}", field=f"counts.{name}")


def check_stages(manifest: ManifestBase) -> Iterator[Finding]:
    """Yield stages that lost or doubled a row."""
    for stage in manifest.stages:
        if stage.kept + stage.rejected != stage.rows_in:
            problem = f"{stage.rows_in} rows in, but {stage.kept} kept and {stage.rejected} rejected"
            yield Finding(MANIFEST_NAME, problem, field=f"stage {stage.stage}:")


def check_rejects(store: Store, manifest: ManifestBase) -> Iterator[Finding]:
    """Yield where the files of rejects do not hold what the stages are said to have rejected."""
    if manifest.rejects_left_out:
        return
    found: Counter[tuple[str, str]] = Counter()
    for info in manifest.rejects:
        rows = 0
        for batch in read_batches(store, info, None):
            if isinstance(batch, Finding):
                yield batch
                continue
            rows += batch.num_rows
            if not {"reject_stage", "reject_reason"} <= set(batch.schema.names):
                yield Finding(info.file, "lacks the columns reject_stage and reject_reason")
                break
            cells = (batch.column(name).to_pylist() for name in ("reject_stage", "reject_reason"))
            found.update(zip(*cells, strict=True))
        if rows != info.rows:
            yield Finding(info.file, f"has {rows} readable rows, the manifest says {info.rows}")
    stated = Counter(
        {(stage.stage, reason): count for stage in manifest.stages for reason, count in stage.reasons.items()}
    )
    for stage, reason in sorted({*found, *stated}):
        said, is_now = stated[stage, reason], found[stage, reason]
        if said != is_now:
            problem = f"says {said} rejected as {reason}, the rejects have {is_now}"
            yield Finding(MANIFEST_NAME, problem, field=f"stage {stage}:")


def draws_clip(share: float, seed: int, row_id: str | None) -> bool:
    """Whether a check that decodes a `share` of the clips, drawn by `seed`, decodes this row's."""
    if share >= 1 or row_id is None:
        return True
    return derive_seed(seed, row_id, "verify_build") < share * 2**63
