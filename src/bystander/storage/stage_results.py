"""What a stage made of a partition, kept under a fingerprint so that it is made once.

`stages/<stage>/<fingerprint>/` holds `kept.parquet` (a layer), `rejected.parquet` (positions and reasons) and, written
last, `result.json`. `stages/<stage>/inputs/<digest>.json` remembers which fingerprint a whole input led to, so that an
unchanged rebuild reads no data at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from bystander.schemas.errors import StorageError
from bystander.schemas.stages import REJECT_FIELDS, StageOutput
from bystander.storage.filesystem import Store
from bystander.storage.parts import AT, Partition, PartRef, make_layer, read_part, read_partition, write_part
from bystander.storage.recent_parts import RecentParts

STAGES_FOLDER = "cache/stages"


@dataclass(frozen=True, slots=True)
class StageResult:
    """One stage over one partition: layers by reference, and counts. `rows_in` = kept + rejected, always."""

    stage: str
    fingerprint: str
    rows_in: int
    kept: PartRef
    rejected: PartRef
    reasons: dict[str, int]
    reused: bool = field(default=False, compare=False)
    """Whether it was found, not made, by the call that returned it. Not stored."""

    @property
    def rows_kept(self) -> int:
        return self.kept.rows

    @property
    def rows_rejected(self) -> int:
        return self.rejected.rows


def find_result(store: Store, stage: str, fingerprint: str) -> StageResult | None:
    """Return a stored result whose parts are there in full size, or None."""
    path = _result_path(store, stage, fingerprint)
    data = _read_json(store, path)
    if data is None:
        return None
    try:
        kept, rejected = PartRef(**data.pop("kept")), PartRef(**data.pop("rejected"))
        result = StageResult(**data, kept=kept, rejected=rejected, reused=True)
        whole = _holds_all(store, path.rpartition("/")[0], (result.kept, result.rejected))
    except (TypeError, KeyError, AttributeError):
        return None
    return result if whole else None


def find_result_of_input(store: Store, stage: str, input_digest: str) -> StageResult | None:
    """Return the result that an identical input led to, without reading the input."""
    fingerprint = read_input(store, _input_path(store, stage, input_digest))
    return find_result(store, stage, fingerprint) if fingerprint is not None else None


def read_input(store: Store, path: str) -> str | None:
    """Return the fingerprint that a note of `remember_input` names, or None if it is missing or damaged."""
    fingerprint = (_read_json(store, path) or {}).get("fingerprint")
    return fingerprint if isinstance(fingerprint, str) else None


def remember_input(store: Store, stage: str, input_digest: str, fingerprint: str) -> None:
    """Note which fingerprint an input led to."""
    store.write_bytes(
        _input_path(store, stage, input_digest), json.dumps({"fingerprint": fingerprint}).encode(), durable=False
    )


def write_result(
    store: Store,
    stage: str,
    fingerprint: str,
    rows: pa.Table,
    output: StageOutput,
    columns: Sequence[str],
    recent: RecentParts | None = None,
) -> StageResult:
    """Store what a stage made of `rows`: parts first, `result.json` last.

    `columns` are all that the rows have after the stage, those included that it was not handed. `recent` is handed the
    part of the rows that were kept, for the stage that follows.
    """
    folder = store.path(STAGES_FOLDER, stage, fingerprint)
    kept = write_part(store, f"{folder}/kept.parquet", make_layer(rows, output.kept, output.kept_at, columns), recent)
    reasons = output.rejected["reject_reason"].to_pylist()
    rejects = pa.table(
        [pa.array(output.rejected_at, pa.int32()), *(output.rejected[column.name] for column in REJECT_FIELDS)],
        schema=pa.schema([pa.field(AT, pa.int32(), nullable=False), *REJECT_FIELDS]),
    )
    rejected = write_part(store, f"{folder}/rejected.parquet", rejects)
    result = StageResult(
        stage=stage,
        fingerprint=fingerprint,
        rows_in=len(rows),
        kept=kept,
        rejected=rejected,
        reasons={reason: reasons.count(reason) for reason in sorted(set(reasons))},
    )
    stored = {name: value for name, value in asdict(result).items() if name != "reused"}
    data = json.dumps(stored, sort_keys=True).encode()
    store.write_bytes(_result_path(store, stage, fingerprint), data, durable=False)
    return result


def read_rejects(store: Store, before: Partition, result: StageResult) -> pa.Table:
    """Return the rows that a stage rejected: its input columns and `REJECT_FIELDS`."""
    rejects = read_part(store, result.rejected)
    rows = read_partition(store, before).take(rejects[AT])
    for column in REJECT_FIELDS:
        rows = rows.append_column(column, rejects[column.name])
    return rows


def discard_result_of_part(store: Store, part_path: str) -> None:
    """Forget the result that a corrupt part belongs to, so that it is made again."""
    folder = part_path.rpartition("/")[0]
    if folder.startswith(STAGES_FOLDER):
        store.remove(f"{folder}/result.json")
    store.remove(part_path)


def _holds_all(store: Store, folder: str, refs: Sequence[PartRef]) -> bool:
    if store.is_local:
        return all(store.holds(ref.path, ref.bytes) for ref in refs)
    sizes = store.list_sizes(folder)  # one request
    return all(sizes.get(ref.path) == ref.bytes for ref in refs)


def _result_path(store: Store, stage: str, fingerprint: str) -> str:
    return store.path(STAGES_FOLDER, stage, fingerprint, "result.json")


def _input_path(store: Store, stage: str, input_digest: str) -> str:
    return store.path(STAGES_FOLDER, stage, "inputs", f"{input_digest}.json")


def _read_json(store: Store, path: str) -> dict[str, Any] | None:
    try:
        data = json.loads(store.read_bytes(path))
    except (StorageError, ValueError):
        return None
    return data if isinstance(data, dict) else None
