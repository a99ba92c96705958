"""vLLM's program for batches: its command line, and one run of it."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.text_engine_configs import VllmBatchTextConfig

SCRIPT_NAME = "run-batches.sh"
_LAST_LINES = 5
_LAST_BYTES = 8192


def make_command(config: VllmBatchTextConfig, requests: str, results: str) -> list[str]:
    """Return the words of a command that answers a file of requests."""
    words = [*config.command, "run-batch", "-i", requests, "-o", results, "--model", config.model]
    if config.revision:
        words += ["--revision", config.revision]
    return [*words, *config.args, *config.speed_args]


def write_script(config: VllmBatchTextConfig, folder: Path) -> Path:
    """Write a script beside files of requests that answers all that have no results yet, in one run of vLLM.

    Raises:
        EngineSetupError: the folder cannot be written.
    """
    command = shlex.join(make_command(config, "batch.jsonl", "batch.part"))
    script = folder / SCRIPT_NAME
    try:
        script.write_text(_SCRIPT.format(command=command), "utf-8")
        script.chmod(0o755)
    except OSError as exc:
        raise EngineSetupError(f"{script}: cannot be written ({exc.strerror})") from exc
    return script


class BatchRunner:
    """Runs batches, one at a time: a run of vLLM takes its accelerators for itself."""

    def __init__(self, config: VllmBatchTextConfig) -> None:
        self._config = config
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def run(self, requests: Path, results: Path) -> None:
        """Answer a file of requests. What the program says goes to a log beside the results, `NAME.log`.

        Raises:
            EngineSetupError: the program cannot be started, or the engine was closed.
            EngineError: it failed, ran longer than `timeout_s`, or wrote no results.
        """
        part = results.with_suffix(".part")
        log = results.with_suffix(".log")
        command = make_command(self._config, str(requests), str(part))
        with self._turn:
            status = self._wait(command, log)
        if status != 0:
            raise EngineError(f"{_name(command)}: exit status {status}: {read_last_lines(log)} (log: {log})")
        if not part.exists():
            raise EngineError(f"{_name(command)}: wrote no results: {read_last_lines(log)} (log: {log})")
        part.replace(results)

    def close(self) -> None:
        """End a run and all that it started."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                _kill(self._process)

    def _wait(self, command: Sequence[str], log: Path) -> int:
        with log.open("wb") as sink:
            with self._lock:
                if self._closed:
                    raise EngineSetupError(f"text engine {self._config.model!r} was closed")
                try:
                    # A session of its own: vLLM starts processes that would outlive it.
                    self._process = subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
                    )
                except OSError as exc:
                    raise EngineSetupError(
                        f"{command[0]}: cannot be started ({exc.strerror}); name the program of vLLM's environment in "
                        "`command`, or answer the files elsewhere with `mode: files`"
                    ) from exc
                process = self._process
            try:
                status = process.wait(timeout=self._config.timeout_s)
            except subprocess.TimeoutExpired as exc:
                raise EngineError(
                    f"{_name(command)}: not done after {self._config.timeout_s:g} s (log: {log}); raise `timeout_s` or "
                    "lower `partition_rows`"
                ) from exc
            finally:
                with self._lock:
                    _kill(process)
                    self._process = None
            if self._closed:
                raise EngineSetupError(f"text engine {self._config.model!r} was closed while it answered")
            return status


def read_last_lines(log: Path) -> str:
    """Return the last lines of a log, in one."""
    with log.open("rb") as source:
        source.seek(max(0, log.stat().st_size - _LAST_BYTES))
        text = source.read().decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-_LAST_LINES:]) or "it said nothing"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program and all that it started; what it started may outlive it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _name(command: Sequence[str]) -> str:
    return " ".join(command[: command.index("run-batch") + 1])


_SCRIPT = """#!/bin/sh
# Answers the files of requests in this folder that have no results yet, in one run of vLLM.
set -e
cd "$(dirname "$0")"
pending=""
for requests in requests-*.jsonl; do
  [ ! -e "$requests" ] || [ -e "results-${{requests#requests-}}" ] || pending="$pending $requests"
done
[ -n "$pending" ] || {{ echo "nothing to answer"; exit 0; }}
cat $pending > batch.jsonl
{command}
# Answers are found by their ids, in whichever file they stand; an empty file says that there is nothing left to do.
for requests in $pending; do
  results="results-${{requests#requests-}}"
  if [ -e batch.part ]; then mv batch.part "$results"; else : > "$results"; fi
done
rm -f batch.jsonl
"""
