"""Files of a batch of chat requests, as OpenAI's batch API and `vllm run-batch` read and write them.

A line is known by its `custom_id`, which is a digest of the request's body: so an answer serves whoever asks the same,
in whatever file and order it stands, and a build that goes on finds what was answered before.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bystander.schemas.engines import RowFault
from bystander.schemas.errors import EngineError, EngineSetupError, InputError
from bystander.schemas.identity import digest_json
from bystander.tasks.engines.chat_exchange import ChatAnswer, read_completion

URL = "/v1/chat/completions"
_REFUSALS = frozenset({400, 413, 422})
"""Statuses that speak of the request; all others speak of the server."""


@dataclass(frozen=True, slots=True)
class _Place:
    path: Path
    start: int
    size: int
    answered: bool


class BatchFolder:
    """A folder of `requests-*.jsonl` and `results-*.jsonl`. Safe to use from several threads at once."""

    def __init__(self, path: Path) -> None:
        """Take the folder; it is made when something is written."""
        self.path = path
        self._places: dict[str, _Place] = {}
        self._read_to: dict[Path, tuple[int, int]] = {}
        """For each file of results, the bytes and the lines that were looked at."""
        self._lock = threading.Lock()

    def write_requests(self, bodies: Mapping[str, Mapping[str, Any]]) -> tuple[Path, Path]:
        """Write the bodies, which go by their ids, and return the paths of the requests and of the results to come.

        The same bodies give the same paths.

        Raises:
            EngineSetupError: the folder cannot be written.
        """
        name = f"{digest_json(sorted(bodies))[:16]}.jsonl"
        requests, results = self.path / f"requests-{name}", self.path / f"results-{name}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not requests.exists():
                part = requests.with_suffix(f".{os.getpid()}-{threading.get_ident()}.part")
                with part.open("w", encoding="utf-8") as sink:
                    for custom_id, body in bodies.items():
                        line = {"custom_id": custom_id, "method": "POST", "url": URL, "body": body}
                        sink.write(json.dumps(line, ensure_ascii=True) + "\n")
                part.replace(requests)
        except OSError as exc:
            raise EngineSetupError(f"batch folder {self.path}: cannot be written ({exc.strerror})") from exc
        return requests, results

    def read_results(self) -> None:
        """Look at what has been added to the files of results.

        Raises:
            InputError: a line is no result of a batch.
        """
        with self._lock:
            for path in sorted(self.path.glob("results-*.jsonl")):
                self._read_file(path)

    def find(self, custom_id: str) -> ChatAnswer | RowFault | None:
        """Return the answer to a request, or None where there is none yet. Fault: `request_refused`.

        Raises:
            EngineError: the server failed at it.
            EngineSetupError: the server does not know the model.
            InputError: its answer is no chat completion.
        """
        with self._lock:
            place = self._places.get(custom_id)
        if place is None:
            return None
        try:
            with place.path.open("rb") as source:
                source.seek(place.start)
                result = json.loads(source.read(place.size))
        except (OSError, ValueError):
            return None  # removed or written anew since it was looked at: it is asked for again
        response = result.get("response") or {}
        if place.answered:
            try:
                return read_completion(response.get("body") or {})
            except ValueError as exc:
                raise InputError(
                    f"{place.path}: the answer to {custom_id} is {exc}; delete the file and run the batch again"
                ) from exc
        status = response.get("status_code", 500)
        said = _describe_error(result.get("error"))
        if status in _REFUSALS:
            return RowFault("request_refused", said)
        if status == 404:
            raise EngineSetupError(f"{place.path}: the model's name is not known there ({said}); check `model`")
        raise EngineError(
            f"{place.path}: request {custom_id} failed with status {status} ({said}); delete the file and run the "
            "batch again"
        )

    def discard(self, *paths: Path) -> None:
        """Remove files and forget their results."""
        with self._lock:
            self._places = {name: place for name, place in self._places.items() if place.path not in paths}
            for path in paths:
                self._read_to.pop(path, None)
                path.unlink(missing_ok=True)

    def _read_file(self, path: Path) -> None:
        start, number = self._read_to.get(path, (0, 0))
        with path.open("rb") as source:
            source.seek(start)
            for line in source:
                if not line.endswith(b"\n"):
                    break  # it is still being written
                number += 1
                if line.strip():
                    self._keep(path, number, start, line)
                start += len(line)
        self._read_to[path] = (start, number)

    def _keep(self, path: Path, number: int, start: int, line: bytes) -> None:
        try:
            result = json.loads(line)
            custom_id = str(result["custom_id"])
            response = result.get("response") or {}
            answered = response.get("status_code", 500) == 200 and not result.get("error")
        except (AttributeError, KeyError, TypeError, ValueError) as exc:
            raise InputError(
                f"{path}, line {number}: is no result of a batch; delete the file and run the batch again"
            ) from exc
        known = self._places.get(custom_id)
        if known is None or answered or not known.answered:
            self._places[custom_id] = _Place(path, start, len(line), answered)


def name_request(body: Mapping[str, Any]) -> str:
    """Return the `custom_id` of a request."""
    return digest_json(body)[:32]


def _describe_error(error: Any) -> str:
    """Return what an error of a result says: a text, or an object with a `message`, perhaps in an `error`."""
    while isinstance(error, Mapping):
        error = error.get("error") or error.get("message")
    text = " ".join(str(error or "no reason is given").split())
    return text if len(text) <= 300 else text[:297] + "..."
