"""The state behind the review page: the rows that are reviewed, and the annotators' journals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bystander.schemas.errors import InputError
from bystander.schemas.review import ReviewEntry, RowReview
from bystander.storage.review_files import ReviewJournal, list_journals, read_annotator
from bystander.storage.review_rows import ReviewBuild

_SPEAKERS = ("primary", "third_party")
_SLACK_S = 0.0015
"""Boundaries come in whole milliseconds, and a clip need not end at one."""


class ReviewSession:
    """Journals of a build, opened when their annotator first writes. Threads may share it."""

    def __init__(
        self, build: ReviewBuild, folder: Path, row_ids: Sequence[str], notify: Callable[[str], None] = lambda _: None
    ) -> None:
        """Take a build, the folder of its journals, and the ids of those rows that are shown, in their order.

        `notify` is told what a person should hear, such as that a journal had a torn line.
        """
        self.build = build
        self.folder = folder
        self.row_ids = tuple(row_ids)
        self._notify = notify
        self._journals: dict[str, ReviewJournal] = {}
        self._guard = threading.Lock()

    def enter(self, annotator: str) -> None:
        """Open an annotator's journal if there is one; a wrong one is an error at once and not at the first change."""
        if (self.folder / f"{annotator}.jsonl").exists():
            self._open(annotator)

    def append(self, annotator: str, entries: Sequence[ReviewEntry]) -> None:
        """Write changes of an annotator; what was written before is skipped.

        Raises:
            InputError: a change is of an unknown row, or no change that its row can have; nothing is written.
        """
        for entry in entries:
            self._check(entry)
        self._open(annotator).append(entries)

    def get_reviews(self, annotator: str) -> Mapping[str, RowReview]:
        """Return what an annotator said so far, by row."""
        journal = self._journals.get(annotator)
        return MappingProxyType(dict(journal.content.reviews) if journal is not None else {})

    def collect_reviews(self) -> dict[str, Mapping[str, RowReview]]:
        """Return what all annotators said so far, those of other processes as well, by their names."""
        return {
            name: self.get_reviews(name)
            if name in self._journals
            else read_annotator(self.folder, name, self.build.digest).reviews
            for name in list_journals(self.folder)
        }

    def close(self) -> None:
        """Close the journals."""
        for journal in self._journals.values():
            journal.close()

    def _open(self, annotator: str) -> ReviewJournal:
        with self._guard:
            journal = self._journals.get(annotator)
            if journal is None:
                journal = ReviewJournal(self.folder, self.build.make_header(annotator))
                self._journals[annotator] = journal
                if journal.content.torn_bytes:
                    self._notify(
                        f"the last line of {journal.path} was not whole, since its writer was stopped; it is dropped "
                        f"({journal.content.torn_bytes} bytes)"
                    )
            return journal

    def _check(self, entry: ReviewEntry) -> None:
        row = self.build.rows.get(entry.row_id)
        if row is None:
            raise InputError(f"row {entry.row_id[:80]!r}: is not among the rows that are reviewed")
        given: dict[str, Any] = {n: getattr(entry.changes, n) for n in entry.changes.model_fields_set}
        foreign = _OTHER_FIELDS[self.build.kind] & {name for name, value in given.items() if value is not None}
        if foreign:
            raise InputError(f"row {row.id}: {sorted(foreign)[0]}: no such field in a {self.build.kind.upper()} row")
        last_s = row.duration_s + _SLACK_S
        for segment in given.get("segments") or ():
            if segment.speaker not in _SPEAKERS:
                raise InputError(f"row {row.id}: segments: {segment.speaker!r} is no speaker of the row")
            if segment.end_s > last_s:
                raise InputError(f"row {row.id}: segments: one ends at {segment.end_s:g} s, after the clip")
        if (given.get("break_time_s") or 0.0) > last_s:
            raise InputError(f"row {row.id}: break_time_s: is {given['break_time_s']:g} s, after the clip's end")


_OTHER_FIELDS = {
    "tpi": {"text_with_break", "break_time_s"},
    "sid": {"primary_text", "third_party_text", "segments"},
}
