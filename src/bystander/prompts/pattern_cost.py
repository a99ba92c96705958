"""How long a regular expression may take on a model's reply: an upper bound of the ways to match it.

A backtracking matcher tries, in the worst case, every way to share out a text among the parts of a pattern. The bound
multiplies the choices: of a repetition its counts, of an alternative its branches. A repetition of something that
itself varies, as in `(a+)+`, has exponentially many and is over any limit.
"""

from __future__ import annotations

# What `re` itself parses with; since Python 3.11 under this name.
from re import _constants, _parser, error  # type: ignore[attr-defined]
from typing import Any

MAX_STEPS = 100_000_000
"""Ways times the characters of the longest reply; the matcher takes 10 to 20 ns a step."""
_CEILING = MAX_STEPS**2
_MAX_PATTERN_CHARACTERS = 1_000
_FIXED = frozenset({_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN, _constants.AT})


def find_pattern_fault(pattern: str, longest: int) -> str | None:
    """Return why a pattern is no fit for replies of up to `longest` characters, or None."""
    if len(pattern) > _MAX_PATTERN_CHARACTERS:
        return f"is a pattern of more than {_MAX_PATTERN_CHARACTERS} characters"
    try:
        parsed = _parser.parse(pattern)
    except (error, OverflowError, RecursionError, ValueError) as exc:
        return f"is no regular expression ({exc})"
    try:
        ways = _count_ways(parsed, longest)
    except _UnfitError as exc:
        return f"{exc} in a reply's pattern"
    starts = 1 if _is_anchored(parsed) else longest + 1
    if ways * starts * longest > MAX_STEPS:
        return (
            f"can be matched in too many ways (up to {_say(ways * starts)}) and would hang on some reply; give a "
            "maxLength, begin with ^, bound repetitions like {1,80}, and repeat nothing that itself repeats"
        )
    return None


class _UnfitError(Exception):
    """The pattern has a part whose cost cannot be bound."""


def _count_ways(parts: Any, longest: int) -> int:
    ways = 1
    for kind, value in parts:
        ways *= _count_part(kind, value, longest)
        if ways > _CEILING:
            return _CEILING
    return ways


def _count_part(kind: Any, value: Any, longest: int) -> int:
    if kind in _FIXED:
        return 1
    if kind is _constants.SUBPATTERN:
        return _count_ways(value[-1], longest)
    if kind is _constants.BRANCH:
        return sum(_count_ways(branch, longest) for branch in value[1])
    if kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
        lowest, highest, body = value
        highest = min(int(highest), max(longest, int(lowest)))
        inner = _count_ways(body, longest)
        if inner == 1:
            return max(1, highest - int(lowest) + 1)
        return min(int(inner ** min(highest, 64)), _CEILING)
    raise _UnfitError("a back reference or a look-around is not allowed")


def _is_anchored(parsed: Any) -> bool:
    return bool(parsed) and parsed[0] in (
        (_constants.AT, _constants.AT_BEGINNING),
        (_constants.AT, _constants.AT_BEGINNING_STRING),
    )


def _say(ways: int) -> str:
    return str(ways) if ways < _CEILING else "exponentially many"
