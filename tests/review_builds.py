"""Small builds to review, in a store of their own, and clients of a review's server."""

from __future__ import annotations

from pathlib import Path

from starlette.testclient import TestClient

from bystander.server.access import make_access
from bystander.server.guard import OWN_HEADER
from bystander.server.local_server import build_app
from bystander.server.review_routes import make_review_routes
from bystander.server.review_session import ReviewSession
from bystander.storage.review_rows import ReviewBuild, find_reviews_folder
from final_rows import make_bench_rows, write_build
from sid_rows import make_sid_rows, write_sid_build

HEADERS = {OWN_HEADER: "1"}


def write_tpi(store: Path, **changes: object) -> Path:
    """Write `<store>/tpi-bench/demo`: six rows, the texts of the first laid over."""
    rows = make_bench_rows(4, 2, 1)
    rows[0] |= changes
    folder = store / "tpi-bench" / "demo"
    write_build(folder, rows, by_split=True, kind="tpi_bench", dataset="tpi-bench", build="demo")
    return folder


def write_sid(store: Path) -> Path:
    """Write `<store>/sid-bench/demo`: a row of each category, and of each language."""
    folder = store / "sid-bench" / "demo"
    write_sid_build(folder, make_sid_rows(1), build="demo")
    return folder


def open_session(folder: Path, heard: list[str] | None = None) -> ReviewSession:
    build = ReviewBuild(str(folder))
    return ReviewSession(
        build, find_reviews_folder(build), list(build.rows), (heard if heard is not None else []).append
    )


def make_client(session: ReviewSession, annotator: str | None = "ada", token: str | None = None) -> TestClient:
    """Return a client that has given its name."""
    app = build_app(make_review_routes(session), make_access(port=8000, token=token))
    client = TestClient(app, base_url="http://127.0.0.1:8000", headers=HEADERS)
    if annotator is not None and token is None:
        assert client.post("/api/annotator", json={"name": annotator}).status_code == 200
    return client
