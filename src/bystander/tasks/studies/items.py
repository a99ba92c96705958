"""Draws what a study is about from the rows of a bench: balanced over scenarios, the same for all systems."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bystander.schemas.errors import InputError
from bystander.schemas.identity import make_id, make_rng
from bystander.schemas.study import StudyItem, StudySettings, StudyWording

Answers = Mapping[str, Mapping[str, str | None]]
"""By system: row id to its reply, None where it gave none."""


@dataclass(frozen=True, slots=True)
class DrawnItems:
    """Items, the rows behind them by id, and how many rows could not be used, by reason."""

    items: tuple[StudyItem, ...]
    rows: Mapping[str, Mapping[str, Any]]
    left_out: Mapping[str, int]


def draw_items(
    rows: Sequence[Mapping[str, Any]], answers: Answers, settings: StudySettings, wording: StudyWording
) -> DrawnItems:
    """Return the items of a study.

    A row is an item by itself, or one for each system whose reply is rated; of a preference, one for both. Rows are
    drawn in turn from each label and scenario. Left out are rows to which a system has no answer (`no_answer`), and of
    a preference those that both answer with the same words (`same_answer`), since there is nothing to prefer.

    Raises:
        InputError: no row is left, or a label has no strategy to show.
    """
    left_out: Counter[str] = Counter()
    usable = []
    for row in rows:
        replies = [answers[system].get(row["id"]) for system in answers]
        if not all(reply and reply.strip() for reply in replies):
            left_out["no_answer"] += 1
        elif settings.kind == "preference" and len({" ".join(str(reply).split()) for reply in replies}) == 1:
            left_out["same_answer"] += 1
        else:
            usable.append(row)
    if not usable:
        why = "; ".join(f"{reason}: {count}" for reason, count in left_out.items()) or "the bench has none"
        raise InputError(f"bench {settings.bench}: no row can be rated ({why})")
    if settings.kind == "reply" and (odd := {str(row["label"]) for row in usable} - wording.strategies.keys()):
        raise InputError(
            f"wording: strategies has no {', '.join(sorted(odd))}, a label of the bench; say with --wording what a "
            "good reply does then"
        )
    systems: list[str | None] = [None] if settings.kind == "preference" or not answers else list(answers)
    drawn = _draw_rows(usable, _count_rows(settings, len(systems)), make_rng(settings.seed, "rows", "study"))
    items = tuple(_make_item(row, system) for row in drawn for system in systems)
    return DrawnItems(items, {row["id"]: row for row in drawn}, dict(left_out))


def _count_rows(settings: StudySettings, items_a_row: int) -> int:
    if settings.items is not None:
        return math.ceil(settings.items / items_a_row)
    wanted = settings.raters * settings.per_rater / settings.ratings_per_item
    # Nobody meets a scenario twice, in traps neither, so there must be as many as one rater sees.
    return max(math.ceil(wanted / items_a_row), settings.per_rater + settings.traps_per_rater)


def _draw_rows(rows: Sequence[Mapping[str, Any]], most: int, rng: np.random.Generator) -> list[Mapping[str, Any]]:
    strata: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for place in rng.permutation(len(rows)).tolist():
        strata.setdefault((rows[place]["label"], rows[place]["scenario"]), []).append(rows[place])
    drawn: list[Mapping[str, Any]] = []
    while strata and len(drawn) < most:
        for key in list(strata):
            if len(drawn) < most:
                drawn.append(strata[key].pop())
            if not strata[key]:
                del strata[key]
    return drawn


def _make_item(row: Mapping[str, Any], system: str | None) -> StudyItem:
    return StudyItem(
        id=make_id("item", row["id"], system or ""),
        row=row["id"],
        group=min(row["id"], row["twin_id"] or row["id"]),
        system=system,
        # A recording that was not made to a scenario has none.
        **{name: row[name] or "none" for name in ("scenario", "category", "label", "timing")},
    )
