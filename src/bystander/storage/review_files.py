"""The files of a review: a journal for each annotator, and the decisions that come of them."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeVar

from pydantic import BaseModel, ValidationError

from bystander.schemas.errors import InputError, StorageError
from bystander.schemas.field_faults import describe_field_faults
from bystander.schemas.review import JournalHeader, ReviewDecision, ReviewEntry, RowReview
from bystander.storage.filesystem import open_file

REVIEWS_FOLDER = "reviews"
JOURNAL_ENDING = ".jsonl"
_Line = TypeVar("_Line", bound=BaseModel)


@dataclass(slots=True)
class JournalContent:
    """What a journal holds: for each row what counts in the end, and how far each client had got."""

    header: JournalHeader
    reviews: dict[str, RowReview] = field(default_factory=dict)
    last_seq: dict[str, int] = field(default_factory=dict)
    whole_bytes: int = 0
    """Up to the end of the last whole line."""
    torn_bytes: int = 0
    """Of a last line whose writer was stopped in its midst; it is left out."""

    def take(self, entry: ReviewEntry) -> bool:
        """Let an entry count, and return False where it was there before."""
        if entry.seq <= self.last_seq.get(entry.client, 0):
            return False
        self.last_seq[entry.client] = entry.seq
        self.reviews[entry.row_id] = self.reviews.get(entry.row_id, RowReview()).apply(entry.changes)
        return True


def read_journal(path: Path) -> JournalContent:
    """Read a journal; a last line that is not whole is left out, and counted.

    Raises:
        InputError: there is none, or a line is wrong; the message names line and field.
    """
    where = f"review journal {path}"
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise InputError(f"{where}: cannot be read ({exc.strerror})") from exc
    whole, _, torn = data.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    if not lines:
        raise InputError(f"{where}: has no first line that names its build; remove the file")
    content = JournalContent(_read_line(JournalHeader, lines[0], f"{where}: line 1"))
    content.whole_bytes, content.torn_bytes = len(data) - len(torn), len(torn)
    for number, line in enumerate(lines[1:], 2):
        content.take(_read_line(ReviewEntry, line, f"{where}: line {number}"))
    return content


def list_journals(folder: Path) -> list[str]:
    """Return the names of the annotators who have a journal in a folder, sorted."""
    return sorted(path.name.removesuffix(JOURNAL_ENDING) for path in folder.glob(f"*{JOURNAL_ENDING}"))


def read_reviews(folder: Path, build_digest: str) -> dict[str, dict[str, RowReview]]:
    """Return what each annotator who has a journal in a folder said about each row.

    Raises:
        InputError: a journal is of other rows than `build_digest` is of, or a line of it is wrong.
    """
    return {name: read_annotator(folder, name, build_digest).reviews for name in list_journals(folder)}


def read_annotator(folder: Path, annotator: str, build_digest: str) -> JournalContent:
    """Read the journal of one annotator of a build.

    Raises:
        InputError: there is none, it is of other rows, or a line is wrong.
    """
    path = folder / f"{annotator}{JOURNAL_ENDING}"
    content = read_journal(path)
    _check_digest(path, content.header, build_digest)
    return content


def _check_digest(path: Path, header: JournalHeader, build_digest: str) -> None:
    if header.build_digest != build_digest:
        raise InputError(
            f"review journal {path}: is of a build {header.dataset}/{header.build} that had other rows; move it aside, "
            "or review the build that it is of"
        )


class ReviewJournal:
    """An annotator's journal, open for more. What `append` has returned from is on the disk.

    One process at a time may hold it, by the system's lock where there is `flock`; threads of it may share it.
    """

    def __init__(self, folder: Path, header: JournalHeader) -> None:
        """Open the journal of the header's annotator, or begin it.

        Raises:
            InputError: it is of another build, or a line is wrong.
            StorageError: it cannot be written, or another process holds it.
        """
        self.path = folder / f"{header.annotator}{JOURNAL_ENDING}"
        self._guard = threading.Lock()
        self._file: IO[bytes] | None = None
        with self._wrap_errors():
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab", buffering=0)  # what failed to be written must not come later
        try:
            _hold(self._file, self.path)
            self.content = self._read(header)
        except BaseException:
            self.close()
            raise

    @property
    def annotator(self) -> str:
        return self.content.header.annotator

    def append(self, entries: Iterable[ReviewEntry]) -> int:
        """Write those entries that are new, in one go, flush them to the disk, and return how many they were.

        Raises:
            StorageError: they cannot be written, and none of them counts.
        """
        with self._guard:
            known = dict(self.content.last_seq)
            fresh = []
            for entry in entries:
                if entry.seq > known.get(entry.client, 0):
                    known[entry.client] = entry.seq
                    fresh.append(entry)
            if fresh:
                self._write("".join(f"{entry.dump_json()}\n" for entry in fresh).encode())
            for entry in fresh:
                self.content.take(entry)
            return len(fresh)

    def close(self) -> None:
        """Let go of it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, header: JournalHeader) -> JournalContent:
        size = self.path.stat().st_size
        if size and b"\n" not in self.path.read_bytes():
            with self._wrap_errors():
                os.truncate(self.path, 0)  # not even its first line is whole
            size = 0
        if not size:
            self._write(f"{header.model_dump_json()}\n".encode())
        content = read_journal(self.path)
        _check_digest(self.path, content.header, header.build_digest)
        if content.torn_bytes:
            with self._wrap_errors():
                os.truncate(self.path, content.whole_bytes)
        return content

    def _write(self, data: bytes) -> None:
        if self._file is None:
            raise StorageError(f"review journal {self.path}: is closed")
        before = self.path.stat().st_size
        try:
            with self._wrap_errors():
                rest = memoryview(data)
                while rest:
                    rest = rest[self._file.write(rest) :]
                os.fsync(self._file.fileno())
        except StorageError:
            with contextlib.suppress(OSError):  # or half a line would stand before the next one
                os.truncate(self.path, before)
            raise

    @contextlib.contextmanager
    def _wrap_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise StorageError(f"review journal {self.path}: cannot be written ({exc.strerror})") from exc


def _hold(file: IO[bytes], path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # a system without it
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        raise StorageError(
            f"review journal {path}: another `bystander review` is writing it; use that one's page, or end it"
        ) from exc


def write_decisions(address: str, decisions: Iterable[ReviewDecision]) -> int:
    """Write decisions as JSONL, one a line, and return how many they were; the address may be a URL.

    Raises:
        StorageError: the file cannot be written.
    """
    lines = [f"{decision.dump_json()}\n" for decision in decisions]
    store, name = open_file(address)
    store.write_bytes(name, "".join(lines).encode())
    return len(lines)


def read_decisions(address: str, build_digest: str | None = None) -> list[ReviewDecision]:
    """Read a file of decisions, in its order.

    Args:
        address: path or URL.
        build_digest: of the rows that the decisions must be about, by `digest_rows`; None takes any, but only one.

    Raises:
        InputError: it cannot be read, a line is wrong (the message names line and field), decides a row twice, or is
            about another build.
    """
    where = f"decisions {address}"
    store, name = open_file(address)
    try:
        data = store.read_bytes(name)
    except StorageError as exc:
        raise InputError(f"decisions {exc}") from exc
    decisions: list[ReviewDecision] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        decision = _read_line(ReviewDecision, line, f"{where}: line {number}")
        if decision.row_id in seen:
            raise InputError(
                f"{where}: line {number}: row_id: {decision.row_id} was decided in line {seen[decision.row_id]} "
                "already; keep one of the two"
            )
        expected = build_digest or (decisions[0].build_digest if decisions else decision.build_digest)
        if decision.build_digest != expected:
            raise InputError(
                f"{where}: line {number}: build_digest: is that of other rows "
                f"({decision.build_digest[:12]}… instead of {expected[:12]}…); export the decisions of the build that "
                "they are to be applied to"
            )
        seen[decision.row_id] = number
        decisions.append(decision)
    return decisions


def _read_line(model: type[_Line], line: bytes, where: str) -> _Line:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise InputError(f"{where}: is no JSON object; restore the line or remove it") from exc
    try:
        return model.model_validate(value, strict=False)
    except ValidationError as exc:
        raise InputError(f"{where}: {describe_field_faults(model, exc)}") from exc
