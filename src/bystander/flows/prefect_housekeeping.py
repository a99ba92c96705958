"""Starts and stops Prefect's temporary server, and clears up what a killed run leaves behind.

That is its temporary server, and a flow run that seems to be running.

Every run marks itself: its process in an environment variable that the temporary server inherits, its flow run by a
tag. What bears the mark of a process that is gone, and only that, is cleared up by the next run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psutil

from bystander.schemas.errors import ConfigError, EngineUnavailableError

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

_OWNER_VARIABLE = "BYSTANDER_OWNER"
_TAG_PREFIX = "bystander-owner:"
_server_is_up = threading.Event()


def mark_this_process() -> str:
    """Put the mark of this process into its environment, for the temporary server to inherit, and return it."""
    mark = _describe(os.getpid())
    os.environ[_OWNER_VARIABLE] = mark
    return mark


def owner_tag(mark: str) -> str:
    """Return the tag that a flow run of a process bears."""
    return f"{_TAG_PREFIX}{socket.gethostname()}:{mark}"


def start_temporary_server() -> None:
    """Start Prefect's temporary server, unless the user has named a server of their own.

    Prefect would start it by itself at the first call. Here it is started so that Ctrl-C in a terminal, which every
    process of the foreground group gets, does not end it before the flow run's last state is written.

    Raises:
        EngineUnavailableError: it did not come up in time.
    """
    from prefect.server.api.server import SubprocessASGIServer
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_ALLOW_EPHEMERAL_MODE

    if PREFECT_API_URL.value() or not PREFECT_SERVER_ALLOW_EPHEMERAL_MODE.value():
        _server_is_up.set()
        return
    # A child inherits which signals are blocked; uvicorn, as any other program, does not unblock them.
    blocked = {signal.SIGINT, signal.SIGHUP} if hasattr(signal, "pthread_sigmask") else set()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked) if blocked else set()
    try:
        SubprocessASGIServer().start()
    except Exception as exc:  # whatever is in the way of a server: ports, disk, an older database
        raise EngineUnavailableError(f"Prefect's temporary server does not start ({exc})") from exc
    finally:
        if blocked:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _server_is_up.set()


def kill_temporary_server() -> None:
    """End this process's temporary server at once, if there is one. Its database survives that."""
    module = sys.modules.get("prefect.server.api.server")
    server = getattr(module, "SubprocessASGIServer", None)  # the module may be half imported
    if server is not None and (process := server().server_process) is not None:
        process.kill()


def end_ray_processes() -> None:
    """Tell the processes of a Ray cluster that this process started to end; by themselves, some take half a minute."""
    if "ray" not in sys.modules:
        return
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.name().startswith("ray::"):
                process.terminate()


def stop_orphaned_servers() -> int:
    """Stop temporary Prefect servers whose run is gone, and return how many there were."""
    stopped = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if not any("prefect.server.api.server:create_app" in word for word in process.cmdline()):
                continue
            mark = process.environ().get(_OWNER_VARIABLE)
            if mark is not None and not _is_alive(mark):
                process.terminate()
                process.wait(timeout=10)
                stopped += 1
    return stopped


def fail_abandoned_flow_runs() -> int:
    """Set flow runs that a killed process of this machine left in state Running to Crashed; return how many.

    Raises:
        ConfigError: the Prefect server that the user has named cannot be reached.
    """
    from prefect.states import Crashed

    prefix = f"{_TAG_PREFIX}{socket.gethostname()}:"

    def is_abandoned(tags: list[str]) -> bool:
        marks = [tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)]
        return bool(marks) and not any(_is_alive(mark) for mark in marks)

    return _end_flow_runs(is_abandoned, Crashed(message="The process was killed."))


def cancel_own_flow_runs(patience_s: float = 3.0) -> None:
    """Set this process's flow runs to Cancelled, if the server takes it within `patience_s`; else they stay Running.

    The next run sets those to Crashed.
    """
    mark = os.environ.get(_OWNER_VARIABLE)
    if mark is None or not _server_is_up.is_set():
        return  # there can be none yet

    def cancel() -> None:
        from prefect.states import Cancelled

        with contextlib.suppress(Exception):
            _end_flow_runs(lambda tags: owner_tag(mark) in tags, Cancelled(message="Stopped by a signal."))

    thread = threading.Thread(target=cancel, daemon=True)
    thread.start()
    thread.join(patience_s)


def _end_flow_runs(belongs: Callable[[list[str]], bool], state: State[Any]) -> int:
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
    from prefect.client.schemas.objects import StateType
    from prefect.settings import PREFECT_API_URL

    running = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING])))
    ended = 0
    try:
        with get_client(sync_client=True) as client:
            for run in client.read_flow_runs(flow_run_filter=running):
                if belongs(run.tags):
                    client.set_flow_run_state(run.id, state, force=True)
                    ended += 1
    except httpx.TransportError as exc:
        raise ConfigError(
            f"Prefect server {PREFECT_API_URL.value()}: cannot be reached ({type(exc).__name__}); start it, or unset "
            "PREFECT_API_URL to do without"
        ) from exc
    return ended


def _describe(pid: int) -> str:
    """Name a process so that a later one with the same number is not taken for it."""
    return f"{pid}:{psutil.Process(pid).create_time():.2f}"


def _is_alive(mark: str) -> bool:
    pid, _, _ = mark.partition(":")
    with contextlib.suppress(psutil.Error, ValueError):
        return _describe(int(pid)) == mark
    return False
