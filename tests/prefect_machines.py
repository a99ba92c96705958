"""A Prefect server, workers and the `prefect` command, as a data engineer has them: real processes on free ports."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

_T = TypeVar("_T")
_ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class PrefectMachines:
    """A server with its own home and database, and workers. Everything that was started is stopped by `close`."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        port = find_free_port()
        self.api = f"http://127.0.0.1:{port}/api"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        home = {"PREFECT_HOME": str(folder / "home"), **environment}
        self.environment = {**os.environ, **home, "PREFECT_API_URL": self.api}
        server = {name: value for name, value in self.environment.items() if name != "PREFECT_API_URL"}
        self._start("server", server, "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui")
        wait_until(self._is_healthy, 180)

    def start_worker(self, name: str, pool: str) -> None:
        options = ("--pool", pool, "--type", "process", "--name", name)
        self._start(name, self.environment, "worker", "start", *options)

    def prefect(self, *words: str, code: int = 0) -> str:
        """Run a command, and return what it says; its exit code must be `code`."""
        command = [sys.executable, "-m", "prefect", "--no-prompt", *words]
        environment = {**self.environment, "COLUMNS": "1000"}
        done = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=600)
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        return said

    def start_run(self, deployment: str, form: dict[str, Any] | None = None, parameter: str = "build") -> str:
        """Start a run of a deployment by hand, and return its ID."""
        options = ["--param", f"{parameter}={json.dumps(form)}"] if form is not None else []
        said = self.prefect("deployment", "run", deployment, *options)
        return next(line for line in said.splitlines() if "UUID" in line).split()[-1]

    def wait_for_end(self, run: str, patience_s: float = 600) -> dict[str, Any]:
        """Return a run once it has ended."""
        return wait_until(lambda: self._ended(run), patience_s)

    def find(self, kind: str, **query: Any) -> list[dict[str, Any]]:
        """Return the objects of a kind that a filter of the API finds."""
        found: list[dict[str, Any]] = self._ask("POST", f"{kind}/filter", query).json()
        return found

    def create(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        made = self._ask("POST", f"{kind}/", data)
        assert made.status_code == 201, made.text
        found: dict[str, Any] = made.json()
        return found

    def count_events(self, query: dict[str, Any]) -> int:
        total: int = self._ask("POST", "events/filter", {"filter": query}).json()["total"]
        return total

    def read(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("GET", path).json()
        return found

    def read_logs(self, run: str) -> str:
        logs = self.find("logs", logs={"flow_run_id": {"any_": [run]}}, sort="TIMESTAMP_ASC", limit=200)
        return "\n".join(log["message"] for log in logs)

    def kill(self, name: str) -> None:
        """Let a worker and every process below it die at once, as when its machine loses power."""
        worker = self._processes.pop(name)
        for each in [*psutil.Process(worker.pid).children(recursive=True), worker]:
            each.kill()
        worker.wait()

    def find_processes(self, run: str) -> list[psutil.Process]:
        """Return the processes of a run, and of what it started, on this machine."""
        found = []
        for worker in self._processes.values():
            for process in psutil.Process(worker.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if process.environ().get("PREFECT__FLOW_RUN_ID") == run:
                        found.append(process)
        return found

    def close(self) -> None:
        for process in reversed(self._processes.values()):
            below = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
            for each in below:
                if each.is_running():
                    each.kill()

    def _start(self, name: str, environment: dict[str, str], *words: str) -> None:
        command = [sys.executable, "-m", "prefect", *words]
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, env=environment, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT
            )

    def _is_healthy(self) -> bool:
        try:
            return self._ask("GET", "health").status_code == 200
        except httpx.TransportError:
            return False

    def _ended(self, run: str) -> dict[str, Any] | None:
        found = self.read(f"flow_runs/{run}")
        return found if found["state_type"] in _ENDED else None

    def _ask(self, method: str, path: str, data: dict[str, Any] | None = None) -> httpx.Response:
        return httpx.request(method, f"{self.api}/{path}", json=data, trust_env=False, timeout=60)


def wait_until(look: Callable[[], _T], patience_s: float) -> _T:
    """Return what `look` returns once that is something."""
    until = time.monotonic() + patience_s
    while not (found := look()):
        assert time.monotonic() < until, f"nothing after {patience_s:g} s"
        time.sleep(0.5)
    return found
