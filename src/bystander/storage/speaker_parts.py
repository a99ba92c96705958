"""What became of single speakers, kept in a bank's folder while it is being made: a speaker that is done stays done."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bystander.schemas.arrays import build_array
from bystander.schemas.errors import StorageError
from bystander.schemas.voice_bank import BANK_VOICE
from bystander.storage.filesystem import Store

WORK_FOLDER = "work"
SPEAKERS_FOLDER = f"{WORK_FOLDER}/speakers"
_KEY = b"bystander.speaker"


def locate_part(key: str) -> str:
    """Return the path of a speaker's part in the bank."""
    return f"{SPEAKERS_FOLDER}/{key[:2]}/{key[:32]}.parquet"


def write_speaker_part(store: Store, key: str, row: Mapping[str, Any] | None, facts: Mapping[str, Any]) -> None:
    """Keep a speaker's voice, if there is one, and JSON-ready facts, in one file that is whole or not there.

    It is not flushed to the disk: a reader notices a damaged one, and the speaker is done again.
    """
    table = make_voice_table([] if row is None else [row])
    buffer = io.BytesIO()
    pq.write_table(
        table.replace_schema_metadata({_KEY: json.dumps(facts).encode()}),
        buffer,
        compression="NONE",
        write_page_checksum=True,
    )
    store.write_bytes(locate_part(key), buffer.getvalue(), durable=False)


def read_speaker_part(store: Store, key: str) -> tuple[pa.Table, dict[str, Any]] | None:
    """Return a speaker's voice as a `BANK_VOICE` table of one row or none, and the facts; None without a part."""
    path = locate_part(key)
    if not store.exists(path):
        return None
    try:
        with pq.ParquetFile(io.BytesIO(store.read_bytes(path)), page_checksum_verification=True) as file:
            table = file.read(use_threads=False)
        return table.replace_schema_metadata(None).cast(BANK_VOICE), json.loads(table.schema.metadata[_KEY])
    except (StorageError, pa.ArrowException, OSError, ValueError, KeyError, TypeError):
        return None  # damaged: it is made again


def make_voice_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows of a bank as a table."""
    columns = [build_array([row[column.name] for row in rows], column.type) for column in BANK_VOICE]
    return pa.Table.from_arrays(columns, schema=BANK_VOICE)
