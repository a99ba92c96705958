"""Lays out the sheets: which items and traps each rater sees, in which order, and what is behind each place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bystander.schemas.errors import InputError
from bystander.schemas.identity import make_rng
from bystander.schemas.study import (
    OptionOrder,
    ShownItem,
    ShownSheet,
    StudyCell,
    StudyItem,
    StudyQuestion,
    StudySettings,
    StudyWording,
)
from bystander.tasks.studies.assignment import assign_items, balance_sides
from bystander.tasks.studies.items import Answers, DrawnItems
from bystander.tasks.studies.traps import set_trap


@dataclass(frozen=True, slots=True)
class Sheets:
    """What raters see, and by sheet what is behind it."""

    shown: tuple[ShownSheet, ...]
    cells: Mapping[str, tuple[StudyCell, ...]]


class SheetMaker:
    """Makes the sheets of a study out of its items.

    Args:
        name: of the study.
        settings: of the study.
        wording: its questions.
        drawn: its items and their rows.
        answers: replies by system, of a preference those of two.
        clips: name of the sound file by row id; empty where nothing is heard.
        noises: names of sound files without speech.
        rows: rows of the bench, whose words traps borrow.
    """

    def __init__(
        self,
        name: str,
        settings: StudySettings,
        wording: StudyWording,
        drawn: DrawnItems,
        answers: Answers,
        clips: Mapping[str, str],
        noises: Sequence[str],
        rows: Sequence[Mapping[str, Any]],
    ) -> None:
        self.name = name
        self.settings = settings
        self.wording = wording
        self.answers = answers
        self._items = {item.id: item for item in drawn.items}
        self._rows = drawn.rows
        self._clips = clips
        self._noises = noises
        self._all_rows = rows

    def make(self) -> Sheets:
        """Return the sheets.

        Raises:
            InputError: the numbers of raters, ratings, items and traps do not fit each other.
        """
        settings = self.settings
        groups = {item.id: item.group for item in self._items.values()}
        if settings.layout == "item":
            rng = make_rng(settings.seed, "lines", "study")
            order = [[item] for item in rng.permutation(sorted(groups)).tolist()]
            traps = self._count_lone_traps(len(order))
            lines: list[list[str] | None] = [*order, *[None] * traps]
            plan = [lines[at] or [] for at in rng.permutation(len(lines)).tolist()]
        else:
            rng = make_rng(settings.seed, "raters", "study")
            plan = list(assign_items(groups, settings.raters, settings.per_rater, rng))
        sides = balance_sides(plan, make_rng(settings.seed, "sides", "study"))
        shown, cells = [], {}
        width = max(4, len(str(len(plan))))
        for number, (items, first) in enumerate(zip(plan, sides, strict=True), start=1):
            sheet = f"sheet-{number:0{width}d}"
            pairs = self._fill(number, sheet, items, first)
            cells[sheet] = tuple(cell for cell, _ in pairs)
            shown.append(ShownSheet(study=self.name, sheet=sheet, items=tuple(item for _, item in pairs)))
        return Sheets(tuple(shown), cells)

    def _count_lone_traps(self, items: int) -> int:
        share = self.settings.traps_per_rater / self.settings.per_rater
        return max(1, round(items * share)) if share else 0

    def _fill(
        self, number: int, sheet: str, items: Sequence[str], sides: Sequence[bool]
    ) -> list[tuple[StudyCell, ShownItem]]:
        rng = make_rng(self.settings.seed, sheet, "study")
        traps = self.settings.traps_per_rater if self.settings.layout == "sheet" else int(not items)
        groups = {self._items[item].group for item in items}
        bases = [item for item in self._items.values() if item.group not in groups]
        if traps > len(bases):
            raise InputError(
                f"traps_per_rater: {traps} traps need as many scenarios that the rater does not rate, and there are "
                f"{len(bases)}; take more items, fewer ratings of each rater, or fewer traps"
            )
        pairs = [self._show_item(self._items[item], first, rng) for item, first in zip(items, sides, strict=True)]
        kinds = self.settings.traps
        for at, base in enumerate(rng.permutation(len(bases)).tolist()[:traps]):
            place = int(rng.integers(len(pairs) + 1))
            pairs.insert(place, self._show_trap(bases[base], kinds[(number + at) % len(kinds)], rng))
        return pairs

    def _show_item(self, item: StudyItem, side: bool, rng: np.random.Generator) -> tuple[StudyCell, ShownItem]:
        systems = [item.system] if item.system is not None else list(self.answers)
        if len(systems) == 2 and not side:
            systems.reverse()
        replies = tuple(str(self.answers[system][item.row]) for system in systems)
        cell = StudyCell(item=item.id, first=systems[0] if len(systems) == 2 else None)
        return cell, self._show(item, replies, rng)

    def _show_trap(self, base: StudyItem, kind: Any, rng: np.random.Generator) -> tuple[StudyCell, ShownItem]:
        _, usual = self._show_item(base, bool(rng.integers(2)), rng)
        others = [row for row in self._all_rows if row["id"] not in (base.row, base.group)]
        row = self._rows[base.row]
        content = set_trap(kind, self.settings.kind, self.wording, row, usual.replies, others, rng)
        changes: dict[str, Any] = {"note": content.note}
        if content.talk is not None:
            changes["talk"] = tuple((who, text) for (who, _), text in zip(usual.talk, content.talk, strict=True))
        if content.replies is not None:
            changes["replies"] = content.replies
        if content.noise:
            changes["clip"] = self._noises[int(rng.integers(len(self._noises)))]
        return StudyCell(trap=content.trap), usual.model_copy(update=changes)

    def _show(self, item: StudyItem, replies: tuple[str, ...], rng: np.random.Generator) -> ShownItem:
        row = self._rows[item.row]
        other = "bystander" if row["n_speakers"] == 2 else "same_voice"
        return ShownItem(
            talk=(("user", row["primary_text"]), (other, row["third_party_text"])),
            clip=self._clips.get(item.row, ""),
            replies=replies,
            strategy=self.wording.strategies[item.label] if self.settings.kind == "reply" else "",
            order={q.name: order_options(q, self.settings.option_order, rng) for q in self.wording.questions},
        )


def order_options(question: StudyQuestion, order: OptionOrder, rng: np.random.Generator) -> tuple[str, ...]:
    """Return the values of a question's options in the order in which one rater sees them."""
    values = [option.value for option in question.options]
    if order == "shuffled":
        return tuple(values[at] for at in rng.permutation(len(values)).tolist())
    return tuple(reversed(values)) if order == "reversed" and rng.integers(2) else tuple(values)
