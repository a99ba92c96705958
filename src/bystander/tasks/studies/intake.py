"""Takes in answers from a file: what can be told for certain is kept, the rest is rejected with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bystander.schemas.study import FIRST, SECOND, TIE, StudyCell, StudyKey, StudyManifest
from bystander.schemas.study_answers import CONSENT, RejectedAnswer, RejectReason, StudyAnswer
from bystander.storage.study_results import GivenAnswer, GivenRecord, split_item


@dataclass(frozen=True, slots=True)
class Intake:
    """Answers that are taken, and those that are not."""

    taken: Sequence[StudyAnswer]
    rejected: Sequence[RejectedAnswer]


def find_cell(key: StudyKey, sheet: str, place: int) -> StudyCell | None:
    """Return what stands at a place of a sheet, counted from 1; a sheet may be an item's id."""
    cells = key.sheets.get(sheet)
    if cells is not None:
        return cells[place - 1] if 1 <= place <= len(cells) else None
    return StudyCell(item=sheet) if any(item.id == sheet for item in key.items) else None


def take_answers(
    records: Iterable[GivenRecord],
    manifest: StudyManifest,
    key: StudyKey,
    stored: Iterable[StudyAnswer],
    hash_rater: Callable[[str], str],
    rater: str = "",
    consented: bool = False,
) -> Intake:
    """Return which answers of a file count.

    The first answer of a rater to a question counts: about a scenario where the sheets see to it that nobody meets one
    twice, so that this was somebody who took two sheets; about an item where a platform dealt the items out. What comes
    later, here or after what is `stored`, is `repeated`.

    Args:
        records: of the file.
        manifest: of the study.
        key: of the study.
        stored: answers that are there already.
        hash_rater: from a rater's id to what is stored of it.
        rater: who answered where a record does not say.
        consented: whether all agreed to take part elsewhere, so that records need not say so.
    """
    taken: list[StudyAnswer] = []
    rejected: list[RejectedAnswer] = []
    by_group = manifest.settings.layout == "sheet"
    groups = {item.id: item.group if by_group else item.id for item in key.items}
    seen = {_name_asked(key, groups, one) for one in stored}
    agreed = {one.rater for one in stored if one.question == CONSENT}
    for record in records:

        def reject(reason: RejectReason, detail: str, line: int = record.line) -> None:
            rejected.append(RejectedAnswer(line=line, reason=reason, detail=detail))

        name = record.rater or rater
        if record.fault:
            reject("unreadable", record.fault)
            continue
        if not name:
            reject("no_rater", "says not whose answers these are; give --rater for a file of one person")
            continue
        who = hash_rater(name)
        if record.consent and who not in agreed:
            agreed.add(who)
            sheet = split_item(record.answers[0].item)[0] if record.answers else ""
            taken.append(StudyAnswer(rater=who, sheet=sheet, place=0, question=CONSENT, value="yes"))
        if record.refused:
            reject("refused", "the assignment was rejected on the platform")
        elif not consented and who not in agreed:
            reject("no_consent", "does not say that the rater agreed to take part; see --consented")
        else:
            for given in record.answers:
                fault = _find_fault(manifest, key, given)
                if fault is not None:
                    reject(*fault)
                    continue
                sheet, place = split_item(given.item)
                answer = StudyAnswer(
                    rater=who,
                    sheet=sheet,
                    place=place,
                    question=given.question,
                    value=given.value,
                    seconds=given.seconds,
                )
                asked = _name_asked(key, groups, answer)
                if asked in seen:
                    reject("repeated", f"{given.item} {given.question}: was answered before by the same rater")
                    continue
                seen.add(asked)
                taken.append(answer)
    return Intake(taken, rejected)


def list_values(manifest: StudyManifest, question: str, by_item: bool) -> frozenset[str]:
    """Return the answers that a question takes: of A/B by an item's id, the systems' names, for no side is known."""
    if by_item and question == "preference":
        return frozenset({*manifest.systems, TIE})
    return frozenset(option.value for option in manifest.question(question).options)


def _find_fault(manifest: StudyManifest, key: StudyKey, given: GivenAnswer) -> tuple[RejectReason, str] | None:
    sheet, place = split_item(given.item)
    if find_cell(key, sheet, place) is None:
        known = sheet in key.sheets
        return ("unknown_item" if known else "unknown_sheet"), f"{given.item}: is not in this study"
    if given.question not in {question.name for question in manifest.wording.questions}:
        return "unknown_question", f"{given.item} {given.question}: is not asked in this study"
    values = list_values(manifest, given.question, sheet not in key.sheets)
    if given.value not in values:
        return "unknown_answer", f"{given.item} {given.question}: {given.value[:60]!r} is none of {_join(values)}"
    return None


def _join(values: Iterable[str]) -> str:
    order = {FIRST: 0, SECOND: 1}
    return ", ".join(sorted(values, key=lambda value: (order.get(value, 2), value)))


def _name_asked(key: StudyKey, groups: Mapping[str, str], answer: StudyAnswer) -> tuple[str, str, str]:
    cell = find_cell(key, answer.sheet, answer.place)
    about = f"{answer.sheet}.{answer.place}"
    if cell is not None and cell.item is not None:
        about = groups[cell.item] if answer.sheet in key.sheets else cell.item
    return answer.rater, about, answer.question
