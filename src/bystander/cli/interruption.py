"""Stopping on Ctrl-C and on the system's wish: at once, in one line, leaving no process behind.

Nothing that was finished can be lost (see `storage.parts`), so a build is not wound down, it is left: work runs in a
thread of its own, and a signal ends the wait for it. Waiting for a running stage instead could take minutes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from types import FrameType
from typing import NoReturn, TypeVar

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_T = TypeVar("_T")


class Interrupted(BaseException):
    """The process was told to end. No `Exception`, so that nobody takes it for a failure of the work."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.exit_code = 128 + signum
        """What shells report of a process that a signal ended."""


@contextlib.contextmanager
def raising_on_signals() -> Iterator[None]:
    """Raise `Interrupted` in the main thread on Ctrl-C, SIGTERM and SIGHUP while the block runs.

    A signal that the process was started to ignore (by `nohup`, say) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return

    def interrupt(signum: int, _frame: FrameType | None) -> None:
        raise Interrupted(signum)

    heeded = [signum for signum in _SIGNALS if signal.getsignal(signum) is not signal.SIG_IGN]
    before = {signum: signal.signal(signum, interrupt) for signum in heeded}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def run_interruptibly(work: Callable[[], _T]) -> _T:
    """Run `work` in a thread, in a copy of this context, and return or raise what it does; a signal ends the wait.

    The thread is a daemon: after `Interrupted` the caller is expected to `leave`.
    """
    results: list[_T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as exc:
            errors.append(exc)
        finally:
            done.set()

    threading.Thread(target=copy_context().run, args=(run,), name="build", daemon=True).start()
    done.wait()
    if errors:
        raise errors[0]
    return results[0]


def leave(code: int) -> NoReturn:
    """End the process now, threads and all, after releasing what would outlive it. A further signal only hurries it."""

    def end(_signum: int = 0, _frame: FrameType | None = None) -> NoReturn:
        try:
            if housekeeping is not None:
                housekeeping.end_ray_processes()
                housekeeping.kill_temporary_server()
        finally:
            os._exit(code)

    # Only if a build has got as far as Prefect is there anything to release.
    housekeeping = sys.modules.get("bystander.flows.prefect_housekeeping")
    for signum in _SIGNALS:
        signal.signal(signum, end)
    with contextlib.suppress(AttributeError):  # it may be half imported
        if housekeeping is not None:
            housekeeping.cancel_own_flow_runs()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    end()
