"""Runs a program and ends it, with all that it started, when this process's standard input is closed.

    python -I -S process_guard.py GRACE_S program argument...

Whoever starts the guard holds the other end of its standard input. The operating system closes that end however the
holder dies, `kill -9` and out of memory included, so that no server outlives a crashed build. A parent-death signal
would not do: it comes when the thread that started the program ends.

The program gets SIGTERM, and SIGKILL if it is not gone after GRACE_S seconds. It runs in a process group of its own;
what of the group outlives the program itself is killed. The guard's exit status is the program's; 128 + n where signal
n ended it; 127 where it cannot be started. It needs no package, not even this one.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

POLL_S = 0.1
CANNOT_START = 127


def run_guarded(command: list[str], grace_s: float) -> int:
    """Run a program to its end, or to that of standard input, and return its exit status."""
    try:
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as exc:
        print(f"{command[0]}: cannot be started ({exc.strerror})", file=sys.stderr, flush=True)  # noqa: T201 - its log
        return CANNOT_START
    try:
        while program.poll() is None:
            if select.select([sys.stdin], [], [], POLL_S)[0] and not os.read(sys.stdin.fileno(), 4096):
                _end(program, grace_s)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, signal.SIGKILL)
    return program.returncode if program.returncode >= 0 else 128 - program.returncode


def _end(program: subprocess.Popen[bytes], grace_s: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while program.poll() is None and time.monotonic() < deadline:
        time.sleep(POLL_S)
    if program.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def _stop(_signum: int, _frame: object) -> None:
    # The loop ends the program as soon as it sees the end of standard input.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.exit(run_guarded(sys.argv[2:], float(sys.argv[1])))
