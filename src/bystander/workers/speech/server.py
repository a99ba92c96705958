"""The HTTP server of a worker: reads requests, has the model speak, writes frames."""

from __future__ import annotations

import hmac
import json
import logging
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from .memory import measure_resident_mib
from .model import RequestFault, SpeechModel
from .prepared_voices import PreparedVoices
from .protocol import (
    MAX_BODY_BYTES,
    Frame,
    ProtocolError,
    SpeakRequest,
    decode_batch,
    decode_samples,
    encode_fault,
    make_voice_key,
)

_log = logging.getLogger(__name__)
_KEY = re.compile(r"^/voices/([0-9a-f]{64})$")
_IDLE_S = 600.0


class SpeechService:
    """The model behind the server. Handlers are threads; the model is called by one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: SpeechModel | None = None
        self._voices: PreparedVoices | None = None
        self._speaking = 0

    def serve(self, model: SpeechModel, voices: PreparedVoices) -> None:
        """Be ready: until then every call but that for health is answered by 503."""
        self._model, self._voices = model, voices

    @property
    def model(self) -> SpeechModel | None:
        """None while it loads."""
        return self._model

    def measure_memory(self) -> dict[str, float]:
        device = self._model.measure_device_memory() if self._model is not None else 0.0
        return {"rss_mib": round(measure_resident_mib(), 1), "device_mib": round(device, 1)}

    def describe_health(self) -> dict[str, Any]:
        state = "loading" if self._model is None else "speaking" if self._lock.locked() else "ready"
        return {"state": state, "pid": os.getpid(), "memory": self.measure_memory()}

    def knows(self, key: str) -> bool:
        """Return whether the worker can speak in a voice now."""
        with self._lock:
            return cast(PreparedVoices, self._voices).find(key) is not None

    def prepare(self, key: str, body: bytes, sampling_rate: int) -> None:
        """Prepare a voice.

        Raises:
            ProtocolError: the body is not what the key says.
            RequestFault: nothing can be made of it.
        """
        samples = decode_samples(body)
        if make_voice_key(samples, sampling_rate) != key:
            raise ProtocolError("the samples do not have this key")
        with self._lock:
            try:
                cast(PreparedVoices, self._voices).prepare(key, samples, sampling_rate)
            except RequestFault:
                raise
            except Exception as exc:
                _log.exception("voice %s cannot be prepared", key[:12])
                raise RequestFault("unusable_reference", _tell(exc)) from exc

    def speak(self, request: SpeakRequest, settings: Any, announce: Any) -> Frame:
        """Speak one request once no other is being spoken, and return its frame; `announce()` is called before."""
        with self._lock:
            announce()
            began = time.monotonic()
            try:
                voice = cast(PreparedVoices, self._voices).find(request.voice)
                if voice is None:
                    raise RequestFault("unknown_voice", request.voice[:12])
                model = cast(SpeechModel, self._model)
                samples = model.speak(request, voice, settings)
            except RequestFault as fault:
                return _frame_fault(request, fault)
            except Exception as exc:  # whatever a model raises, the other requests of the batch can be spoken
                _log.exception("%r cannot be spoken", request.text[:60])
                return _frame_fault(request, RequestFault("synthesis_failed", _tell(exc)))
            seconds = round(time.monotonic() - began, 4)
            rate = model.describe().sampling_rate
        head = {"index": request.index, "state": "spoken", "sampling_rate": rate, "seconds": seconds}
        return Frame(head, samples)


class SpeechServer(ThreadingHTTPServer):
    """Listens from the start on, so that its health can be asked for while the model loads."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, service: SpeechService, token: str | None) -> None:
        self.service = service
        self.token = token
        super().__init__((host, port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "speech-worker"
    disable_nagle_algorithm = True  # a frame's end must not wait for an acknowledgement
    timeout = _IDLE_S
    server: SpeechServer

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        service = self.server.service
        if path == "/health":
            self._answer(200, json.dumps(service.describe_health()).encode("utf-8"))
        elif self._may_go_on():
            assert service.model is not None
            if path == "/hello":
                self._answer(200, service.model.describe().encode())
            elif found := _KEY.match(path):
                known = service.knows(found[1])
                self._answer(200 if known else 404, b"{}" if known else encode_fault("unknown_voice", found[1][:12]))
            else:
                self._answer(404, encode_fault("unknown_path", path))

    def do_PUT(self) -> None:
        parts = urlsplit(self.path)
        if not self._may_go_on() or (body := self._read_body()) is None:
            return
        found = _KEY.match(parts.path)
        if found is None:
            self._answer(404, encode_fault("unknown_path", parts.path))
            return
        try:
            (rate,) = parse_qs(parts.query).get("sampling_rate", ["0"])
            if not rate.isdecimal() or not 8000 <= int(rate) <= 384_000:
                raise ProtocolError(f"sampling_rate is {rate!r}, not a number of Hz from 8000 to 384000")
            self.server.service.prepare(found[1], body, int(rate))
        except ProtocolError as exc:
            self._answer(400, encode_fault("bad_request", str(exc)))
        except RequestFault as fault:
            self._answer(422, encode_fault(fault.reason, fault.detail))
        else:
            self._answer(200, b"{}")

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        if path == "/shutdown":
            if self._is_trusted() and self._read_body() is not None:
                self._answer(200, b"{}")
                threading.Thread(target=self.server.shutdown, daemon=True).start()
            return
        if not self._may_go_on() or (body := self._read_body()) is None:
            return
        if path != "/speak":
            self._answer(404, encode_fault("unknown_path", path))
            return
        service = self.server.service
        assert service.model is not None
        try:
            raw, requests = decode_batch(body)
            settings = service.model.read_settings(raw)
        except ValueError as exc:
            self._answer(400, encode_fault("bad_request", str(exc)))
            return
        self._speak(requests, settings)

    def _speak(self, requests: list[SpeakRequest], settings: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        service = self.server.service
        try:
            for request in sorted(requests, key=lambda one: one.voice):
                started = Frame({"index": request.index, "state": "started"})
                self._write_chunk(service.speak(request, settings, lambda frame=started: self._write_chunk(frame)))
            self._write_chunk(Frame({"state": "end", "memory": service.measure_memory()}))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:  # the client hung up: nobody waits for the rest
            self.close_connection = True

    def _write_chunk(self, frame: Frame) -> None:
        data = frame.encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _may_go_on(self) -> bool:
        """Return whether the caller is trusted and the model there; answer it otherwise."""
        if not self._is_trusted():
            return False
        if self.server.service.model is None:
            self.close_connection = True  # its body was not read
            self._answer(503, encode_fault("loading", "the model is being loaded"))
            return False
        return True

    def _is_trusted(self) -> bool:
        token = self.server.token
        given = self.headers.get("Authorization", "")
        if token is None or hmac.compare_digest(given.encode("utf-8"), f"Bearer {token}".encode()):
            return True
        self.close_connection = True  # its body was not read
        self._answer(401, encode_fault("unauthorised", "the token of this worker is missing or wrong"))
        return False

    def _read_body(self) -> bytes | None:
        """Return the body; None if it cannot be had, which has been answered then."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self._answer(413 if length.isdecimal() else 411, encode_fault("bad_request", f"Content-Length {length!r}"))
            return None
        return self.rfile.read(int(length))

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a line a call would bury what matters in the log."""


def _frame_fault(request: SpeakRequest, fault: RequestFault) -> Frame:
    return Frame({"index": request.index, "state": "fault", "reason": fault.reason, "detail": fault.detail})


def _tell(exc: BaseException) -> str:
    lines = str(exc).splitlines()
    return f"{type(exc).__name__}: {lines[0][:200] if lines else ''}"
