"""Which of a recording's two sides a file name stands for: `call_A.wav` and `call_B.wav` are one recording."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PAIRS = (
    ("a", "b"),
    ("left", "right"),
    ("l", "r"),
    ("caller", "callee"),
    ("agent", "customer"),
    ("user", "assistant"),
)
_WORD = re.compile(
    rf"^(?:(?P<base>.*?)[-_. ])?(?P<side>{'|'.join(name for pair in _PAIRS for name in pair)})$", re.IGNORECASE
)
_GLUED = re.compile(r"^(?P<base>.*\d)(?P<side>[AB])$")
_NUMBERED = re.compile(
    r"^(?:(?P<base>.*?)[-_. ])??(?P<kind>channel|chan|ch|speaker|spkr|spk|side|c|)[-_]?0*(?P<side>\d+)$", re.IGNORECASE
)
_MS_STATE = re.compile(r"^(?P<base>sw\d+)(?P<side>[AB])-ms98-a-(?P<kind>word|trans)$", re.IGNORECASE)
_SWITCHBOARD = re.compile(r"^(sw)0*(\d{4})$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Side:
    """What a file's stem says: the recording's name, and which label of which kind it has.

    Two files are a recording's sides where base and kind are equal and their labels are a pair.
    """

    base: str
    kind: str
    label: str


def read_side(stem: str) -> Side | None:
    """Return the side that a file's stem names, or None where it names none."""
    if match := _MS_STATE.match(stem):
        return Side(match["base"], "letter", match["side"].casefold())
    if match := _WORD.match(stem):
        label = match["side"].casefold()
        kind = "letter" if label in _PAIRS[0] else next("/".join(pair) for pair in _PAIRS if label in pair)
        return Side(match["base"] or "", kind, label)
    if match := _GLUED.match(stem):
        return Side(match["base"], "letter", match["side"].casefold())
    if (match := _NUMBERED.match(stem)) and (match["base"] or match["kind"]):
        return Side(match["base"] or "", f"number {match['kind'].casefold()}", str(int(match["side"])))
    return None


def order_sides(labels: set[str]) -> tuple[str, str] | None:
    """Return the labels in the order of the channels where they are a pair, else None."""
    pairs = (*_PAIRS, ("0", "1"), ("1", "2"))
    return next((pair for pair in pairs if labels == set(pair)), None)


def place_side(side: Side) -> int | None:
    """Return the channel, 0 or 1, that one label alone stands for; None where that takes its partner (a number)."""
    return next((pair.index(side.label) for pair in _PAIRS if side.label in pair), None)


def fold_stem(stem: str) -> str:
    """Return what stems are compared by: without case, and `sw02001` as `sw2001`, as Switchboard's releases differ."""
    return _SWITCHBOARD.sub(r"\1\2", stem).casefold()
