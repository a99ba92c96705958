"""What differs between two descriptions of one stage (`tasks.stage_description`), field by field, in words.

Works on the descriptions of an opened configuration as on those of a manifest, and on any other JSON-ready data, a
build's configuration say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ABSENT = "absent"
"""What stands for a field that one of the two does not have."""

MOST_CHARACTERS = 60
"""Values longer than this are cut to what surrounds their first difference."""

_ORDER = (
    "stage",
    "version",
    "build_seed",
    "params",
    "files",
    "engines",
    "prompts",
    "classes",
    "pack",
    "taxonomy",
    "exclusions",
)
_NAMED_LISTS = frozenset({"files", "classes"})
"""Lists of pairs, a name and what belongs to it; or of objects with the name as `key`."""
_PARTS_OF_PROMPTS = {
    "template": "the template",
    "reply_schema": "the reply schema",
    "answers": "the answers to choose from",
    "examples": "the examples",
}
_CONTEXT = 12
_SHORT_DIGEST = 12
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs. `before` and `after` are short texts, never equal; a missing field's is `ABSENT`."""

    field: str
    """Dotted name, such as `params.max_words`, `prompts.write_reply` or `engines.speech.settings.voices`."""
    before: str
    after: str

    @property
    def sentence(self) -> str:
        """Say it in words, without a full stop: digests say no more than that something changed."""
        kind, _, name = self.field.partition(".")
        values = f"{self.before} -> {self.after}"
        match kind:
            case "version":
                return f"the stage's version: {values}"
            case "build_seed":
                return f"the build's seed: {values}"
            case "prompts" if name:
                return f"{_name_prompt(name)} {self._happening}"
            case "files" if name:
                return f"the file {name} {self._happening}"
            case "classes" if name:
                return f"the pack's class {name}: {values}"
            case "pack" if not name:
                return f"the pack {self._happening}"
            case "taxonomy" if not name:
                return f"the taxonomy {self._happening}"
            case "exclusions" if not name:
                return "what the builds use that it must share nothing with changed"
        return f"{self.field}: {values}"

    @property
    def _happening(self) -> str:
        if self.before == ABSENT:
            return "came in"
        return "went away" if self.after == ABSENT else "changed"


def _name_prompt(name: str) -> str:
    task, _, part = name.partition(".")
    if part in _PARTS_OF_PROMPTS:
        return f"{_PARTS_OF_PROMPTS[part]} of {task}"
    shown, _, rest = part.partition(".")
    if shown == "classes" and rest:
        key, _, field = rest.partition(".")
        return f"the {field} of class {key}, which {task} shows," if field else f"class {key}, which {task} shows,"
    return f"the pack's texts for {name}"


def list_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return the fields in which two descriptions differ: the fields of a description in its order, others by name.

    There is none if and only if the two are equal as JSON. Objects are compared key by key, lists whole. A field that
    one of the two lacks altogether is one change, whatever it holds.
    """
    return tuple(_compare_mappings("", before, after))


def _compare_mappings(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    names = sorted({*before, *after})
    if not path:
        names.sort(key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    for name in names:
        field = f"{path}.{name}" if path else name
        yield from _compare(field, before.get(name, _MISSING), after.get(name, _MISSING))


def _compare(field: str, before: Any, after: Any) -> Iterator[Change]:
    if _encode(before) == _encode(after):
        return
    if field in _NAMED_LISTS:
        old, new = _name_items(before), _name_items(after)
        if old is not None and new is not None and {*old.items()} != {*new.items()}:
            for name in sorted({*old, *new}):
                yield from _compare(f"{field}.{name}", _decode(old.get(name)), _decode(new.get(name)))
            return
        if old is not None and new is not None:  # in another order
            yield _describe(field, ", ".join(old), ", ".join(new))
            return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _compare_mappings(field, before, after)
        return
    yield _describe(field, before, after)


def _name_items(value: Any) -> dict[str, str] | None:
    """Return name to encoded value of a list of named things, or None if it is none, or names one thing twice."""
    listed: list[Any] = list(value) if isinstance(value, list | tuple) else [None]
    pairs: list[Any] = [
        (item["key"], {k: v for k, v in item.items() if k != "key"})
        if isinstance(item, Mapping) and "key" in item
        else item
        for item in listed
    ]
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        return None
    items = {name: _encode(item) for name, item in pairs}
    return items if len(items) == len(pairs) else None


def _encode(value: Any) -> str:
    """Return canonical JSON: 1, 1.0 and true are three things, a tuple is a list."""
    return "" if value is _MISSING else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _decode(text: str | None) -> Any:
    return _MISSING if text is None else json.loads(text)


def _describe(field: str, before: Any, after: Any) -> Change:
    old, new = _show(before), _show(after)
    if old == new:  # a text that reads like another kind of value
        old, new = _encode(before) or ABSENT, _encode(after) or ABSENT
    if old[:_SHORT_DIGEST] != new[:_SHORT_DIGEST]:
        old, new = _shorten_digest(old), _shorten_digest(new)
    if max(len(old), len(new)) > MOST_CHARACTERS:
        common = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        start = max(0, common - _CONTEXT)
        old, new = _cut(old, start), _cut(new, start)
    return Change(field, old, new)


def _show(value: Any) -> str:
    """Return a value as one readable line."""
    if value is _MISSING:
        return ABSENT
    if value is None:
        return "none"
    if isinstance(value, str):
        return " ".join(value.split()) or '""'
    if isinstance(value, Mapping) and {"name", "model"} <= {*value}:  # an engine's identity
        return " ".join(str(value[key]) for key in ("name", "model") if value[key])
    if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _shorten_digest(text: str) -> str:
    return text[:_SHORT_DIGEST] if len(text) == 64 and not {*text} - {*"0123456789abcdef"} else text


def _cut(text: str, start: int) -> str:
    shown = text[start : start + MOST_CHARACTERS - 2]
    return f"{'…' if start else ''}{shown}{'…' if start + len(shown) < len(text) else ''}"
