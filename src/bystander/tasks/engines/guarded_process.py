"""A server program of an engine, which does not outlive this process, with its log in a file."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines import process_guard

_LAST_LINES = 4
_FIRST_CAUSES = 2
_TAIL_BYTES = 256 << 10
_CAUSE = re.compile(r"\b(?:\w*(?:Error|Exception)|error): \S")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LONGEST_LINE = 200
_SWEEP_S = 5.0


class GuardedProcess:
    """A program that runs under `process_guard`, from its start to its end."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path, grace_s: float) -> None:
        """Start it. What it writes is appended to `log`, whose folder is made if it is missing.

        Raises:
            EngineSetupError: the log cannot be written, or the guard cannot be started.
        """
        self.log = log
        self._grace_s = grace_s
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as output:
                self._log_start = output.tell()
                self._guard = subprocess.Popen(
                    # -I and -S: neither the user's site packages nor PYTHONPATH, for it needs none.
                    [sys.executable, "-I", "-S", process_guard.__file__, f"{grace_s:g}", *command],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(environment),
                    start_new_session=True,  # Ctrl-C in a terminal goes to the whole group of the foreground
                )
        except OSError as exc:
            raise EngineSetupError(f"{command[0]}: its log {log} cannot be written ({exc.strerror})") from exc

    @property
    def exit_status(self) -> int | None:
        """The program's exit status (128 + n after signal n); None while it runs."""
        return self._guard.poll()

    @property
    def pid(self) -> int:
        """The guard's process id; the program and what it starts are its descendants."""
        return self._guard.pid

    def wait(self) -> int:
        """Wait for the program's end and return its exit status."""
        return self._guard.wait()

    def ask_to_end(self) -> None:
        """Ask the guard to end the program; `end` waits for it."""
        if self._guard.stdin is not None:
            with contextlib.suppress(OSError):
                self._guard.stdin.close()

    def end(self) -> None:
        """End the program and all that it started: SIGTERM, SIGKILL after the grace; a second call does nothing."""
        self.ask_to_end()
        try:
            self._guard.wait(self._grace_s + _SWEEP_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(psutil.Error):
                for process in psutil.Process(self._guard.pid).children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        process.kill()
            self._guard.kill()
            self._guard.wait()

    def describe_end(self) -> str:
        """Return what the log says of this run that explains its end: the first errors and the last lines."""
        with contextlib.suppress(OSError), self.log.open("rb") as stream:
            stream.seek(max(self._log_start, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
            return pick_lines(stream.read().decode("utf-8", "replace"))
        return "(its log cannot be read)"


def pick_lines(text: str) -> str:
    """Return the lines of a log that say why a program ended, the first ones that name an error and the last ones.

    Programs that raise in a process of their own end with a remark that the reason stands above.
    """
    lines = [_COLOURS.sub("", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if line and any(character.isalnum() for character in line)]
    last = lines[-_LAST_LINES:]
    causes: list[str] = []
    for line in lines[:-_LAST_LINES]:
        if (found := _CAUSE.search(line)) and (cause := line[found.start() :]) not in causes:
            causes.append(cause)
    return " / ".join(line[:_LONGEST_LINE] for line in (*causes[:_FIRST_CAUSES], *last)) or "(its log is empty)"
