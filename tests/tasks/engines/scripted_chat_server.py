"""A small OpenAI-compatible server on loopback that answers as the test scripts it."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Scripted:
    """One HTTP answer: a chat message, or an error status."""

    content: str = ""
    finish_reason: str = "stop"
    status: int = 200
    error: str = "scripted error"
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    logprobs: list[tuple[str, float]] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    body: bytes | None = None


Script = Callable[[dict[str, Any], int], Scripted]
"""(request body, number of requests before it) -> answer."""


class ScriptedChatServer:
    """Keeps the bodies of all requests in `bodies` and the most requests ever open at once in `most_open`."""

    def __init__(self, script: Script, models: list[str] | None = None, port: int = 0) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.most_open = 0
        self._open = 0
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._script = script
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer._answer(self)

            def setup(self) -> None:
                super().setup()
                outer._connections.add(self.connection)

            def finish(self) -> None:
                outer._connections.discard(self.connection)
                with contextlib.suppress(OSError):
                    super().finish()

            def do_GET(self) -> None:
                outer._list_models(self)

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *args: Any) -> None:
                pass  # a client that was killed

        self.models = models
        """What it lists as served; None: it has no such page, nor one of its health."""
        self._http = Server(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.port: int = self._http.server_address[1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"

    def close(self) -> None:
        """Stop as a process that dies would: connections that are kept open end, too."""
        self._http.shutdown()
        self._http.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _list_models(self, handler: BaseHTTPRequestHandler) -> None:
        if self.models is None or not handler.path.endswith(("/models", "/health")):
            handler.send_error(404)
            return
        listed = [{"id": name, "object": "model"} for name in self.models]
        data = b"" if handler.path.endswith("/health") else json.dumps({"object": "list", "data": listed}).encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self._lock:
            number = len(self.bodies)
            self.bodies.append(body)
            self.keys.append(handler.headers.get("Authorization"))
            self._open += 1
            self.most_open = max(self.most_open, self._open)
        try:
            scripted = self._script(body, number)
            time.sleep(scripted.delay_s)
        finally:
            with self._lock:
                self._open -= 1
        data = scripted.body if scripted.body is not None else json.dumps(_render(scripted)).encode()
        try:
            handler.send_response(scripted.status)
            for name, value in {"Content-Type": "application/json", **scripted.headers}.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data)
        except OSError:  # the client gave up waiting
            handler.close_connection = True


def _render(scripted: Scripted) -> dict[str, Any]:
    if scripted.status >= 400:
        return {"error": {"message": scripted.error, "code": scripted.status}}
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": scripted.finish_reason,
        "message": {"role": "assistant", "content": scripted.content, **scripted.extra},
    }
    if scripted.logprobs is not None:
        listed = [{"token": token, "logprob": logprob, "bytes": None} for token, logprob in scripted.logprobs]
        choice["logprobs"] = {"content": [{**listed[0], "top_logprobs": listed}]}
    return {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [choice],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


@contextmanager
def serve_script(script: Script, models: list[str] | None = None, port: int = 0) -> Iterator[ScriptedChatServer]:
    """Run a server for the length of a `with` block."""
    server = ScriptedChatServer(script, models, port)
    try:
        yield server
    finally:
        server.close()


def answer_well(body: dict[str, Any], _number: int) -> Scripted:
    """Answer as a good model would: JSON that fits, Yes for every option request; deterministic in body and seed."""
    if body.get("logprobs"):
        return Scripted("Yes", logprobs=[("Yes", -0.1), (" No", -2.5), ("Maybe", -5.0)])
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    said = re.sub(r"\W+", " ", body["messages"][-1]["content"])[-40:]
    if schema is None:
        return Scripted(f"{said} {body['seed']}")
    value = {
        key: kind["enum"][0] if "enum" in kind else f"{said} {body['seed']}"
        for key, kind in schema["properties"].items()
    }
    return Scripted(json.dumps(value))
