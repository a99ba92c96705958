"""The vLLM servers that a flow starts: watched while they run, started again when they die, stopped at the end."""

from __future__ import annotations

import contextlib
import http.client
import logging
import os
import secrets
import socket
import threading
import time

from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.text_engine_configs import VllmTextConfig
from bystander.tasks.engines.guarded_process import GuardedProcess
from bystander.tasks.engines.vllm_command import (
    DEVICES,
    build_command,
    build_environment,
    find_program,
    locate_log,
    share_devices,
)

_log = logging.getLogger(__name__)

_GRACE_S = 20.0
"""From SIGTERM to SIGKILL. vLLM ends within seconds unless its engine hangs."""
_POLL_S = 0.25
_HEALTH_TIMEOUT_S = 5.0
_NOTICE_S = 5.0
"""Within which the end of a server that does not answer any more should have been noticed."""
_STABLE_S = 600.0
"""A server that ran so long since its last start is given all its restarts again."""


class VllmReplica:
    """One `vllm serve`. A thread of its own waits for its end and starts it again."""

    def __init__(
        self,
        config: VllmTextConfig,
        number: int,
        port: int,
        devices: str | None,
        api_key: str,
        changed: threading.Condition,
    ) -> None:
        """Take the settings; `changed` guards the state of all replicas and tells of its changes."""
        self._config = config
        self._number = number
        self.port = port
        self._command = build_command(config, port)
        self._environment = build_environment(config, find_program(config), devices, api_key)
        self._process: GuardedProcess | None = None
        self._changed = changed
        self._closing = False
        self.healthy = False
        self.deaths = 0
        self.failure: str | None = None
        """Why it is not started again; None while it runs or will."""
        self._thread = threading.Thread(target=self._keep_running, name=f"vllm-{number}", daemon=True)

    @property
    def address(self) -> str:
        """Where its API is."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def pid(self) -> int | None:
        """Process id of its guard, whose descendants the server's processes are."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start it in the background; `healthy` and `failure` tell what comes of it."""
        self._thread.start()

    def ask_to_end(self) -> None:
        """Ask it to end; `end` waits for it."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            if self._process is not None:
                self._process.ask_to_end()

    def end(self) -> None:
        """End it and its thread."""
        self.ask_to_end()
        if self._thread.ident is not None:
            self._thread.join()

    def _keep_running(self) -> None:
        restarts = 0
        while True:
            began = time.monotonic()
            try:
                fault = self._run_once()
            except EngineError as exc:
                fault = str(exc)
            with self._changed:
                if self._closing:
                    return
                was_healthy, self.healthy = self.healthy, False
                self.deaths += 1
                self._changed.notify_all()
                if was_healthy and time.monotonic() - began > _STABLE_S:
                    restarts = 0
                # One that never answered has a wrong setting, and would die of it again.
                if restarts >= self._config.max_restarts or (restarts == 0 and not was_healthy):
                    self.failure = fault
                    break
            restarts += 1
            _log.warning("%s; starting it again (%d of %d)", fault, restarts, self._config.max_restarts)
        _log.error("%s", fault)

    def _run_once(self) -> str:
        """Run the server from start to end, and return why it ended."""
        log = locate_log(self._config, self._number)
        _log.info("starting %s on port %d, log %s", " ".join(self._command[:3]), self.port, log)
        with self._changed:
            if self._closing:
                return "closed"
            self._process = process = GuardedProcess(self._command, self._environment, log, _GRACE_S)
        try:
            fault = self._await_health(process)
            if fault is None:
                with self._changed:
                    self.healthy = True
                    self._changed.notify_all()
                process.wait()
                fault = "died"
        finally:
            process.end()
        status = process.exit_status
        return (
            f"vllm serve {self._config.model} {fault} (exit status {status}, log {process.log}): "
            f"{process.describe_end()}"
        )

    def _await_health(self, process: GuardedProcess) -> str | None:
        deadline = time.monotonic() + self._config.startup_timeout_s
        while process.exit_status is None:
            if self._closing:
                return "was stopped"
            if _is_healthy(self.port):
                return None
            if time.monotonic() > deadline:
                return f"did not answer within startup_timeout_s = {self._config.startup_timeout_s:g} s"
            with self._changed:
                self._changed.wait_for(lambda: self._closing, _POLL_S)
        return "ended before it answered"


class VllmServers:
    """All replicas of one configuration."""

    def __init__(self, config: VllmTextConfig) -> None:
        """Find the program and the devices; nothing is started yet.

        Raises:
            EngineSetupError: there is no such program, or too few devices.
        """
        self._config = config
        self.api_key = secrets.token_hex(16)
        """Known to this process and its servers only, for other users of the machine reach loopback, too."""
        find_program(config)
        self._devices = share_devices(config, os.environ.get(DEVICES))
        self._changed = threading.Condition()
        self._closed = False
        self.replicas: list[VllmReplica] = []

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where the replicas' APIs are, once they are started."""
        return tuple(replica.address for replica in self.replicas)

    def start(self) -> None:
        """Start all replicas and wait until each is healthy.

        Raises:
            EngineSetupError: one of them ends before it answers, or does not answer in time; with what its log says.
        """
        ports = _choose_ports(self._config.port, self._config.replicas)
        self.replicas = [
            VllmReplica(self._config, number, port, devices, self.api_key, self._changed)
            for number, (port, devices) in enumerate(zip(ports, self._devices, strict=True))
        ]
        for replica in self.replicas:
            replica.start()
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._closed
                    or all(replica.healthy for replica in self.replicas)
                    or any(replica.failure is not None for replica in self.replicas)
                )
            )
            failed = [replica.failure for replica in self.replicas if replica.failure is not None]
        if failed or self._closed:
            self.close()
            raise EngineSetupError(failed[0] if failed else self._say_stopped())

    @property
    def deaths(self) -> int:
        """Times that one of the replicas ended by itself."""
        return sum(replica.deaths for replica in self.replicas)

    def await_recovery(self, deaths: int) -> bool:
        """Wait until one replica is healthy after calls failed, before which there had been `deaths`.

        Returns False where one is healthy and none has died since, so that something else made the calls fail.

        Raises:
            EngineError: all replicas have died more often than they may; with what the last one's log says.
        """
        silent = [replica for replica in self.replicas if replica.healthy and not _is_healthy(replica.port)]
        with self._changed:
            # A call may fail some moments before the end of its server is noticed.
            self._changed.wait_for(lambda: self._closed or self.deaths > deaths, _NOTICE_S if silent else 0.0)
            if self.deaths == deaths and any(replica.healthy for replica in self.replicas):
                return False
            self._changed.wait_for(
                lambda: (
                    self._closed
                    or any(replica.healthy for replica in self.replicas)
                    or all(replica.failure is not None for replica in self.replicas)
                )
            )
            if any(replica.healthy for replica in self.replicas):
                return True
            raise EngineError(self.replicas[-1].failure or self._say_stopped())

    def close(self) -> None:
        """Stop all replicas, at once; a second call does nothing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for replica in self.replicas:
            replica.ask_to_end()
        for replica in self.replicas:
            replica.end()

    def _say_stopped(self) -> str:
        return f"vllm serve {self._config.model} was stopped"


def _choose_ports(first: int, count: int) -> list[int]:
    if first:
        return list(range(first, first + count))
    with contextlib.ExitStack() as stack:  # all are held until the last one is found, so that no two are the same
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_HEALTH_TIMEOUT_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
