"""`candidates.jsonl`: pairs of turns that passed all checks, but of which there is no audio."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from bystander.storage.build_manifest import FileInfo
from bystander.storage.filesystem import Store

CANDIDATES_NAME = "candidates.jsonl"
FIELDS = (
    "id",
    "corpus",
    "recording",
    "place",
    "licence",
    "primary_speaker",
    "third_party_speaker",
    "primary_start_s",
    "primary_end_s",
    "third_party_start_s",
    "third_party_end_s",
    "primary_text",
    "third_party_text",
    "primary_source_text",
    "third_party_source_text",
    "query_score",
    "answerable_score",
    "interruption_score",
    "label",
    "kind",
    "reply",
)


def write_candidates(store: Store, rows: Iterable[Mapping[str, Any]]) -> FileInfo | None:
    """Write candidates, one a line, and return what the manifest says of the file; None where there are none."""
    lines = [json.dumps({name: row[name] for name in FIELDS}, ensure_ascii=False) + "\n" for row in rows]
    if not lines:
        store.remove(CANDIDATES_NAME)
        return None
    data = "".join(lines).encode()
    store.write_bytes(CANDIDATES_NAME, data)
    return FileInfo(file=CANDIDATES_NAME, rows=len(lines), bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
