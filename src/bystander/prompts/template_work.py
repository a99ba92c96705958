"""What a template may do with texts while it renders, and how much of it: filters, loops and printing on a budget.

Every filter, round of a loop and printed value is charged for the characters that it handles, so that a template ends
soon whatever it was written to do, and no text grows beyond what a prompt may have. Counting, rather than a clock,
makes the same template fail on every machine or on none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Undefined, pass_context
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.runtime import Context

MAX_PROMPT_CHARACTERS = 20_000
MAX_WORK = 1_000_000
"""Characters handled and nodes visited in one rendering; the packs shipped take less than a hundredth."""

BUDGET = "work budget"
"""The context's key of the `Budget`; no variable of a template can have a space in its name."""
ITERATE = "iterate within budget"
"""Name of the filter that the iterable of each loop is passed through."""


class Budget:
    """What a rendering may still do."""

    def __init__(self) -> None:
        self._left = MAX_WORK

    def charge(self, work: int) -> None:
        """Take `work` off the budget.

        Raises:
            SecurityError: nothing is left.
        """
        self._left -= work
        if self._left < 0:
            raise SecurityError("does more work than a prompt can need: shorten its loops")


def strip_punctuation(text: str) -> str:
    """Return `text` in lower case without . , ? ! : what a typed query looks like (the filter `plain`)."""
    return re.sub(r"[.,?!]+", "", text).lower()


@pass_context
def print_value(context: Context, value: Any) -> Any:
    """Let texts and numbers be printed, within the budget (Jinja's `finalize`)."""
    if isinstance(value, Undefined):
        return value  # which raises when it is printed, and says what is not there
    text = _require_text(value, "is printed; name one of its fields, or use join or tojson")
    context.parent[BUDGET].charge(1 + len(text))
    return text


def _require_text(value: Any, use: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, Undefined):
        return str(value)  # raises and says what is not there
    raise SecurityError(f"a value of type {name_type(value)} {use}")


def name_type(value: Any) -> str:
    """Return what a template's author calls a value of this type."""
    names = {"NoneType": "none", "str": "text", "int": "number", "float": "number", "tuple": "list", "dict": "mapping"}
    return names.get(type(value).__name__, type(value).__name__)


def _bound(length: int) -> None:
    if length > MAX_PROMPT_CHARACTERS:
        raise SecurityError(f"makes a text of more than {MAX_PROMPT_CHARACTERS} characters")


def _change_text(change: Callable[[str], str]) -> Callable[..., str]:
    @pass_context
    def apply(context: Context, value: Any) -> str:
        text = _require_text(value, "is given to a filter for texts")
        _bound(len(text))
        context.parent[BUDGET].charge(1 + 2 * len(text))
        return change(text)

    return apply


@pass_context
def _replace(context: Context, value: Any, old: Any, new: Any, count: int = -1) -> str:
    text, old, new = (_require_text(item, "is given to the filter replace") for item in (value, old, new))
    _bound(len(text))
    found = text.count(old)
    times = found if count < 0 else min(found, count)
    length = len(text) + times * (len(new) - len(old))
    _bound(length)
    context.parent[BUDGET].charge(1 + len(text) + length)
    return text.replace(old, new, count)


@pass_context
def _trim(context: Context, value: Any, chars: str | None = None) -> str:
    text = _require_text(value, "is given to a filter for texts")
    context.parent[BUDGET].charge(1 + len(text))
    return text.strip(chars)


@pass_context
def _join(context: Context, value: Any, separator: Any = "", attribute: str | None = None) -> str:
    items = iterate(context, value, 1)
    if attribute is not None:
        items = [context.environment.getattr(item, attribute) for item in items]
    between = _require_text(separator, "is given to the filter join")
    pieces: list[str] = []
    length = 0
    for item in items:
        pieces.append(_require_text(item, "is joined; name one of its fields by attribute="))
        length += len(pieces[-1]) + len(between)
        _bound(length - len(between))
    context.parent[BUDGET].charge(length)
    return between.join(pieces)


@pass_context
def _dump_json(context: Context, value: Any) -> str:
    # Jinja's own filter escapes for HTML: it would show models \\u0027 for an apostrophe.
    pieces: list[str] = []
    length = 0
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        pieces.append(piece)
        length += len(piece)
        _bound(length)
        context.parent[BUDGET].charge(1 + len(piece))
    return "".join(pieces)


@pass_context
def iterate(context: Context, value: Any, work: int) -> list[Any]:
    """Return the items of a text, list or mapping (its keys), and charge `work` for each."""
    if isinstance(value, Undefined):
        return list(value)  # raises and says what is not there
    if not isinstance(value, str | list | tuple | Mapping):
        raise SecurityError(f"a value of type {name_type(value)} is looped over; a list, mapping or text can be")
    context.parent[BUDGET].charge(1 + len(value) * work)
    return list(value)


@pass_context
def _first(context: Context, value: Any) -> Any:
    items = iterate(context, value, 1)
    return items[0] if items else context.environment.undefined("has no first item: it is empty")


@pass_context
def _last(context: Context, value: Any) -> Any:
    items = iterate(context, value, 1)
    return items[-1] if items else context.environment.undefined("has no last item: it is empty")


@pass_context
def _length(context: Context, value: Any) -> int:
    return len(iterate(context, value, 1))


FILTERS: Mapping[str, Callable[..., Any]] = {
    "capitalize": _change_text(str.capitalize),
    "first": _first,
    "join": _join,
    "last": _last,
    "length": _length,
    "lower": _change_text(str.lower),
    "plain": _change_text(strip_punctuation),
    "replace": _replace,
    "title": _change_text(JINJA_FILTERS["title"]),
    "tojson": _dump_json,
    "trim": _trim,
    "upper": _change_text(str.upper),
}
"""Filters that templates may use."""
TESTS = ("defined", "even", "none", "number", "odd", "string", "undefined")
"""Tests (`x is ...`) that templates may use."""
