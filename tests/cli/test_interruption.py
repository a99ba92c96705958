from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from bystander.cli.interruption import Interrupted, raising_on_signals, run_interruptibly

HANGING = """
import os, sys, time, types
from bystander.cli.interruption import leave
slow = types.ModuleType("slow")
# Not `print`: the signal may come while it is flushing, and it cannot be called again from there.
slow.kill_temporary_server = lambda: os.write(1, b"killed\\n")
slow.cancel_own_flow_runs = lambda: (os.write(1, b"leaving\\n"), time.sleep(60))
sys.modules["bystander.flows.prefect_housekeeping"] = slow
leave(130)
"""


@pytest.fixture(autouse=True)
def _handlers_as_before() -> Iterator[None]:
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    assert {signum: signal.getsignal(signum) for signum in before} == before


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal_ends_the_wait_for_work_that_goes_on(signum: signal.Signals, code: int) -> None:
    since = time.monotonic()

    def work() -> None:
        os.kill(os.getpid(), signum)
        time.sleep(5)

    with pytest.raises(Interrupted) as stop, raising_on_signals():
        run_interruptibly(work)
    assert stop.value.exit_code == code
    assert time.monotonic() - since < 4


def test_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with raising_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
            assert run_interruptibly(lambda: "done") == "done"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_work_sees_the_callers_context_and_its_errors_come_out() -> None:
    variable: ContextVar[int] = ContextVar("variable")
    variable.set(3)
    assert run_interruptibly(variable.get) == 3
    with pytest.raises(ZeroDivisionError):
        run_interruptibly(lambda: 1 // 0)


def test_second_signal_does_not_wait_for_anything() -> None:
    process = subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "leaving\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == 130
    assert out == "killed\n"
