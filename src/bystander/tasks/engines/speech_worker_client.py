"""Speaks the protocol of `bystander.workers.speech.protocol` with one worker."""

from __future__ import annotations

import contextlib
import http.client
import math
import socket
from collections.abc import Callable, Sequence
from typing import Any

from bystander.schemas.engines import RowFault, Samples
from bystander.schemas.errors import EngineSetupError, EngineUnavailableError
from bystander.workers.speech.protocol import (
    Frame,
    Hello,
    ProtocolError,
    SpeakRequest,
    encode_batch,
    encode_samples,
    read_frames,
    read_object,
)

_HEALTH_TIMEOUT_S = 10.0


class SpeechWorkerLostError(EngineUnavailableError):
    """A worker hung up, cannot be reached, or does not answer in time. What it had not answered may be sent again."""


class SpeechWorkerClient:
    """Calls one worker; each call is a connection of its own. One thread at a time uses it."""

    def __init__(self, host: str, port: int, token: str | None, timeout_s: float) -> None:
        """`timeout_s` is the longest that the worker may be silent: about one clip."""
        self.name = f"{host}:{port}"
        self._host, self._port = host, port
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def hello(self) -> Hello | None:
        """Return what the worker says of its model, or None while it loads.

        Raises:
            SpeechWorkerLostError: it cannot be reached.
            EngineSetupError: it is no worker of this protocol, or does not take the token.
        """
        status, body = self._call("GET", "/hello", timeout_s=_HEALTH_TIMEOUT_S)
        if status == 503:
            return None
        self._expect(status, body)
        try:
            return Hello.decode(body)
        except ProtocolError as exc:
            raise EngineSetupError(f"speech worker {self.name}: {exc}") from exc

    def measure_memory_mib(self) -> float:
        """Return the worker's resident memory.

        Raises:
            SpeechWorkerLostError: it cannot be reached.
        """
        _, body = self._call("GET", "/health", timeout_s=_HEALTH_TIMEOUT_S)
        return _read_memory(read_object(body))

    def knows_voice(self, key: str) -> bool:
        """Return whether a voice needs no preparing.

        Raises:
            SpeechWorkerLostError: the worker died.
        """
        status, body = self._call("GET", f"/voices/{key}")
        if status != 404:
            self._expect(status, body)
        return status == 200

    def prepare_voice(self, key: str, samples: Samples, sampling_rate: int) -> RowFault | None:
        """Have a voice prepared; return why nothing can be made of its reference clip, if so.

        Raises:
            SpeechWorkerLostError: the worker died.
        """
        path = f"/voices/{key}?sampling_rate={sampling_rate}"
        status, body = self._call("PUT", path, encode_samples(samples))
        if status == 422:
            fault = read_object(body)["fault"]
            return RowFault(str(fault["reason"]), str(fault["detail"]))
        self._expect(status, body)
        return None

    def speak(
        self, requests: Sequence[SpeakRequest], settings: dict[str, Any], on_frame: Callable[[Frame], None]
    ) -> float:
        """Have a batch spoken; each frame is handed on as soon as it comes. Returns the worker's memory in MiB after.

        Raises:
            SpeechWorkerLostError: the worker died, or was silent for too long; frames that came before are good.
        """
        connection = self._connect(self._timeout_s)
        try:
            connection.request("POST", "/speak", encode_batch(settings, list(requests)), self._headers)
            response = connection.getresponse()
            if response.status != 200:
                self._expect(response.status, response.read())
            for frame in read_frames(response):
                if frame.head.get("state") == "end":
                    return _read_memory(frame.head)
                on_frame(frame)
            raise SpeechWorkerLostError(f"speech worker {self.name} ended an answer too soon")
        except (OSError, EOFError, http.client.HTTPException) as exc:
            raise self._lose(exc) from exc
        except ProtocolError as exc:
            raise EngineSetupError(f"speech worker {self.name}: {exc}") from exc
        finally:
            connection.close()

    def shut_down(self) -> None:
        """Ask the worker to end.

        Raises:
            SpeechWorkerLostError: it cannot be reached.
        """
        self._call("POST", "/shutdown", b"", timeout_s=_HEALTH_TIMEOUT_S)

    def hang_up(self) -> None:
        """End a call that another thread waits for; to that thread the worker is lost."""
        sock = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _call(
        self, method: str, path: str, body: bytes | None = None, timeout_s: float | None = None
    ) -> tuple[int, bytes]:
        connection = self._connect(timeout_s or self._timeout_s)
        try:
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as exc:
            raise self._lose(exc) from exc
        finally:
            connection.close()

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        self._connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        return self._connection

    def _lose(self, exc: Exception) -> SpeechWorkerLostError:
        said = f"did not answer in {self._timeout_s:g} s" if isinstance(exc, TimeoutError) else f"is gone ({exc!r})"
        return SpeechWorkerLostError(f"speech worker {self.name} {said}")

    def _expect(self, status: int, body: bytes) -> None:
        """Raise EngineSetupError for any status but 200: the worker understood, and refuses all such requests."""
        if status == 200:
            return
        try:
            detail = str(read_object(body)["fault"]["detail"])
        except (ProtocolError, KeyError, TypeError):
            detail = body[:80].decode("utf-8", "replace")
        raise EngineSetupError(f"speech worker {self.name} answers {status}: {detail}")


def _read_memory(head: Any) -> float:
    try:
        value = float(head["memory"]["rss_mib"])
    except (KeyError, TypeError, ValueError):
        return 0.0
    return value if math.isfinite(value) else 0.0
