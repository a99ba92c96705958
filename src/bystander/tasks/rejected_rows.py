"""What a finished build refused, by row, request and recording: from its files of rejects, without their audio."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from bystander.schemas.errors import StorageError
from bystander.schemas.identity import make_id
from bystander.storage.build_manifest import ManifestBase
from bystander.storage.filesystem import Store
from bystander.storage.parquet_files import open_parquet
from bystander.tasks.stages.build_hard_negatives import NAME as BUILD_HARD_NEGATIVES
from bystander.tasks.stages.build_hard_negatives import name_hard_negative

_COLUMNS = ("id", "query_id", "query_text", "draw", "recording_id", "reject_stage", "reject_reason")
_QUERIES = "normalise_queries"
_REPEATED = "duplicate"
"""Reason of requests of which another copy went on."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Where a row was refused, and the code of the reason."""

    stage: str
    reason: str


@dataclass(slots=True)
class RejectedRows:
    """What a build refused. A row that several steps refused stands under the last of them."""

    rows: dict[str, Rejection] = field(default_factory=dict)
    """By the id of the row."""
    requests: dict[str, Rejection] = field(default_factory=dict)
    """By the text of the query, as it stands in the input; without copies of others."""
    recordings: dict[str, Rejection] = field(default_factory=dict)
    """By the id of the recording, of those that were refused whole."""
    query_ids: set[str] = field(default_factory=set)
    """The queries of refused rows."""
    recording_ids: set[str] = field(default_factory=set)
    """The recordings of refused turns."""


def read_rejected_rows(store: Store, manifest: ManifestBase) -> RejectedRows:
    """Read what a build refused.

    Raises:
        StorageError: a file of rejects cannot be read.
    """
    refused = RejectedRows()
    for info in manifest.rejects:
        try:
            with open_parquet(store, info.file, info.bytes) as file:
                columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
                for group in range(file.num_row_groups):
                    for row in _list_rows(file.read_row_group(group, columns=columns)):
                        _add(refused, row)
        except (pa.ArrowException, OSError, ValueError) as exc:
            reason = str(exc).splitlines()[0].rstrip(".")
            raise StorageError(f"{store.uri_of(info.file)}: cannot be read as Parquet ({reason})") from exc
    return refused


def _list_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches():
        yield from batch.to_pylist()


def _add(refused: RejectedRows, row: dict[str, Any]) -> None:
    rejection = Rejection(row["reject_stage"], row["reject_reason"])
    row_id, query_id, recording_id = row.get("id"), row.get("query_id"), row.get("recording_id")
    if rejection.stage == _QUERIES:
        if rejection.reason != _REPEATED and row.get("query_text") is not None:
            refused.requests[row["query_text"]] = rejection
        return
    if query_id is not None:
        refused.query_ids.add(query_id)
    if row_id is None and query_id is not None and row.get("draw") is not None:
        row_id = make_id("row", query_id, row["draw"])  # it was refused before it was given its id
    if row_id is None:
        if recording_id is not None:
            refused.recordings[recording_id] = rejection
        return
    if recording_id is not None:
        refused.recording_ids.add(recording_id)
    # What is refused there is the one-speaker row, before it has an id of its own.
    refused.rows[name_hard_negative(row_id) if rejection.stage == BUILD_HARD_NEGATIVES else row_id] = rejection
