"""Items whose right answer is certain, made of the rows of the bench so that they look like all others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bystander.schemas.errors import InputError
from bystander.schemas.study import FIRST, SECOND, StudyKind, StudyQuestion, StudyTrap, StudyWording, TrapKind

_WORST: Mapping[str, str] = {"realism": "1", "naturalness": "1", "oh": "1", "satisfaction": "unpreferred"}
"""The answer that nonsense must get, by question; whether a stray reply follows a strategy is not certain."""
_TEXTS = ("primary_complete", "primary_text", "third_party_text", "reply")
_FOREIGN_WORDS = 3
_DONORS = 40


@dataclass(frozen=True, slots=True)
class TrapContent:
    """What replaces an item's texts: `talk` where it is not the row's, `replies`, and whether noise is heard."""

    trap: StudyTrap
    talk: tuple[str, str] | None = None
    replies: tuple[str, ...] | None = None
    note: str = ""
    noise: bool = False


def set_trap(
    kind: TrapKind,
    study: StudyKind,
    wording: StudyWording,
    row: Mapping[str, Any],
    replies: Sequence[str],
    others: Sequence[Mapping[str, Any]],
    rng: np.random.Generator,
) -> TrapContent:
    """Return the content of a trap that stands in the place of an item about `row`.

    Args:
        kind: of the trap.
        study: what is rated.
        wording: its questions and the words of an instruction.
        row: with the columns of BENCH_ROW but audio.
        replies: what the item would show as replies, in their order.
        others: other rows, whose words are borrowed.
        rng: decides what is borrowed and what an instruction asks for.

    Raises:
        InputError: there are no other rows.
    """
    if kind == "instruction":
        return _instruct(wording, rng)
    if not others:
        raise InputError("traps: they borrow words of other rows, and the bench has one row only")
    if kind == "noise":
        return TrapContent(_expect_worst(wording.questions, "noise"), noise=True)
    if kind == "other_request":
        reply = _borrow_reply(row, others, rng)
        if reply is not None:
            return TrapContent(_expect_worst(wording.questions, kind), replies=(reply,))
    if study == "preference":
        good = int(rng.integers(2))
        shown = list(replies)
        shown[1 - good] = _jumble(others, rng, "reply")
        right = (FIRST, SECOND)[good]
        return TrapContent(StudyTrap(kind="nonsense", expected={"preference": (right,)}), replies=tuple(shown))
    trap = _expect_worst(wording.questions, "nonsense")
    if replies:
        return TrapContent(trap, replies=(_jumble(others, rng, "reply"),))
    return TrapContent(trap, talk=(_jumble(others, rng, "primary_text"), _jumble(others, rng, "third_party_text")))


def _instruct(wording: StudyWording, rng: np.random.Generator) -> TrapContent:
    wanted: dict[str, tuple[str, ...]] = {}
    labels = []
    for question in wording.questions:
        option = question.options[int(rng.integers(len(question.options)))]
        wanted[question.name] = (option.value,)
        labels.append(f"“{option.label}”")
    note = wording.traps["instruction"].replace("{options}", ", ".join(labels))
    return TrapContent(StudyTrap(kind="instruction", expected=wanted), note=note)


def _expect_worst(questions: Sequence[StudyQuestion], kind: TrapKind) -> StudyTrap:
    return StudyTrap(kind=kind, expected={q.name: (_WORST[q.name],) for q in questions if q.name in _WORST})


def _borrow_reply(row: Mapping[str, Any], others: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> str | None:
    """Return the reply to another request that has least to do with this one; None if all have."""
    own = _list_words(" ".join(row[name] or "" for name in _TEXTS))
    best: tuple[float, int, str] | None = None
    for place in rng.permutation(len(others)).tolist()[:_DONORS]:
        words = _list_words(others[place]["reply"] or "")
        foreign = words - own
        if len(foreign) < _FOREIGN_WORDS or not words:
            continue
        rank = (len(words & own) / len(words), -len(foreign), others[place]["reply"])
        best = rank if best is None or rank < best else best
    return None if best is None or best[0] > 0.25 else best[2]


def _list_words(text: str) -> set[str]:
    """Return the words that carry meaning: those of four letters and more, in lower case."""
    return {word for word in re.findall(r"[^\W\d_]+", text.lower()) if len(word) > 3}


def _jumble(others: Sequence[Mapping[str, Any]], rng: np.random.Generator, column: str) -> str:
    """Return words of several rows in a random order, as long as a text of this column."""
    said = [row[column] or row["primary_text"] for row in others]
    length = max(5, len(said[int(rng.integers(len(said)))].split()))
    words = [
        word for place in rng.permutation(len(said)).tolist()[:6] for word in re.findall(r"[\w']+", said[place].lower())
    ]
    chosen = [words[at] for at in rng.permutation(len(words)).tolist()][: min(length, 14)]
    return f"{' '.join(chosen).capitalize()}."
