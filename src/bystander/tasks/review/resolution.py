"""How what several annotators said about a row becomes one decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from bystander.schemas.errors import ConfigError
from bystander.schemas.review import (
    MAJORITY,
    REASONS_IN_WORDS,
    RULES,
    UNANIMOUS,
    AnnotatorVerdict,
    DecidedVerdict,
    ReviewDecision,
    ReviewedSegment,
    ReviewReason,
    RowEdits,
    RowReview,
)

TOLERANCE_S = 0.05
"""Boundaries this near each other are the same: about what two people who mark the same onset differ by."""
Reviews = Mapping[str, Mapping[str, RowReview]]


@dataclass(frozen=True, slots=True)
class Resolution:
    """Rules for making one decision of several reviews.

    Attributes:
        rule: `unanimous`: all must say the same. `majority`: more than half. Else the annotator whose word counts,
            whatever the others say; rows that they did not judge stay undecided.
        adjudicator: an annotator whose word counts on the rows that they judged, before the rule.
        tolerance_s: in which boundaries count as the same; the mean of those that were moved is taken.
    """

    rule: str = UNANIMOUS
    adjudicator: str | None = None
    tolerance_s: float = TOLERANCE_S


def resolve_reviews(
    reviews: Reviews, build_digest: str, read_values: Callable[[str], RowEdits], how: Resolution = Resolution()
) -> list[ReviewDecision]:
    """Return a decision for each row that somebody judged, in the order of the rows' ids.

    Who accepts a row without putting something right says that the row's own value is right: if another one changed
    it, they do not agree, and under `unanimous` that is a conflict.

    Args:
        reviews: what each annotator said, by row.
        build_digest: of the rows that were reviewed.
        read_values: returns a row's own values; asked only where annotators accepted a row with different edits.
        how: the rules.

    Raises:
        ConfigError: the rule or the adjudicator is nobody who reviewed.
    """
    for field, name in (("rule", how.rule), ("adjudicator", how.adjudicator)):
        if name is not None and name not in (*reviews, *(RULES if field == "rule" else ())):
            known = ", ".join(sorted(reviews)) or "nobody"
            raise ConfigError(f"--{field} {name}: no annotator of that name reviewed this build; there is {known}")
    rows: dict[str, dict[str, RowReview]] = {}
    for name in sorted(reviews):
        for row_id, review in reviews[name].items():
            if review.verdict is not None:
                rows.setdefault(row_id, {})[name] = review
    decisions = []
    for row_id, said in sorted(rows.items()):
        decision = _resolve_row(row_id, said, build_digest, read_values, how)
        if decision is not None:
            decisions.append(decision)
    return decisions


def _resolve_row(
    row_id: str,
    said: Mapping[str, RowReview],
    build_digest: str,
    read_values: Callable[[str], RowEdits],
    how: Resolution,
) -> ReviewDecision | None:
    if how.adjudicator in said:
        rule, heard = str(how.adjudicator), {str(how.adjudicator): said[str(how.adjudicator)]}
    elif how.rule in RULES:
        rule, heard = how.rule, dict(said)
    elif how.rule in said:
        rule, heard = how.rule, {how.rule: said[how.rule]}
    else:
        return None
    needed = _count_needed(len(heard), rule)
    verdict = _decide([str(review.verdict) for review in heard.values()], needed)
    edits: RowEdits | None = RowEdits()
    if verdict == "accept":
        accepted = [review for review in heard.values() if review.verdict == "accept"]
        edits = _merge_edits(accepted, rule, how.tolerance_s, lambda: read_values(row_id))
        if edits is None:
            verdict, edits = "conflict", RowEdits()
    rejecting = {name: review for name, review in heard.items() if review.verdict == "reject"}
    return ReviewDecision(
        row_id=row_id,
        build_digest=build_digest,
        verdict=verdict,
        reason=_choose_reason(rejecting) if verdict == "reject" else None,
        note=_join_notes(heard),
        edits=edits or RowEdits(),
        annotators={
            name: AnnotatorVerdict(
                verdict=review.verdict or "accept",
                reason=review.reason if review.verdict == "reject" else None,
                note=review.note,
                edits=review.edits,
            )
            for name, review in said.items()
        },
        rule=rule,
    )


def _count_needed(n: int, rule: str) -> int:
    return n // 2 + 1 if rule == MAJORITY else n


def _decide(verdicts: Sequence[str], needed: int) -> DecidedVerdict:
    counts = Counter(verdicts)
    if counts["accept"] >= needed:
        return "accept"
    return "reject" if counts["reject"] >= needed else "conflict"


def _choose_reason(rejecting: Mapping[str, RowReview]) -> ReviewReason | None:
    """Return the reason that most gave; among equals the one that stands first in the list."""
    counts = Counter(review.reason for review in rejecting.values() if review.reason is not None)
    order = list(REASONS_IN_WORDS)
    return min(counts, key=lambda reason: (-counts[reason], order.index(reason)), default=None)


def _join_notes(heard: Mapping[str, RowReview]) -> str | None:
    notes = {name: review.note for name, review in heard.items() if review.note}
    if len(heard) == 1:
        return next(iter(notes.values()), None)
    return "; ".join(f"{name}: {note}" for name, note in notes.items()) or None


def _merge_edits(
    accepted: Sequence[RowReview], rule: str, tolerance_s: float, read_values: Callable[[], RowEdits]
) -> RowEdits | None:
    """Return the edits that enough of those who accepted a row agree on; None where too few do."""
    given = [review.edits for review in accepted]
    if all(edits == given[0] for edits in given):
        return given[0]
    needed = _count_needed(len(given), rule)
    own = read_values()
    merged: dict[str, Any] = {}
    for field in ("primary_text", "third_party_text", "text_with_break"):
        values = [getattr(edits, field) for edits in given]
        text, count = Counter(value if value != getattr(own, field) else None for value in values).most_common(1)[0]
        if count < needed:
            return None
        merged[field] = text
    times = [edits.break_time_s for edits in given]
    agreed_time = _agree_on_times(
        [None if t is None else (t,) for t in times], (own.break_time_s,), needed, tolerance_s
    )
    if agreed_time is _SPLIT:
        return None
    merged["break_time_s"] = agreed_time[0] if agreed_time else None
    agreed = _agree_on_segments([edits.segments for edits in given], own.segments, needed, tolerance_s)
    if agreed is _SPLIT:
        return None
    merged["segments"] = agreed
    return RowEdits(**merged)


_SPLIT: Any = object()
"""Stands for values that too few agree on."""


def _agree_on_segments(
    given: Sequence[tuple[ReviewedSegment, ...] | None],
    own: tuple[ReviewedSegment, ...] | None,
    needed: int,
    tolerance_s: float,
) -> Any:
    shapes = [tuple(segment.speaker for segment in segments or own or ()) for segments in given]
    shape, _ = Counter(shapes).most_common(1)[0]
    if shapes.count(shape) < needed:
        return _SPLIT
    of_shape = [segments for segments, its in zip(given, shapes, strict=True) if its == shape]
    own_times = _list_times(own) if own is not None and tuple(s.speaker for s in own) == shape else None
    times = _agree_on_times(
        [None if segments is None else _list_times(segments) for segments in of_shape], own_times, needed, tolerance_s
    )
    if times is _SPLIT or times is None:
        return times
    pairs = zip(times[::2], times[1::2], strict=True)
    return tuple(
        ReviewedSegment(speaker=speaker, start_s=start, end_s=end)
        for speaker, (start, end) in zip(shape, pairs, strict=True)
    )


def _list_times(segments: Sequence[ReviewedSegment]) -> tuple[float, ...]:
    return tuple(time for segment in segments for time in (segment.start_s, segment.end_s))


def _agree_on_times(
    given: Sequence[tuple[float, ...] | None], own: tuple[float | None, ...] | None, needed: int, tolerance_s: float
) -> Any:
    """Return the mean of the times that enough gave within the tolerance; None where that is the row's own."""
    full = [times if times is not None else own for times in given]

    def is_near(one: Any, other: Any) -> bool:
        if one is None or other is None or None in one or None in other:
            return bool(one == other)
        return all(abs(a - b) <= tolerance_s + 1e-9 for a, b in zip(one, other, strict=True))

    groups = [[at for at, other in enumerate(full) if is_near(times, other)] for times in full]
    best = max(groups, key=len)
    if len(best) < needed:
        return _SPLIT
    moved = [times for at in best if (times := given[at]) is not None]
    if not moved:
        return None
    return tuple(round(fmean(times), 3) for times in zip(*moved, strict=True))
