"""The pass over the rows of builds whose rows hang on no other: each by itself, ids once, some clips decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.storage.build_checks import Finding, draws_clip, read_rows
from bystander.storage.build_manifest import ManifestBase
from bystander.storage.filesystem import Store
from bystander.storage.row_invariants import Fault, check_audio


@dataclass(frozen=True, slots=True)
class RowPass:
    """How the rows of a kind of build are checked.

    Attributes:
        schema: of a row.
        count: is told of each row group.
        check: yields what is wrong with a row, given the split that its shard stands for.
        unique: columns of which no value may stand twice in a build.
    """

    schema: pa.Schema
    count: Callable[[pa.RecordBatch], None]
    check: Callable[[Mapping[str, Any], str], Iterable[Fault]]
    unique: Sequence[str]


def check_rows(store: Store, manifest: ManifestBase, how: RowPass, share: float, seed: int) -> Iterator[Finding]:
    """Yield what is wrong with rows and shards, a row group in memory at a time; a `share` of the clips is decoded."""
    seen: dict[tuple[str, str], str] = {}
    for found in read_rows(store, manifest, how.schema, how.count):
        if isinstance(found, Finding):
            yield found
            continue
        row, shard = found
        faults = [*how.check(row, shard.split)]
        for name in how.unique:
            key = (name, str(row[name]))
            if row[name] is not None and key in seen:
                faults.append((name, f"occurs in {seen[key]} too"))
            seen.setdefault(key, shard.file)
        if row["sampling_rate"] and row["duration_s"] is not None and draws_clip(share, seed, row["id"]):
            faults += check_audio(row)
        for field, problem in faults:
            yield Finding(shard.file, problem, row["id"] or "without id", field)
