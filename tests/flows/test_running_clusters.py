"""Builds on clusters that were started by others."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from tpi_builds import build, make_config, write_queries

pytestmark = [pytest.mark.usefixtures("prefect_server"), pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE_S = 240
FIELDS = {"stages__draw_scenarios__scenarios": ["endorsement", "alignment"], "report_rows": 0, "build": "same"}


@contextmanager
def running(log: Path, *command: str) -> Iterator[None]:
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    with log.open("wb") as sink:
        process = subprocess.Popen([sys.executable, *command], stdout=sink, stderr=sink, env=environment)
        try:
            yield
        finally:
            below = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            process.wait(60)
            for one in psutil.wait_procs(below, timeout=60)[1]:
                one.kill()


def wait_for(port: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.5)


@pytest.mark.parametrize("kind", ["ray", "dask"])
def test_build_on_a_running_cluster_leaves_it_running(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # before Ray is imported, which reads it once
    pytest.importorskip(f"prefect_{kind}")
    queries = write_queries(tmp_path / "q.jsonl", 10)
    expected = build(make_config(tmp_path / "threads", queries, rows=4, **FIELDS))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with ExitStack() as stack:
        if kind == "ray":
            head = ["--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=1", "--block"]
            memory = ["--include-dashboard=false", "--object-store-memory=100000000"]
            stack.enter_context(running(tmp_path / "ray.log", "-m", "ray.scripts.scripts", "start", *head, *memory))
            address = f"127.0.0.1:{port}"
        else:
            address = f"tcp://127.0.0.1:{port}"
            where = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
            stack.enter_context(running(tmp_path / "scheduler.log", "-m", "distributed.cli.dask_scheduler", *where))
            wait_for(port)
            worker = [address, "--nworkers", "1", "--nthreads", "2", "--no-dashboard"]
            stack.enter_context(running(tmp_path / "worker.log", "-m", "distributed.cli.dask_worker", *worker))
        wait_for(port)
        runner = {"runner": kind, "address": address, "autoscales": True}
        for name in ("first", "second"):
            built = build(make_config(tmp_path / name, queries, rows=4, runner=runner, **FIELDS))
            assert built.checksums == expected.checksums
