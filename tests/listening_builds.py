"""A small build to listen to, with rejects that have sound and rejects that have none, and clients of its page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
from starlette.testclient import TestClient

from bystander.schemas.stages import REJECT_FIELDS
from bystander.schemas.tpi import FINAL, TRACK
from bystander.server.access import make_access
from bystander.server.listening_index import ListeningIndex
from bystander.server.listening_routes import make_listening_routes
from bystander.server.local_server import build_app
from bystander.storage.build_manifest import BuildManifest, read_manifest, write_manifest
from bystander.storage.filesystem import open_store
from bystander.storage.placed_rows import PlacedRows
from bystander.storage.shards import write_table
from bystander.tasks.reject_sounds import RejectSounds
from final_rows import make_row, make_rows, write_build
from html_pages import Page
from tpi_rows import make_pair, make_tone

PAIRS = 30
SILENT = 3
"""Rejects of `write_build`, all refused before they were spoken."""
HEARD = 2
"""Rejects with tracks."""

_SCHEMA = pa.schema(
    [column for column in FINAL if column.name not in ("audio", "segments", "duration_s")]
    + [pa.field("tracks", pa.list_(TRACK)), *REJECT_FIELDS]
)


def make_reject(index: int, reason: str = "voices_too_alike", **cells: Any) -> dict[str, Any]:
    """A row that was refused before it was mixed: it has tracks, a second long and half of one, and no clip."""
    row = {name: value for name, value in make_row(index).items() if name not in ("audio", "segments", "duration_s")}
    tracks = make_pair(make_tone(1.0), make_tone(0.5, hertz=300.0))
    refusal = {"reject_stage": "verify_speakers", "reject_reason": reason, "reject_detail": "similarity 0.9"}
    return {**row, "id": f"refused-{index:04d}", "tracks": tracks, **refusal, **cells}


def write_heard(folder: Path, pairs: int = PAIRS, **cells: Any) -> Path:
    """Write a build of `pairs` rows, 3 silent rejects and 2 with tracks; `cells` are laid over the first of those."""
    store = write_build(folder, make_rows(pairs, 0), dataset="tpi-train", build=folder.name)
    rejects = [make_reject(90, **cells), make_reject(91, "too_noisy")]
    table = pa.Table.from_pylist(rejects, schema=_SCHEMA)
    info = write_table(store, "rejects/verify_speakers.parquet", table.schema, [table])
    manifest = read_manifest(store)
    write_manifest(store, manifest.model_copy(update={"rejects": (*manifest.rejects, info)}))
    return folder


def read_heard(folder: Path) -> BuildManifest:
    return read_manifest(open_store(folder))


def open_index(folder: Path | str) -> ListeningIndex:
    rows = PlacedRows(str(folder))
    return ListeningIndex(rows, RejectSounds(rows.store, rows.manifest).find)


def make_client(index: ListeningIndex, token: str | None = None) -> TestClient:
    app = build_app(make_listening_routes(index), make_access(port=8000, token=token))
    return TestClient(app, base_url="http://127.0.0.1:8000")


def list_shown(page: str) -> list[str]:
    """Return the positions and states of the articles on a page, as `kept-<position + 1>`."""
    return [article["id"] for article in Page(body_of(page)).find("article")]


def body_of(page: str) -> str:
    """Return the inner part of a page: a declaration is not one that `Page` reads."""
    found = re.search(r"<body>.*</body>", page, re.DOTALL)
    assert found
    return found[0]
