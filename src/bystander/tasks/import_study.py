"""Reads a file of results into a study."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

from bystander.storage.filesystem import open_file
from bystander.storage.study_files import (
    ANSWERS,
    KEY_NAME,
    REJECTS,
    check_files,
    hash_rater,
    open_study,
    read_answers,
    read_key,
    read_salt,
)
from bystander.storage.study_results import read_results
from bystander.tasks.studies.intake import take_answers


@dataclass(frozen=True, slots=True)
class Imported:
    """Numbers of answers and of raters taken, of answers rejected by reason, and the file of those, if any."""

    answers: int
    raters: int
    rejected: dict[str, int]
    rejects_file: str


def import_study(study: str, results: str, rater: str = "", consented: bool = False) -> Imported:
    """Take the answers of a file into a study; what is there already is not taken twice.

    Raises:
        BuildError: the study is unfinished or damaged.
        InputError: the file cannot be read.
    """
    folder, manifest = open_study(study)
    check_files(folder, manifest, [KEY_NAME])
    key, salt = read_key(folder), read_salt(folder)
    records = list(read_results(results))
    intake = take_answers(
        records, manifest, key, read_answers(folder), lambda name: hash_rater(salt, name), rater, consented
    )
    source, name = open_file(results)
    digest = hashlib.sha256(source.read_bytes(name)).hexdigest()[:12]
    rejects = f"{REJECTS}/import-{digest}.jsonl"
    if intake.taken:
        place = f"{ANSWERS}/import-{digest}.jsonl"
        # The same file may be read again after a mend of the study: what was taken then stays.
        before = folder.read_bytes(place) if folder.exists(place) else b""
        folder.write_bytes(place, before + b"".join(f"{one.model_dump_json()}\n".encode() for one in intake.taken))
    if intake.rejected:
        folder.write_bytes(rejects, b"".join(f"{one.model_dump_json()}\n".encode() for one in intake.rejected))
    return Imported(
        answers=sum(one.place > 0 for one in intake.taken),
        raters=len({one.rater for one in intake.taken}),
        rejected=dict(Counter(one.reason for one in intake.rejected)),
        rejects_file=folder.uri_of(rejects) if intake.rejected else "",
    )
