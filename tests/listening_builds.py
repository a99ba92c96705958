"""A build with rows and rejects of all sorts to listen to: refused before speech, failed in speech, left over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from bystander.server.access import make_access
from bystander.server.listening_index import ListeningIndex
from bystander.server.listening_routes import make_listening_routes
from bystander.server.local_server import build_app
from bystander.storage.placed_rows import PlacedRows
from bystander.tasks import environment
from bystander.tasks.engines import fake_speech
from bystander.tasks.reject_sounds import RejectSounds
from direct_builds import build_directly
from tpi_builds import BAD_QUERIES, Built, make_config, write_queries


def build_with_rejects(store: Path, patch: pytest.MonkeyPatch) -> Built:
    """Make a build of 12 rows whose speech fails now and then, and is not tried again."""
    original = fake_speech.FakeSpeechEngine.__init__
    flaw = fake_speech.flaw_by_seed(fake_speech.SpeechFlaw.GIBBERISH, 5)

    def stammer(self: Any, *arguments: Any, **settings: Any) -> None:
        original(self, *arguments, **{**settings, "flaw_of": flaw})

    patch.setattr(fake_speech.FakeSpeechEngine, "__init__", stammer)
    patch.setattr(environment, "_INSTANT", frozenset())  # calls are remembered, as those of a real engine are
    queries = write_queries(store.parent / "queries.jsonl", extra=tuple(BAD_QUERIES))
    return build_directly(make_config(store, queries, 12, stages__synthesise_speech__max_attempts=1))


def open_index(folder: Path) -> ListeningIndex:
    rows = PlacedRows(str(folder))
    return ListeningIndex(rows, RejectSounds(rows.store, rows.manifest).find)


def make_listener(index: ListeningIndex, token: str | None = None) -> TestClient:
    app = build_app(make_listening_routes(index), make_access(port=8000, token=token))
    return TestClient(app, base_url="http://127.0.0.1:8000")
