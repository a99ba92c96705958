"""Replies that some system gave elsewhere, read from files."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from bystander.schemas.engine_configs import PredictionsConfig
from bystander.schemas.engines import AnswerReply, AnswerRequest, EngineIdentity, RowFault
from bystander.schemas.errors import InputError
from bystander.schemas.evaluation import PREDICTION

OnReply = Callable[[int, AnswerReply], None]

_LISTED = 20
"""As many ids are listed in a message; of more, their number."""


@dataclass(frozen=True, slots=True)
class _Prediction:
    id: str
    reply: str | None
    place: str  # file, and line or row in it


class PredictionsCandidate:
    """Answers a row with what the files say about its id. All of them are read and checked when it is made."""

    def __init__(
        self,
        config: PredictionsConfig,
        resolve_model: Callable[[str], Path] | None = None,  # noqa: ARG002 - all adapters are built alike
    ) -> None:
        """Read the files that `path` names: a file, a glob or an fsspec URL, each JSONL (.jsonl, .ndjson) or Parquet.

        Raises:
            InputError: there is no such file, it cannot be read, lacks a column, has a line that is no prediction, or
                an id has more than one prediction.
        """
        self._path = config.path
        digest = hashlib.sha256()
        predictions: list[_Prediction] = []
        for name, data in _read_files(config.path):
            digest.update(hashlib.sha256(data).digest())
            predictions += _read_parquet(name, data) if name.endswith(".parquet") else _read_json_lines(name, data)
        self._digest = digest.hexdigest()
        if not predictions:
            raise InputError(f"predictions {config.path}: there is none in it; write one line a row of the bench")
        _check_ids(config.path, predictions)
        self._replies = {prediction.id: prediction.reply for prediction in predictions}

    @property
    def identity(self) -> EngineIdentity:
        """Named by the SHA-256 of the files' content; where they lie does not matter."""
        return EngineIdentity(kind="candidate", name="predictions", model="predictions", revision=self._digest)

    def answer(
        self, requests: Sequence[AnswerRequest], on_reply: OnReply | None = None
    ) -> list[AnswerReply | RowFault]:
        """Return one reply or fault a request, in order.

        Faults: `not_predicted` (the files lack the id), `empty_reply` (its reply is null or blank).
        """
        replies = [self._find(request.id) for request in requests]
        if on_reply is not None:
            for index, reply in enumerate(replies):
                if isinstance(reply, AnswerReply):
                    on_reply(index, reply)
        return replies

    def __len__(self) -> int:
        """Return how many predictions there are."""
        return len(self._replies)

    def list_unknown_ids(self, bench_ids: Collection[str]) -> list[str]:
        """Return the ids that have a prediction and are none of `bench_ids`, in the order of the files."""
        known = frozenset(bench_ids)
        return [key for key in self._replies if key not in known]

    def close(self) -> None:
        """Do nothing: the files are closed already."""

    def _find(self, row: str) -> AnswerReply | RowFault:
        if row not in self._replies:
            return RowFault("not_predicted", f"predictions {self._path}: none for the id {row}")
        reply = self._replies[row]
        if reply is None or not reply.strip():
            return RowFault("empty_reply", f"predictions {self._path}: the reply for the id {row} is empty", reply)
        return AnswerReply(reply)


def list_ids(ids: Sequence[str]) -> str:
    """Return ids for a message: the first 20, and how many more there are."""
    more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
    return ", ".join(ids[:_LISTED]) + more


def _read_files(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file, sorted by name."""
    try:
        filesystem, root = fsspec.core.url_to_fs(path)
        names = sorted(filesystem.glob(root)) if _has_pattern(root) else [root]
    except (ValueError, ImportError, OSError) as exc:
        raise InputError(f"predictions {path}: cannot be opened ({exc})") from exc
    if not names:
        raise InputError(f"predictions {path}: no file matches; check the field `path`")
    for name in names:
        if not name.endswith((".jsonl", ".ndjson", ".parquet")):
            raise InputError(f"predictions {name}: is neither .jsonl, .ndjson nor .parquet; convert it to one of them")
        try:
            yield name, filesystem.cat_file(name)
        except OSError as exc:
            why = "there is no such file" if isinstance(exc, FileNotFoundError) else f"cannot be read ({exc})"
            raise InputError(f"predictions {name}: {why}; check the field `path`") from exc


def _has_pattern(path: str) -> bool:
    return any(mark in path for mark in "*?[")


def _read_json_lines(name: str, data: bytes) -> Iterator[_Prediction]:
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"{name}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise InputError(
                f"predictions {place}: is not JSON ({exc}); write one object with the fields id and reply a line"
            ) from exc
        if not isinstance(value, dict):
            raise InputError(f"predictions {place}: is no JSON object; write one with the fields id and reply")
        if missing := [column for column in PREDICTION.names if column not in value]:
            raise InputError(f"predictions {place}: has no field {' and no field '.join(missing)}")
        yield _make_prediction(value["id"], value["reply"], place)


def _read_parquet(name: str, data: bytes) -> Iterator[_Prediction]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(io.BytesIO(data))
        columns = file.schema_arrow.names
        if missing := [column for column in PREDICTION.names if column not in columns]:
            raise InputError(
                f"predictions {name}: has no column {' and no column '.join(missing)}; it has {', '.join(columns)}"
            )
        rows = file.read(PREDICTION.names).to_pylist()
    except (pa.ArrowException, OSError) as exc:
        raise InputError(f"predictions {name}: is no Parquet file that can be read ({exc})") from exc
    for number, row in enumerate(rows, start=1):
        yield _make_prediction(row["id"], row["reply"], f"{name}, row {number}")


def _make_prediction(row: Any, reply: Any, place: str) -> _Prediction:
    if not isinstance(row, str) or not row:
        raise InputError(f"predictions {place}: the id is {row!r}; it must be the text that the bench has in `id`")
    if reply is not None and not isinstance(reply, str):
        raise InputError(f"predictions {place}: the reply to {row} is {reply!r}; it must be text, or null")
    return _Prediction(row, reply, place)


def _check_ids(path: str, predictions: Sequence[_Prediction]) -> None:
    first: dict[str, str] = {}
    doubled: dict[str, str] = {}
    for prediction in predictions:
        if prediction.id in first:
            doubled.setdefault(prediction.id, f"{first[prediction.id]}, and {prediction.place}")
        first.setdefault(prediction.id, prediction.place)
    if doubled:
        number = f"{len(doubled)} ids have" if len(doubled) > 1 else "1 id has"
        where = next(iter(doubled.values()))
        raise InputError(
            f"predictions {path}: {number} more than one reply, the first at {where}; keep one of each: "
            f"{list_ids(list(doubled))}"
        )
