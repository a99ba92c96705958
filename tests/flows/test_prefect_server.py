"""A build with a Prefect server of the user's own, and what the next run clears up on it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tpi_builds import write_queries

PATIENCE_S = 120


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of the API of a real server."""
    port = find_free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui"],
        env={**os.environ, "PREFECT_HOME": str(tmp_path / "home")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}/api"
    try:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                if httpx.get(f"{url}/health", trust_env=False).status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait()


def build(folder: Path, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    queries = write_queries(folder / "queries.jsonl", 10)
    command = [sys.executable, "-m", "bystander.cli.main", "build", "tpi-train", "--profile", "fake"]
    command += ["--queries", str(queries), "--out", str(folder / "store"), "--rows", "4", "--hard-negatives", "0"]
    command += ["--set", "stages.draw_scenarios.scenarios=[endorsement, alignment]", "--name", "small", *options]
    environment = {**os.environ, "PREFECT_API_URL": url}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def ask(url: str, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.post(f"{url}/{kind}/filter", json={}, trust_env=False).json()
    return found


@pytest.mark.slow
def test_build_is_seen_on_the_users_server(tmp_path: Path, server: str) -> None:
    done = build(tmp_path, server)
    assert (done.returncode, done.stderr) == (0, "")
    (run,) = ask(server, "flow_runs")
    assert run["state_name"] == "Completed"
    keys = {artifact["key"] for artifact in ask(server, "artifacts")}
    assert keys == {f"tpi-train-{name}" for name in ("progress", "funnel", "rejects", "summary")}
    until = time.monotonic() + 30  # records of task runs arrive in batches
    while len(tasks := ask(server, "task_runs")) < 12 and time.monotonic() < until:
        time.sleep(0.5)
    # One for each stage and its only partition: the queries', and the eleven of two-speaker rows.
    assert len({task["name"] for task in tasks}) == len(tasks) == 12
    assert {task["state_name"] for task in tasks} == {"Completed"}


def test_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{find_free_port()}/api"
    done = build(tmp_path, url)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: Prefect server {url}: cannot be reached (ConnectError); start it, or unset ")
    assert done.stderr.count("\n") == 1
