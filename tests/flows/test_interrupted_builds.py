"""A build that is killed, interrupted or terminated goes on from there: the same bytes, hardly a call made twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from bystander.schemas.config import TpiTrainConfig
from plain_chat import PlainChat, write_plain_pack
from tasks.engines.scripted_chat_server import ScriptedChatServer, serve_script
from tpi_builds import Built, build, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")

MAX_IN_FLIGHT = 4
ROWS = 12
SCENARIOS = ["endorsement", "recall_assistance", "simple_correction_with_alternative", "priority_alert"]
PATIENCE_S = 120


class Bench:
    """Builds with texts from a slow server that counts its calls."""

    def __init__(self, folder: Path, chat: PlainChat, server: ScriptedChatServer) -> None:
        self.folder = folder
        self.chat = chat
        self.server = server
        self.queries = write_queries(folder / "queries.jsonl", 24)
        self.pack = write_plain_pack(folder / "plain")

    def configure(self, store: Path) -> TpiTrainConfig:
        return make_config(
            store,
            self.queries,
            rows=ROWS,
            build="same",
            pack=str(self.pack),
            partition_rows=5,
            stages__draw_scenarios__scenarios=SCENARIOS,
            stages__write_replies__guided_openings=False,  # the fake engine knows none
            engines__writer={
                "engine": "openai",
                "base_url": self.server.base_url,
                "model": "plain",
                "max_in_flight": MAX_IN_FLIGHT,
            },
        )

    def start(self, store: Path) -> subprocess.Popen[str]:
        """Start the same build from the command line, in a process group of its own."""
        settings = store.with_suffix(".yaml")
        fields = self.configure(store).model_dump(mode="json", exclude={"profile"})
        settings.write_text(yaml.safe_dump(fields), "utf-8")
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bystander.cli.main",
                "build",
                "tpi-train",
                "--profile",
                "fake",
                "--config",
                settings,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def take_calls(self) -> Counter[str]:
        """Return the calls since the last time, by what they asked."""
        bodies, self.server.bodies[:] = list(self.server.bodies), []
        return Counter(json.dumps([body["messages"], body["seed"], body.get("logprobs")]) for body in bodies)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    chat = PlainChat(delay_s=0.0)
    with serve_script(chat) as server:
        yield Bench(tmp_path_factory.mktemp("bench"), chat, server)


@pytest.fixture(scope="module")
def undisturbed(bench: Bench) -> tuple[Built, Counter[str]]:
    built = build(bench.configure(bench.folder / "undisturbed"))
    return built, bench.take_calls()


def stop_midway(
    bench: Bench, store: Path, signum: int, calls: int
) -> tuple[subprocess.Popen[str], str, float, list[Any]]:
    """Start a build, signal its process group in the middle; return it, its last words, seconds, and its children."""
    bench.chat.delay_s, bench.chat.signal_at = 0.1, calls
    bench.chat.reached.clear()
    process = bench.start(store)
    try:
        assert bench.chat.reached.wait(PATIENCE_S), process.communicate(timeout=1)
        children = psutil.Process(process.pid).children(recursive=True)
        # A terminal sends Ctrl-C to all; a kill or a service manager's SIGTERM is for the one.
        (os.killpg if signum == signal.SIGINT else os.kill)(process.pid, signum)
        since = time.monotonic()
        _, words = process.communicate(timeout=PATIENCE_S) if signum != signal.SIGKILL else ("", process.wait() and "")
        return process, words, time.monotonic() - since, children
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
        bench.chat.delay_s, bench.chat.signal_at = 0.0, 0


def is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def find_state_of_flow_run(pid: int) -> str:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        (state,) = [
            run.state_name or ""
            for run in client.read_flow_runs()
            if any(f":{pid}:" in tag for tag in run.tags if tag.startswith("bystander-owner:"))
        ]
        return state


@pytest.mark.parametrize(
    ("signum", "code", "last_state"),
    [
        (signal.SIGKILL, -signal.SIGKILL, "Crashed"),
        (signal.SIGINT, 130, "Cancelled"),
        pytest.param(signal.SIGTERM, 143, "Cancelled", marks=pytest.mark.slow),
    ],
)
def test_stopped_build_goes_on_to_the_same_bytes(
    bench: Bench,
    undisturbed: tuple[Built, Counter[str]],
    signum: signal.Signals,
    code: int,
    last_state: str,
) -> None:
    expected, all_calls = undisturbed
    store = bench.folder / signum.name
    process, words, seconds, children = stop_midway(bench, store, signum, sum(all_calls.values()) // 2)
    calls_before = bench.take_calls()
    assert process.returncode == code
    assert not (store / "tpi-train/same/manifest.json").exists()
    if signum != signal.SIGKILL:
        assert words == "stopped; the same command goes on from here\n"
        assert seconds < 5
        assert not any(is_running(child) for child in children)

    resumed = build(bench.configure(store))

    calls_after = bench.take_calls()
    repeated = calls_before + calls_after - all_calls
    assert calls_after
    assert sum(repeated.values()) <= MAX_IN_FLIGHT
    assert set(calls_before + calls_after) == set(all_calls)
    assert resumed.checksums == expected.checksums
    assert not any(is_running(child) for child in children)
    assert find_state_of_flow_run(process.pid) == last_state


def test_interruption_while_prefect_starts(tmp_path: Path) -> None:
    queries = write_queries(tmp_path / "q.jsonl", 3)
    command = [sys.executable, "-m", "bystander.cli.main", "build", "tpi-train", "--profile", "fake", "--out", "store"]
    process = subprocess.Popen(
        [*command, "--queries", str(queries)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert "starting Prefect" in process.stdout.readline()
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        _, words = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, words) == (130, "stopped; the same command goes on from here\n")
