"""Serves a folder over HTTP on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_UNKNOWN_LENGTH = "/unknown-length/"


class _Handler(SimpleHTTPRequestHandler):
    def translate_path(self, path: str) -> str:
        return super().translate_path(path.replace(_UNKNOWN_LENGTH, "/"))

    def send_header(self, keyword: str, value: str) -> None:
        if not (keyword == "Content-Length" and self.path.startswith(_UNKNOWN_LENGTH)):
            super().send_header(keyword, value)

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Yield the address of `folder`; files below `/unknown-length/` are sent without their length."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
