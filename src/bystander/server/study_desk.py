"""Gives raters their sheets and writes down what they answer, every answer at once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bystander.schemas.errors import InputError
from bystander.schemas.study import ShownSheet
from bystander.schemas.study_answers import CONSENT, FINISHED, HEARD, StudyAnswer
from bystander.storage.study_files import (
    ANSWERS,
    CLIPS,
    KEY_NAME,
    check_files,
    hash_rater,
    open_study,
    read_salt,
    read_served,
    read_sheets,
)

SERVED_NAME = f"{ANSWERS}/served.jsonl"
ABANDONED_AFTER_S = 3600.0
"""A sheet on which nothing was answered for so long is given to somebody else once no other is left."""


@dataclass(slots=True)
class _Visit:
    """What one rater has done on their sheet."""

    sheet: str
    answers: dict[tuple[int, str], StudyAnswer] = field(default_factory=dict)
    heard: set[int] = field(default_factory=set)
    finished: bool = False
    active: float = 0.0


class StudyDesk:
    """The raters of a study on this machine. Safe to use from several threads.

    Args:
        study: folder of the study, on a disk of this machine.
        clock: seconds that only ever grow.

    Raises:
        BuildError: the study is unfinished or damaged.
        InputError: it is not on this machine, or is made for a platform that deals out single items.
    """

    def __init__(self, study: str, clock: Callable[[], float] = time.monotonic) -> None:
        folder, self.manifest = open_study(study)
        check_files(
            folder, self.manifest, [KEY_NAME, *(info.file for info in self.manifest.files if CLIPS in info.file)]
        )
        place = folder.local_path()
        if place is None:
            raise InputError(f"{study}: answers are written to a disk of this machine; copy the study here")
        if self.manifest.settings.layout != "sheet":
            raise InputError(f"{study}: has single items, for a platform to deal out; make it with --layout sheet")
        self._salt = read_salt(folder)
        self._sheets = {sheet.sheet: sheet for sheet in read_sheets(folder, self.manifest)}
        self._clock = clock
        self._lock = threading.Lock()
        self._visits: dict[str, _Visit] = {}
        self._questions = {
            question.name: {option.value for option in question.options} for question in self.manifest.wording.questions
        }
        self.clips: Mapping[str, Path] = {
            info.file.removeprefix(f"{CLIPS}/"): place / info.file
            for info in self.manifest.files
            if info.file.startswith(f"{CLIPS}/")
        }
        self._journal = place / SERVED_NAME
        self._drop_torn_line()
        for answer in read_served(folder, SERVED_NAME):
            self._note(answer)

    def show(self, rater: str) -> dict[str, Any]:
        """Return a rater's sheet and what was answered on it; neither before they have agreed to take part."""
        with self._lock:
            visit = self._visits.get(hash_rater(self._salt, rater))
            if visit is None:
                return {"sheet": None, "state": None, "full": self._find_sheet() is None}
            return self._describe(visit)

    def agree(self, rater: str) -> dict[str, Any]:
        """Note a rater's consent and give them a sheet, the one that they have if they have one."""
        who = hash_rater(self._salt, rater)
        with self._lock:
            if who not in self._visits:
                sheet = self._find_sheet()
                if sheet is None:
                    return {"sheet": None, "state": None, "full": True}
                self._write(StudyAnswer(rater=who, sheet=sheet, place=0, question=CONSENT, value="yes"))
            return self._describe(self._visits[who])

    def answer(self, rater: str, place: int, question: str, value: str, seconds: float | None) -> None:
        """Write down an answer; a later one to the same question takes its place.

        Raises:
            InputError: the rater has no sheet, has sent it off, or there is no such place, question or option.
        """
        with self._lock:
            who, visit = self._find_visit(rater, place)
            if value not in self._questions.get(question, ()):
                raise InputError(f"{question} {value!r}: is no answer of this study")
            self._write(
                StudyAnswer(rater=who, sheet=visit.sheet, place=place, question=question, value=value, seconds=seconds)
            )

    def hear(self, rater: str, place: int) -> None:
        """Write down that a clip was played to its end.

        Raises:
            InputError: the rater has no sheet, has sent it off, or there is no such place.
        """
        with self._lock:
            who, visit = self._find_visit(rater, place)
            self._write(StudyAnswer(rater=who, sheet=visit.sheet, place=place, question=HEARD, value="yes"))

    def finish(self, rater: str) -> None:
        """Take a sheet as sent off.

        Raises:
            InputError: the rater has no sheet, has sent it off, or a question is open.
        """
        with self._lock:
            who, visit = self._find_visit(rater, 1)
            if self._find_open(visit) is not None:
                raise InputError("some questions are not answered yet, or some clips not heard")
            self._write(StudyAnswer(rater=who, sheet=visit.sheet, place=0, question=FINISHED, value="yes"))

    def count(self) -> tuple[int, int, int]:
        """Return the numbers of sheets, of those begun, and of those sent off."""
        with self._lock:
            return len(self._sheets), len(self._visits), sum(visit.finished for visit in self._visits.values())

    def _find_visit(self, rater: str, place: int) -> tuple[str, _Visit]:
        who = hash_rater(self._salt, rater)
        visit = self._visits.get(who)
        if visit is None or visit.finished:
            raise InputError("this sheet was sent off" if visit else "nobody here has agreed to take part yet")
        if not 1 <= place <= len(self._sheets[visit.sheet].items):
            raise InputError(f"place {place}: is not on the sheet")
        return who, visit

    def _find_sheet(self) -> str | None:
        """Return the first sheet that nobody has; if none is left, the first one that all who had it abandoned."""
        holders: dict[str, list[_Visit]] = {sheet: [] for sheet in self._sheets}
        for visit in self._visits.values():
            holders[visit.sheet].append(visit)
        free = next((sheet for sheet, visits in holders.items() if not visits), None)
        since = self._clock() - ABANDONED_AFTER_S
        return free or next(
            (sheet for sheet, visits in holders.items() if all(not v.finished and v.active < since for v in visits)),
            None,
        )

    def _find_open(self, visit: _Visit) -> int | None:
        """Return the first place, from 1, that lacks an answer or whose clip was not heard."""
        for place, item in enumerate(self._sheets[visit.sheet].items, start=1):
            if item.clip and place not in visit.heard:
                return place
            if any((place, name) not in visit.answers for name in self._questions):
                return place
        return None

    def _describe(self, visit: _Visit) -> dict[str, Any]:
        sheet: ShownSheet = self._sheets[visit.sheet]
        places = range(1, len(sheet.items) + 1)
        items = []
        for place in places:
            given = {name: visit.answers[place, name] for name in self._questions if (place, name) in visit.answers}
            items.append(
                {
                    "answers": {name: answer.value for name, answer in given.items()},
                    "seconds": max((answer.seconds or 0.0 for answer in given.values()), default=0.0),
                    "heard": place in visit.heard,
                }
            )
        at = (self._find_open(visit) or len(sheet.items)) - 1
        state = {"consent": True, "at": at, "items": items, "finished": visit.finished}
        return {"sheet": sheet.model_dump(mode="json"), "state": state, "full": False}

    def _drop_torn_line(self) -> None:
        """Cut off what a server that was killed had half written: the rater's page was not told that it arrived."""
        if not self._journal.exists():
            return
        data = self._journal.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.truncate(self._journal, whole)

    def _write(self, answer: StudyAnswer) -> None:
        self._journal.parent.mkdir(parents=True, exist_ok=True)
        line = f"{answer.model_dump_json()}\n".encode()
        with self._journal.open("ab") as sink:
            sink.write(line)
            sink.flush()
            os.fsync(sink.fileno())
        self._note(answer)

    def _note(self, answer: StudyAnswer) -> None:
        visit = self._visits.setdefault(answer.rater, _Visit(answer.sheet))
        visit.active = self._clock()
        if answer.question == HEARD:
            visit.heard.add(answer.place)
        elif answer.place:
            visit.answers[answer.place, answer.question] = answer
        elif answer.question == FINISHED:
            visit.finished = True
