"""Workers that can be called: processes that are started here, or endpoints that run elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import bystander.workers.speech
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.speech_engine_configs import ChatterboxSpeechConfig
from bystander.tasks.engines.speech_worker_client import SpeechWorkerClient, SpeechWorkerLostError
from bystander.tasks.engines.user_folders import find_cache_folder, find_log_folder
from bystander.workers.speech.protocol import TOKEN_VARIABLE, Hello, ProtocolError

PROGRAM = Path(bystander.workers.speech.__file__).parent
"""What the workers' Python runs: a folder, so that nothing else of ours is on its path."""
_POLL_S = 0.5
_LAST_LINES = 5
_END_S = 5.0
_HIDDEN_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""They are those of this environment; the workers' is another."""


class WorkerSource(Protocol):
    """A place where a worker is, or can be made to be."""

    name: str

    @property
    def can_restart(self) -> bool:
        """Whether a worker that is discarded comes back fresh."""
        ...

    def open(self) -> SpeechWorkerClient:
        """Return a client once the worker can speak.

        Raises:
            EngineSetupError: it never will: its settings, packages or weights are wrong.
            SpeechWorkerLostError: it died or cannot be reached now.
        """
        ...

    def discard(self) -> None:
        """Let go of the worker; a process of ours is killed."""
        ...

    def close(self) -> None:
        """Let go of the worker for good, from any thread: an `open` under way ends, as by a lost worker."""
        ...


class StartedWorker:
    """A worker process of ours on one device, with a log of its own."""

    def __init__(self, config: ChatterboxSpeechConfig, device: str, name: str) -> None:
        self.name = name
        self._config = config
        self._device = device
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._log = find_log_folder(config.log_folder) / f"{name}.log"

    @property
    def can_restart(self) -> bool:
        return True

    @property
    def pid(self) -> int | None:
        """The process's id, or None where there is none."""
        return self._process.pid if self._process is not None else None

    def open(self) -> SpeechWorkerClient:
        self.discard()
        token = secrets.token_hex(16)
        arguments = [*list_model_arguments(self._config, self._device), "--announce", "--exit-with-stdin"]
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log:
                process = subprocess.Popen(
                    [*find_python(self._config), str(PROGRAM), *arguments],
                    stdin=subprocess.PIPE,  # its end is how the worker notices ours
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=_make_environment(token),
                    start_new_session=True,
                )
        except OSError as exc:
            raise EngineSetupError(f"speech worker: {find_python(self._config)[0]} cannot be run ({exc})") from exc
        with self._lock:
            self._process = process
            closed = self._closed
        if closed:
            self.discard()
            raise SpeechWorkerLostError(f"speech worker {self.name} was closed")
        events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        assert process.stdout is not None
        threading.Thread(target=_read_events, args=(process.stdout, events), daemon=True).start()
        deadline = time.monotonic() + self._config.startup_timeout_s
        try:
            port = int(self._await(events, "listening", deadline)["port"])
            self._await(events, "ready", deadline)
        except BaseException:
            self.discard()
            raise
        return SpeechWorkerClient("127.0.0.1", port, token, self._config.timeout_s)

    def discard(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        # The group, since the command may be a launcher; killed, since a hanging model heeds nothing less.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.discard()

    def _await(
        self, events: queue.SimpleQueue[dict[str, Any] | None], expected: str, deadline: float
    ) -> dict[str, Any]:
        try:
            event = events.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise EngineSetupError(
                f"speech worker {self.name} is not ready after startup_timeout_s "
                f"({self._config.startup_timeout_s:g} s); its log: {self._log}"
            ) from None
        if event is not None and event.get("event") == "failed":
            raise EngineSetupError(f"speech worker {self.name}: {event.get('detail')}; its log: {self._log}")
        if event is None:
            raise SpeechWorkerLostError(f"speech worker {self.name} died while starting: {_read_tail(self._log)}")
        if event.get("event") != expected:
            raise EngineSetupError(f"speech worker {self.name} says {event!r} instead of {expected!r}")
        return event


_WANTED = "engines.speech.python must be the Python of the environment in envs/chatterbox"


class AttachedWorker:
    """A worker that somebody else runs."""

    def __init__(self, config: ChatterboxSpeechConfig, endpoint: str) -> None:
        self.name = endpoint
        self._config = config
        host, _, port = endpoint.rpartition(":")
        self.client = SpeechWorkerClient(host.strip("[]"), int(port), read_token(config), config.timeout_s)
        self._closed = threading.Event()

    @property
    def can_restart(self) -> bool:
        return False

    def open(self) -> SpeechWorkerClient:
        """Wait until the worker can speak: it may be loading, or be started again by whoever runs it."""
        deadline = time.monotonic() + self._config.startup_timeout_s
        while True:
            lost: SpeechWorkerLostError | None = None
            try:
                if self.client.hello() is not None:
                    return self.client
            except SpeechWorkerLostError as exc:
                lost = exc
            if time.monotonic() + _POLL_S > deadline:
                raise lost or SpeechWorkerLostError(f"speech worker {self.name} is still loading")
            if self._closed.wait(_POLL_S):
                raise SpeechWorkerLostError(f"speech worker {self.name} was closed")

    def discard(self) -> None:
        """Nothing to let go of."""

    def close(self) -> None:
        self._closed.set()


def describe_worker(config: ChatterboxSpeechConfig) -> Hello:
    """Return what workers of this configuration say of their model. None is started, and no model is loaded.

    Raises:
        EngineSetupError: they cannot be had, or say nothing that can be understood.
        SpeechWorkerLostError: no endpoint can be reached.
    """
    if config.endpoints:
        return _ask_endpoints(config)
    command = [*find_python(config), str(PROGRAM), *list_model_arguments(config, config.devices[0]), "--describe"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=config.startup_timeout_s,
            env=_make_environment(None),
            check=False,
        )
    except OSError as exc:
        raise EngineSetupError(f"speech worker: {command[0]} cannot be run ({exc})") from exc
    except subprocess.TimeoutExpired as exc:
        raise EngineSetupError(
            f"speech worker: no answer in startup_timeout_s ({config.startup_timeout_s:g} s)"
        ) from exc
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        if not lines:
            raise EngineSetupError(f"speech worker: {command[0]} ends with status {done.returncode}; {_WANTED}")
        raise EngineSetupError(f"speech worker by {command[0]}: {lines[-1]}")
    try:
        return Hello.decode(done.stdout)
    except ProtocolError as exc:
        raise EngineSetupError(
            f"speech worker: {command[0]} does not answer as a Python would ({exc}); {_WANTED}"
        ) from exc


def _ask_endpoints(config: ChatterboxSpeechConfig) -> Hello:
    """Return the hello of the first endpoint that answers; some may be down, or loading still."""
    clients = [AttachedWorker(config, endpoint).client for endpoint in config.endpoints]
    deadline = time.monotonic() + config.startup_timeout_s
    while True:
        lost: SpeechWorkerLostError | None = None
        for client in clients:
            try:
                if (hello := client.hello()) is not None:
                    return hello
            except SpeechWorkerLostError as exc:
                lost = exc
        if time.monotonic() + _POLL_S > deadline:
            raise lost or SpeechWorkerLostError("every speech worker is still loading")
        time.sleep(_POLL_S)


def list_model_arguments(config: ChatterboxSpeechConfig, device: str) -> list[str]:
    """Return the worker's arguments that say which model it is."""
    cache = Path(config.cache_folder) if config.cache_folder else find_cache_folder() / "speech"
    arguments = ["--model", config.model, "--device", device, "--dtype", config.dtype, "--cache", str(cache)]
    if config.weights:
        arguments += ["--weights", config.weights]
    if config.revision:
        arguments += ["--revision", config.revision]
    if config.threads:
        arguments += ["--threads", str(config.threads)]
    return arguments


def find_python(config: ChatterboxSpeechConfig) -> Sequence[str]:
    """Return the command of the workers' Python; the tone model is content with ours."""
    return config.python_words or (sys.executable,)


def read_token(config: ChatterboxSpeechConfig) -> str | None:
    """Return the endpoints' token.

    Raises:
        EngineSetupError: its variable is not set.
    """
    if config.token_env is None:
        return None
    token = os.environ.get(config.token_env)
    if not token:
        raise EngineSetupError(
            f"the environment variable {config.token_env} (token_env of the speech engine) is not set"
        )
    return token


def _make_environment(token: str | None) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in _HIDDEN_VARIABLES}
    environment.pop(TOKEN_VARIABLE, None)
    return {**environment, **({TOKEN_VARIABLE: token} if token else {})}


def _read_events(stream: IO[bytes], events: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    """Hand on what a worker announces, and None at its end."""
    with stream:
        for line in stream:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # a launcher's own words
            if isinstance(event, dict):
                events.put(event)
    events.put(None)


def _read_tail(log: Path) -> str:
    try:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return " | ".join(lines[-_LAST_LINES:])[-600:] or f"nothing in its log {log}"
