"""vLLM's program for batches: its command line, and one run of it."""

from __future__ import annotations

import os
import shlex
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.text_engine_configs import VllmBatchTextConfig
from bystander.tasks.engines.guarded_process import GuardedProcess, pick_lines
from bystander.tasks.engines.process_guard import CANNOT_START

SCRIPT_NAME = "run-batches.sh"
_GRACE_S = 10.0
"""How long vLLM may take to end before it is killed."""


def make_command(config: VllmBatchTextConfig, requests: str, results: str) -> list[str]:
    """Return the words of a command that answers a file of requests."""
    words = [*config.command, "run-batch", "-i", requests, "-o", results, "--model", config.model]
    if config.revision:
        words += ["--revision", config.revision]
    return [*words, *config.args, *config.speed_args]


def find_batch_program(config: VllmBatchTextConfig) -> str:
    """Return how the program that answers batches is called here; with `mode: files` none need be here.

    Raises:
        EngineSetupError: there is none of that name.
    """
    name = config.command[0]
    if config.mode == "run" and shutil.which(name) is None:
        raise EngineSetupError(
            f"vllm_batch: no program {name!r}; name that of vLLM's environment in `command`, or answer the files "
            "elsewhere with `mode: files`"
        )
    return name


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
    """Runs batches, one at a time: a run of vLLM takes its accelerators for itself. None outlives this process."""

    def __init__(self, config: VllmBatchTextConfig) -> None:
        self._config = config
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._process: GuardedProcess | None = None
        self._closed = False

    def run(self, requests: Path, results: Path) -> None:
        """Answer a file of requests. What the program says goes to a log beside the results, `NAME.log`.

        Raises:
            EngineSetupError: the program cannot be started, or the engine was closed.
            EngineError: it failed, ran longer than `timeout_s`, or wrote no results.
        """
        part = results.with_suffix(".part")
        command = make_command(self._config, str(requests), str(part))
        with self._turn:
            status, said = self._wait(command, results.with_suffix(".log"))
        if status == CANNOT_START:
            raise EngineSetupError(
                f"{said}; name the program of vLLM's environment in `command`, or answer the files elsewhere with "
                "`mode: files`"
            )
        if status != 0:
            raise EngineError(f"{_name(command)}: exit status {status}: {said}")
        if not part.exists():
            raise EngineError(f"{_name(command)}: wrote no results: {said}")
        part.replace(results)

    def close(self) -> None:
        """End a run and all that it started."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.ask_to_end()

    def _wait(self, command: Sequence[str], log: Path) -> tuple[int, str]:
        """Return the exit status of a run, and what its log says of its end."""
        config, late = self._config, threading.Event()
        with self._lock:
            if self._closed:
                raise EngineSetupError(f"text engine {config.model!r} was closed")
            process = self._process = GuardedProcess(command, os.environ, log, _GRACE_S)

        def end_late() -> None:
            late.set()
            process.ask_to_end()

        timer = threading.Timer(config.timeout_s, end_late)
        timer.start()
        try:
            status = process.wait()
        finally:
            timer.cancel()
            process.end()
            with self._lock:
                self._process = None
        if self._closed:
            raise EngineSetupError(f"text engine {config.model!r} was closed while it answered")
        if late.is_set():
            raise EngineError(
                f"{_name(command)}: not done after {config.timeout_s:g} s (log: {log}); raise `timeout_s` or lower "
                "`partition_rows`"
            )
        return status, f"{process.describe_end()} (log: {log})"


def read_last_lines(log: Path) -> str:
    """Return what a log says of the end of a program."""
    return pick_lines(log.read_text("utf-8", "replace"))


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
