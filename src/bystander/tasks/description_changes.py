"""Which fields differ between two descriptions of what decides a stage's results, or between two configurations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bystander.schemas.rebuild import FieldChange

_LONGEST_SHOWN = 60
_DIGEST = re.compile(r"[0-9a-f]{40,64}")
_MISSING = object()


def compare_descriptions(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """Return the fields of a stage's description (see `tasks.stage_description`) that differ, in its own order."""
    return compare_fields(_arrange(old), _arrange(new))


def compare_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """Return the leaves of two trees of fields that differ, in the order of the new tree, those removed last.

    Of an engine that is another one altogether, only that is returned.
    """
    return tuple(_compare(old, new, ""))


def _arrange(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description with lists of named things as mappings, so that what differs in them has a name."""
    arranged = {name: value for name, value in described.items() if name != "stage"}
    files = {f"files {name}": digest for name, digest in described.get("files", [])}
    classes = {item["key"]: {k: v for k, v in item.items() if k != "key"} for item in described.get("classes", [])}
    arranged.pop("files", None)
    if classes:
        arranged["classes"] = {**classes, "order": [*classes]}
    return {**arranged, **files}


def _compare(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str) -> Iterator[FieldChange]:
    if prefix.startswith("engines.") and _name_engine(old) != _name_engine(new):
        yield FieldChange(field=prefix.rstrip("."), old=_name_engine(old), new=_name_engine(new))
        return
    for name in [*new, *(name for name in old if name not in new)]:
        field, before, after = f"{prefix}{name}", old.get(name, _MISSING), new.get(name, _MISSING)
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _compare(before, after, f"{field}.")
        elif before is _MISSING or (before is None and isinstance(after, Mapping)):
            yield FieldChange(field=field, new=_show(after), kind="added")
        elif after is _MISSING or (after is None and isinstance(before, Mapping)):
            yield FieldChange(field=field, old=_show(before), kind="removed")
        elif name == "order" and {*before} != {*after}:
            continue  # the classes themselves are named
        else:
            yield FieldChange(field=field, old=_show(before), new=_show(after))


def _name_engine(described: Mapping[str, Any]) -> str | None:
    """Return what an engine is, from its identity or its configuration."""
    name = described.get("engine", described.get("name"))
    return name if isinstance(name, str) else None


def _show(value: Any) -> str | None:
    """Return a value as text, or None where it would say nothing: a digest, or too long."""
    if isinstance(value, Mapping):
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return None if len(text) > _LONGEST_SHOWN or _DIGEST.fullmatch(text) else text
