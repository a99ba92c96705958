"""Takes reviews out of a build's journals and brings them back: decisions, and Label Studio's files."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bystander.schemas.errors import InputError, StorageError
from bystander.schemas.review import ReviewDecision, ReviewEntry, RowEdits, RowReview
from bystander.schemas.review_rows import ListedRow
from bystander.storage.filesystem import Store, open_file, open_store
from bystander.storage.review_files import ReviewJournal, read_decisions, read_reviews
from bystander.storage.review_rows import ReviewBuild
from bystander.tasks.review.label_studio import ImportedReview, make_labelling_config, make_task, read_export
from bystander.tasks.review.resolution import Resolution, resolve_reviews

TASKS_NAME, CONFIG_NAME, CLIPS_FOLDER = "tasks.json", "labelling_config.xml", "clips"
LOCAL_FILES = "/data/local-files/?d="
"""How Label Studio asks for files below its LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,120}", re.ASCII)


def decide_rows(build: ReviewBuild, folder: Path, how: Resolution) -> list[ReviewDecision]:
    """Return what the journals in a folder come to by these rules.

    Raises:
        InputError: nobody has judged a row, or a journal is wrong.
        ConfigError: the rules name somebody who did not review.
    """
    reviews = read_reviews(folder, build.digest)
    known = {
        name: {row_id: review for row_id, review in said.items() if row_id in build.rows}
        for name, said in reviews.items()
    }
    decisions = resolve_reviews(known, build.digest, build.read_values, how)
    if not decisions and not any(review.verdict for said in known.values() for review in said.values()):
        raise InputError(f"{build.store.uri}: nobody has judged a row yet; its journals would lie in {folder}")
    return decisions


def export_label_studio(build: ReviewBuild, row_ids: Sequence[str], out: str, audio_prefix: str | None = None) -> int:
    """Write tasks, the labelling configuration, and the clips, for Label Studio; return the number of tasks.

    Args:
        build: the build.
        row_ids: rows to label.
        out: folder or URL to write into.
        audio_prefix: begins each clip's address, the row's id follows; None writes the clips beside the tasks, to be
            served by Label Studio from there.

    Raises:
        StorageError: a file cannot be written.
    """
    store = open_store(out)
    tasks = []
    for row_id in row_ids:
        if audio_prefix is None:
            name = _write_clip(store, build, row_id)
            audio = f"{LOCAL_FILES}{store.path(Path(store.uri).name, name)}"
        else:
            audio = f"{audio_prefix}{row_id}"
        tasks.append(make_task(build.rows[row_id], build.read_values(row_id), audio, build.digest))
    store.write_bytes(CONFIG_NAME, make_labelling_config(build.kind).encode())
    store.write_bytes(TASKS_NAME, (json.dumps(tasks, ensure_ascii=False, indent=1) + "\n").encode())
    return len(tasks)


def _write_clip(store: Store, build: ReviewBuild, row_id: str) -> str:
    audio: bytes = build.read_row(row_id)["audio"]["bytes"] or b""
    stem = row_id if _SAFE_NAME.fullmatch(row_id) else hashlib.sha256(row_id.encode()).hexdigest()[:20]
    name = f"{CLIPS_FOLDER}/{stem}.{'wav' if audio.startswith(b'RIFF') else 'flac'}"
    store.write_bytes(name, audio)
    return name


def import_reviews(build: ReviewBuild, folder: Path, address: str, annotator: str | None = None) -> dict[str, int]:
    """Write what a file says into the journals, and return the number of rows that each annotator had anew.

    The same file may be imported again: what was taken from it before is skipped.

    Args:
        build: the build.
        folder: of its journals.
        address: path or URL of a JSON export of Label Studio (`.json`) or of `decisions.jsonl`, whose annotators' own
            verdicts are taken.
        annotator: whose all annotations of an export are; None: whoever it says.

    Raises:
        InputError: the file is wrong, or about other rows; nothing is written.
        StorageError: a journal cannot be written.
    """
    found = defaultdict[str, list[ImportedReview]](list)
    data = _read_file(address)
    for one in _read_reviews(build, address, data, annotator):
        found[one.annotator].append(one)
    if not found:
        raise InputError(f"{address}: holds no annotation")
    client = f"import-{hashlib.sha256(data).hexdigest()[:40]}"
    written = {}
    for name, reviews in sorted(found.items()):
        journal = ReviewJournal(folder, build.make_header(name))
        try:
            written[name] = journal.append(_make_entries(reviews, client))
        finally:
            journal.close()
    return written


def _read_file(address: str) -> bytes:
    store, name = open_file(address)
    try:
        return store.read_bytes(name)
    except StorageError as exc:
        raise InputError(f"reviews {exc}") from exc


def _read_reviews(build: ReviewBuild, address: str, data: bytes, annotator: str | None) -> list[ImportedReview]:
    if address.endswith(".jsonl"):
        return list(_list_verdicts(build, address))

    def find_row(row_id: str) -> tuple[ListedRow, RowEdits] | None:
        row = build.rows.get(row_id)
        return None if row is None else (row, build.read_values(row_id))

    return read_export(data, address, build.kind, build.digest, find_row, annotator)


def _list_verdicts(build: ReviewBuild, address: str) -> Iterator[ImportedReview]:
    for decision in read_decisions(address, build.digest):
        if decision.row_id not in build.rows:
            raise InputError(f"{address}: row_id: {decision.row_id} is no row of the build")
        for name, said in decision.annotators.items():
            fields = {"verdict": said.verdict, "reason": said.reason, "note": said.note, **said.edits.given}
            yield ImportedReview(name, decision.row_id, RowReview.model_validate(fields))


def _make_entries(reviews: Iterable[ImportedReview], client: str) -> list[ReviewEntry]:
    """Return one entry a row, the last that the file has of it; what it does not say is taken back."""
    last: Mapping[str, ImportedReview] = {one.row_id: one for one in reviews}
    return [
        ReviewEntry(
            row_id=one.row_id,
            changes=RowReview.model_validate(one.review.model_dump()),
            client=client,
            seq=number,
        )
        for number, one in enumerate(last.values(), 1)
    ]
