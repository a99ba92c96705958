"""A real S3 server (moto's) in a process of its own, and the requests that it has answered."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Self
from uuid import uuid4

import httpx

PATIENCE_S = 60
PAGE_FILES = 50
"""Files on a page of a listing; S3 itself has 1,000."""
_REQUEST = re.compile(r'"([A-Z]+) (\S*) HTTP/1\.\d" (\d{3})')


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class ObjectStoreServer:
    """Use it as a context manager; it listens on a free port of this machine and is stopped by its process id."""

    def __init__(self) -> None:
        self.port = find_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1",
        }

    def __enter__(self) -> Self:
        self._log = tempfile.NamedTemporaryFile(prefix="bystander-s3-", suffix=".log")
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
        environment["MOTO_S3_DEFAULT_MAX_KEYS"] = str(PAGE_FILES)
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self._log, env=environment)
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                httpx.get(f"{self.url}/moto-api/", trust_env=False)
                return self
            except httpx.TransportError:
                if time.monotonic() > until or self._process.poll() is not None:
                    self.__exit__()
                    raise
                time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()

    def make_bucket(self) -> str:
        """Make an empty bucket and return its name."""
        name = f"bucket-{uuid4().hex[:12]}"
        httpx.put(f"{self.url}/{name}", trust_env=False).raise_for_status()
        return name

    def mark(self) -> int:
        """Return a place in the log of requests, for `list_requests`."""
        return Path(self._log.name).stat().st_size

    def list_requests(self, since: int = 0) -> list[tuple[str, str, int]]:
        """Return verb, path with query, and status of every request answered since a mark."""
        with Path(self._log.name).open("rb") as log:
            log.seek(since)
            text = log.read().decode()
        return [(verb, path, int(status)) for verb, path, status in _REQUEST.findall(text)]

    def count_requests(self, since: int = 0) -> Counter[str]:
        """Count requests by what S3 calls them."""
        return Counter(_name_request(verb, path) for verb, path, _ in self.list_requests(since))


def _name_request(verb: str, path: str) -> str:
    if verb == "GET":
        return "LIST" if "list-type" in path else "GET"
    return "PART" if "partNumber" in path else verb
