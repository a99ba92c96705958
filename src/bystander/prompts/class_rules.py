"""What the classes of a pack must be like together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bystander.prompts.control_characters import is_blank
from bystander.prompts.pack_faults import Level
from bystander.schemas.packs import PackClass

ClassFault = tuple[tuple[str | int, ...], str, Level]
"""Path in the manifest, message, level."""

_RESERVED = "hard_negative"
_MOST_KINDS = 26
_FINAL_MARKS = (".", "!", "?")


def find_class_faults(classes: Mapping[int, PackClass]) -> Iterator[ClassFault]:
    """Yield what is wrong with classes, given by their positions in the manifest."""
    keys = [item.key for item in classes.values()]
    if len(set(keys)) != len(keys):
        yield ("classes",), f"keys must differ, got {', '.join(keys)}", "error"
    for number, item in classes.items():
        yield from _find_faults(number, item)
        for earlier, other in classes.items():
            if earlier >= number:
                break
            if _fold(item.criteria) and _fold(item.criteria) == _fold(other.criteria):
                message = f"are those of {other.key} word for word, so nothing can tell the two classes apart"
                yield ("classes", number, "criteria"), message, "error"
            if _fold(item.policy) and _fold(item.policy) == _fold(other.policy):
                message = f"is that of {other.key} word for word; two classes with one policy could be one"
                yield ("classes", number, "policy"), message, "warning"


def _find_faults(number: int, item: PackClass) -> Iterator[ClassFault]:
    here: tuple[str | int, ...] = ("classes", number)
    if item.key == _RESERVED:
        yield (*here, "key"), f"{_RESERVED} is a reserved label, choose another key", "error"
    if is_blank(item.criteria):
        yield (*here, "criteria"), "is empty: say when a remark belongs to this class", "error"
    if is_blank(item.policy):
        yield (*here, "policy"), "is empty: say how the assistant answers a remark of this class", "error"
    kinds = [kind.key for kind in item.kinds]
    if len(set(kinds)) != len(kinds):
        yield (*here, "kinds"), f"keys must differ, got {', '.join(kinds)}", "error"
    if len(kinds) > _MOST_KINDS:
        yield (*here, "kinds"), f"at most {_MOST_KINDS} kinds, got {len(kinds)}", "error"
    for place, kind in enumerate(item.kinds):
        if is_blank(kind.definition):
            yield (*here, "kinds", place, "definition"), "is empty: say what this kind is", "error"
    for place, opening in enumerate(item.reply_openings):
        if is_blank(opening):
            yield (*here, "reply_openings", place), "is empty", "error"
    if unused := [mark for mark in item.reply_ends_with if mark not in _FINAL_MARKS]:
        marks = " ".join(_FINAL_MARKS)
        yield (
            (*here, "reply_ends_with"),
            f"{', '.join(map(repr, unused))} is none of {marks}, the marks that a reply can be held to",
            "warning",
        )


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()
