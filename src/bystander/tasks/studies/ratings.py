"""From stored answers to the ratings that count: raters who fail are dropped, each for one reason."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bystander.schemas.study import FIRST, SECOND, StudyCell, StudyItem, StudyKey, StudyManifest
from bystander.schemas.study_answers import StudyAnswer
from bystander.schemas.study_report import DROP_REASONS, DropReason, TrapFigure
from bystander.tasks.studies.intake import find_cell


@dataclass(frozen=True, slots=True)
class DropRule:
    """When a rater does not count; the defaults of a study are in its settings."""

    max_failed_traps: int
    min_seconds: float | None
    keep_unfinished: bool


@dataclass(frozen=True, slots=True)
class Rating:
    """An answer about an item. `value` is an option's; of A/B the system preferred, or `tie`."""

    rater: str
    item: StudyItem
    question: str
    value: str


@dataclass(frozen=True, slots=True)
class CountedRatings:
    """The ratings that count, and what became of the raters."""

    ratings: Sequence[Rating]
    answers: int
    raters: int
    dropped: Mapping[DropReason, int]
    traps: Sequence[TrapFigure]
    median_seconds: float | None

    @property
    def kept(self) -> int:
        return self.raters - sum(self.dropped.values())


@dataclass(slots=True)
class _Rater:
    sheets: dict[str, dict[tuple[int, str], StudyAnswer]] = field(default_factory=dict)
    failed: int = 0
    finished: bool = True
    seconds: list[float] = field(default_factory=list)


def count_ratings(
    answers: Iterable[StudyAnswer], manifest: StudyManifest, key: StudyKey, rule: DropRule
) -> CountedRatings:
    """Return the ratings of raters who pass.

    Of several answers to the same place the last counts, as raters may go back. A trap is failed where an answer is
    none of those accepted; the number of failed traps, not of wrong answers, decides. A rater is unfinished if a place
    of a sheet that they began lacks an answer. Time is a rater's median over items, traps among them.
    """
    raters = _gather(answers)
    items = {item.id: item for item in key.items}
    shown: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    ratings: list[Rating] = []
    dropped: Counter[DropReason] = Counter()
    total = 0
    every_second: list[float] = []
    for name in sorted(raters):
        rater = raters[name]
        own: list[Rating] = []
        for sheet, given in sorted(rater.sheets.items()):
            cells = key.sheets.get(sheet) or (find_cell(key, sheet, 1) or StudyCell(),)
            for place, cell in enumerate(cells, start=1):
                found = {q.name: given.get((place, q.name)) for q in manifest.wording.questions}
                if not all(found.values()):
                    rater.finished = False
                times = [one.seconds for one in found.values() if one is not None and one.seconds is not None]
                rater.seconds += [max(times)] if times else []
                if cell.trap is not None:
                    wrong = [_is_wrong(found.get(q), accepted) for q, accepted in cell.trap.expected.items()]
                    shown[cell.trap.kind] += any(found.values())
                    failed[cell.trap.kind] += any(wrong)
                    rater.failed += any(wrong)
                elif cell.item is not None:
                    own += [
                        Rating(name, items[cell.item], question, _decode(manifest, cell, answer))
                        for question, answer in found.items()
                        if answer is not None
                    ]
        total += len(own)
        every_second += rater.seconds
        reason = _find_reason(rater, rule)
        if reason is None:
            ratings += own
        else:
            dropped[reason] += 1
    return CountedRatings(
        ratings=ratings,
        answers=total,
        raters=len(raters),
        dropped={reason: dropped[reason] for reason in DROP_REASONS if dropped[reason]},
        traps=[TrapFigure(kind=kind, shown=shown[kind], failed=failed[kind]) for kind in sorted(shown)],
        median_seconds=statistics.median(every_second) if every_second else None,
    )


def _gather(answers: Iterable[StudyAnswer]) -> dict[str, _Rater]:
    """Return the raters who answered anything but consent; the last answer to a place counts."""
    raters: dict[str, _Rater] = {}
    for answer in answers:
        if answer.place:
            sheets = raters.setdefault(answer.rater, _Rater()).sheets
            sheets.setdefault(answer.sheet, {})[answer.place, answer.question] = answer
    return raters


def _is_wrong(answer: StudyAnswer | None, accepted: Sequence[str]) -> bool:
    return answer is not None and answer.value not in accepted


def _find_reason(rater: _Rater, rule: DropRule) -> DropReason | None:
    if rater.failed > rule.max_failed_traps:
        return "failed_traps"
    if rule.min_seconds is not None and rater.seconds and statistics.median(rater.seconds) < rule.min_seconds:
        return "too_fast"
    return "unfinished" if not rater.finished and not rule.keep_unfinished else None


def _decode(manifest: StudyManifest, cell: StudyCell, answer: StudyAnswer) -> str:
    """Return what an answer says: sides of an A/B pair become the systems that stood there."""
    if cell.first is None or answer.value not in (FIRST, SECOND):
        return answer.value
    other = next(system for system in manifest.systems if system != cell.first)
    return cell.first if answer.value == FIRST else other
