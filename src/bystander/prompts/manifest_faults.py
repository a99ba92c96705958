"""Says in plain words what is wrong with the fields of a `pack.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from bystander.prompts.manifest import PackManifest
from bystander.schemas.field_faults import describe_field_fault, find_models_at

Path = tuple[str | int, ...]
_LONGEST_SHOWN = 60
_PATTERNS = {
    "name": "use small letters, digits, _ and -, a letter first",
    "key": "use small letters and _ only, a letter first",
    "language": "use a code of two or three small letters, such as en",
}


def list_manifest_faults(exc: ValidationError) -> Iterator[tuple[Path, str]]:
    """Yield path and message of each fault of a manifest. A field that is misspelt is told once, not as missing too."""
    faults = exc.errors()
    meant = {
        (*fault["loc"][:-1], guess)
        for fault in faults
        if fault["type"] == "extra_forbidden" and (guess := _guess_field(fault["loc"]))
    }
    for fault in faults:
        path = tuple(fault["loc"])
        if fault["type"] == "too_short" and path == ("classes",):
            continue  # it counts the sound ones; `read_pack` counts them all
        if fault["type"] == "missing" and path in meant:
            continue
        if fault["type"] == "value_error":
            field, _, message = str(fault["ctx"]["error"]).partition(": ")
            yield (*path, field), message
        else:
            yield path, _describe(fault, path)


def _describe(fault: Any, path: Path) -> str:
    kind, given = fault["type"], fault["input"]
    if kind == "extra_forbidden" and (guess := _guess_field(path)):
        return f"no such field; did you mean {guess}?"
    if kind == "missing":
        return "is missing; two are needed" if isinstance(path[-1], int) else "is missing"
    if kind in ("tuple_type", "list_type"):
        items = [item.strip() for item in given.split(",")] if isinstance(given, str) else []
        shown = f"[{', '.join(items)}]"
        return "must be a list" + (f" such as {shown}" if items and len(shown) <= _LONGEST_SHOWN else "")
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return "must be a mapping of fields"
    if kind in ("bool_type", "bool_parsing"):
        return "must be true or false"
    if kind == "string_type":
        return _describe_no_text(given)
    if kind == "string_too_short":
        return "is empty"
    if kind == "string_pattern_mismatch" and path[-1] in _PATTERNS:
        return f"{str(given)[:_LONGEST_SHOWN]!r} cannot be a {path[-1]}; {_PATTERNS[str(path[-1])]}"
    return describe_field_fault(PackManifest, fault)


def _describe_no_text(given: Any) -> str:
    if isinstance(given, bool):
        return "must be a text, and YAML takes this word for true or false: put it in quotes"
    if isinstance(given, int | float):
        return "must be a text, and YAML takes this for a number: put it in quotes"
    return "must be a text" + (", and is empty" if given is None else "")


def _guess_field(path: tuple[Any, ...]) -> str | None:
    names = [name for model in find_models_at(PackManifest, path[:-1]) for name in model.model_fields]
    return next(iter(get_close_matches(str(path[-1]), names, 1, 0.75)), None)
