"""The folder of a study: what raters see, what is behind it, and the answers that came in."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import secrets
from collections.abc import Iterable, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from bystander.schemas.errors import BuildError, MissingFileError, StorageError
from bystander.schemas.study import ShownSheet, StudyFile, StudyKey, StudyManifest
from bystander.schemas.study_answers import StudyAnswer
from bystander.storage.filesystem import Store, open_store

STUDIES = "studies"
"""Folder of a store that holds its studies."""
STUDY_NAME = "study.json"
TASKS_NAME = "tasks.csv"
SHEETS_NAME = "sheets.json"
KEY_NAME = "key.json"
SALT_NAME = "salt.txt"
PAGE_NAME = "crowd.html"
CLIPS = "clips"
ANSWERS = "answers"
REJECTS = "rejects"

_Model = TypeVar("_Model", bound=BaseModel)


def open_study(address: str) -> tuple[Store, StudyManifest]:
    """Return folder and manifest of a study.

    Raises:
        BuildError: there is none, or it is of another version.
    """
    store = open_store(address)
    return store, _read_model(store, STUDY_NAME, StudyManifest, "name the folder that `study make` wrote")


def read_key(store: Store) -> StudyKey:
    """Return what is behind each place of each sheet.

    Raises:
        BuildError: it is missing or of another version.
    """
    return _read_model(store, KEY_NAME, StudyKey, "make the study again")


def read_sheets(store: Store, manifest: StudyManifest) -> list[ShownSheet]:
    """Return what raters see, sheet by sheet.

    Raises:
        BuildError: it is missing, or not what the manifest says.
    """
    check_files(store, manifest, [SHEETS_NAME])
    return [ShownSheet.model_validate(sheet) for sheet in json.loads(store.read_bytes(SHEETS_NAME))]


def check_files(store: Store, manifest: StudyManifest, names: Iterable[str]) -> None:
    """Raise where a file is not what the manifest says.

    Raises:
        BuildError: names the first such file.
    """
    known = {info.file: info for info in manifest.files}
    for name in names:
        info = known.get(name)
        try:
            if info is None or store.size(name) != info.bytes or store.sha256(name) != info.sha256:
                raise BuildError(f"{store.uri_of(name)}: is not what {STUDY_NAME} says; make the study again")
        except MissingFileError as exc:
            raise BuildError(f"{exc}; make the study again") from exc


def keep_salt(store: Store) -> None:
    """Write the salt of a study, unless it has one: its raters must stay who they are.

    It is drawn from the system, not from the seed: with a salt that can be guessed, ids can be found out by trying.
    """
    if not store.exists(SALT_NAME):
        store.write_bytes(SALT_NAME, f"{secrets.token_hex(16)}\n".encode())


def read_salt(store: Store) -> str:
    """Return the salt, with which ids of raters are made into what is stored of them.

    Raises:
        BuildError: it was removed, so that nobody can tell any more who is who, and no answer can be added.
    """
    try:
        return store.read_bytes(SALT_NAME).decode().strip()
    except MissingFileError as exc:
        raise BuildError(f"{exc}, and raters' ids cannot be told apart without it; put it back") from exc


def hash_rater(salt: str, rater: str) -> str:
    """Return what stands for a rater's id: nobody can tell the id from it without the salt."""
    digest = hashlib.sha256(f"{salt}:{rater}".encode()).hexdigest()
    return f"rater-{digest[:16]}"


def encode_sheet(sheet: ShownSheet) -> str:
    """Return a sheet as letters, digits, `-` and `_` alone, which any platform's templates carry unharmed."""
    text = json.dumps(sheet.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_sheet(text: str) -> ShownSheet:
    """Return the sheet of `encode_sheet`."""
    return ShownSheet.model_validate_json(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def format_tasks(sheets: Sequence[ShownSheet]) -> str:
    """Return `tasks.csv`: a line a sheet, with the field `task` for the page's `${task}`."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["sheet", "task"])
    writer.writerows([sheet.sheet, encode_sheet(sheet)] for sheet in sheets)
    return sink.getvalue()


def write_file(store: Store, name: str, data: bytes) -> StudyFile:
    """Write a file of the study."""
    store.write_bytes(name, data)
    return StudyFile(file=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def write_key(store: Store, key: StudyKey) -> StudyFile:
    """Write the key, an item and a sheet a line."""
    return write_file(store, KEY_NAME, key.model_dump_json(indent=1).encode() + b"\n")


def write_study(store: Store, manifest: StudyManifest) -> None:
    """Write the manifest; call it after every other file is in place."""
    store.write_bytes(STUDY_NAME, manifest.model_dump_json(indent=2).encode() + b"\n")


def read_answers(store: Store) -> list[StudyAnswer]:
    """Return all answers that were imported or given to the local server, source by source in their order.

    Raises:
        StorageError: a line is damaged other than the last one, which a stopped server may have left half written.
    """
    return [answer for name in store.list(ANSWERS) if name.endswith(".jsonl") for answer in read_served(store, name)]


def read_served(store: Store, name: str) -> list[StudyAnswer]:
    """Return the answers in one file; none if there is no such file.

    Raises:
        StorageError: a line is damaged other than the last one, which a stopped server may have left half written.
    """
    answers: list[StudyAnswer] = []
    if store.exists(name):
        lines = store.read_bytes(name).split(b"\n")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                answers.append(StudyAnswer.model_validate_json(line))
            except ValidationError as exc:
                if number == len(lines):
                    continue
                raise StorageError(f"{store.uri_of(name)}: line {number} is no answer; mend or remove it") from exc
    return answers


def _read_model(store: Store, name: str, kind: type[_Model], remedy: str) -> _Model:
    try:
        return kind.model_validate_json(store.read_bytes(name))
    except MissingFileError as exc:
        raise BuildError(f"{exc}, so this is no study; {remedy}") from exc
    except ValidationError as exc:
        raise BuildError(f"{store.uri_of(name)}: is not of this version ({exc.errors()[0]['msg']}); {remedy}") from exc
