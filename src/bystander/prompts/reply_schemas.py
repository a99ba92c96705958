"""Reply formats of packs and rubrics: JSON schemas that a task's reply needs, and that no reply can hang.

Schemas come from strangers, so they keep to keywords that only look at the value: no `$ref`, which may name a file or
an address, or itself; and no `pattern` that takes a matcher longer than a few thousand steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from bystander.prompts.pattern_cost import find_pattern_fault
from bystander.schemas.errors import PackError
from bystander.schemas.text_tasks import TextTask

Path = tuple[str | int, ...]
SchemaFault = tuple[Path, str]
"""Path within `reply_schema` (or of `answers`), and what is wrong there."""

_MAX_DEPTH = 8
_KEYWORDS = frozenset(
    """
    $comment $schema additionalProperties allOf anyOf const default deprecated description enum examples
    exclusiveMaximum exclusiveMinimum format items maximum maxItems maxLength maxProperties minimum minItems minLength
    minProperties multipleOf not oneOf pattern prefixItems properties readOnly required title type writeOnly
    """.split()
)
_LONGEST_TEXT = 20_000
"""Characters that a text without maxLength is taken to have."""


def find_schema_faults(schema: Mapping[str, Any] | None, task: TextTask) -> list[SchemaFault]:
    """Return what keeps `schema` from being a JSON schema of the task's reply, none where it is scored by options."""
    keys = (*task.reply, *task.integers, *(("score",) if task.score else ()))
    if not keys:
        return [] if schema is None else [((), "this task is scored by options and takes no schema")]
    if schema is None:
        return [((), f"missing; the reply has the fields {', '.join(keys)}")]
    if faults := list(_walk(schema, (), 0)):
        return faults
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as exc:
        return [(tuple(exc.absolute_path), f"is no JSON schema ({exc.message[:200]})")]
    return [*_find_missing_keys(schema, task), *(_find_score_faults(schema, task.score) if task.score else ())]


def check_reply_schema(schema: Mapping[str, Any] | None, task: TextTask, where: str) -> None:
    """Raise a `PackError` that names all that `find_schema_faults` finds."""
    if faults := find_schema_faults(schema, task):
        said = "; ".join(f"{'.'.join(['reply_schema', *map(str, path)])}: {message}" for path, message in faults)
        raise PackError(f"{where}.{said}")


def find_reply_faults(schema: Mapping[str, Any], reply: Any) -> list[SchemaFault]:
    """Return where a reply does not fit the schema of its task, with paths within the reply."""
    faults = Draft202012Validator(schema).iter_errors(reply)
    return sorted(((tuple(fault.absolute_path), fault.message[:300]) for fault in faults), key=str)


def find_answers_fault(answers: tuple[str, str]) -> str | None:
    """Return why two options cannot be told apart by the first token of the answer, or None."""
    first, second = (answer.strip() for answer in answers)
    if not first or not second or first[0].casefold() == second[0].casefold():
        return f"{answers[0]!r} and {answers[1]!r} must begin with different characters"
    return None


def check_answers_differ(answers: tuple[str, str], where: str) -> None:
    """Raise a `PackError` if two options cannot be told apart."""
    if (fault := find_answers_fault(answers)) is not None:
        raise PackError(f"{where}.answers: {fault}")


def _walk(schema: Any, path: Path, depth: int) -> Iterator[SchemaFault]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield path, "is no JSON schema: a mapping of keywords is expected here"
        return
    if depth > _MAX_DEPTH:
        yield path, f"is nested deeper than {_MAX_DEPTH} schemas"
        return
    for keyword, value in schema.items():
        here = (*path, keyword)
        if keyword not in _KEYWORDS:
            yield here, f"the keyword {keyword!r} is not allowed in a reply's schema; write out what the reply holds"
        elif keyword == "pattern" and isinstance(value, str):
            longest = schema.get("maxLength")
            limit = longest if type(longest) is int and 0 <= longest < _LONGEST_TEXT else _LONGEST_TEXT
            if (fault := find_pattern_fault(value, limit)) is not None:
                yield here, fault
        elif keyword == "properties" and isinstance(value, Mapping):
            for name, inner in value.items():
                yield from _walk(inner, (*here, name), depth + 1)
        elif keyword in ("allOf", "anyOf", "oneOf", "prefixItems") and isinstance(value, list):
            for number, inner in enumerate(value):
                yield from _walk(inner, (*here, number), depth + 1)
        elif keyword in ("additionalProperties", "items", "not"):
            yield from _walk(value, here, depth + 1)


def _find_missing_keys(schema: Mapping[str, Any], task: TextTask) -> Iterator[SchemaFault]:
    if schema.get("type") != "object":
        yield (), "needs type: object, for a reply is one JSON object"
    for key in (*task.reply, *task.integers):
        kind = "string" if key in task.reply else "integer"
        if key not in schema.get("required", ()) or _get_property(schema, key).get("type") != kind:
            yield (), f"needs a required property {key!r} of type {kind}"
        elif kind == "string" and "maxLength" not in _get_property(schema, key):
            yield ("properties", key), "needs a maxLength, so that a reply ends"
    known = {*task.reply, *task.integers, *(("score",) if task.score else ())}
    if further := sorted(set(schema.get("required", ())) - known - set(schema.get("properties", {}))):
        yield ("required",), f"{', '.join(map(repr, further))}: no such property"


def _find_score_faults(schema: Mapping[str, Any], bounds: tuple[int, int]) -> Iterator[SchemaFault]:
    """Hold the schema of a verdict to its scale, and to reasons that come before what follows from them."""
    lowest, highest = bounds
    score = _get_property(schema, "score")
    if "score" not in schema.get("required", ()) or score.get("type") != "integer":
        yield (), "needs a required property 'score' of type integer"
        return
    scale = [*range(lowest, highest + 1)]
    if "enum" in score:
        fits = sorted(map(repr, score["enum"])) == sorted(map(repr, scale))
    else:
        fits = (score.get("minimum"), score.get("maximum")) == bounds
    if not fits:
        yield ("properties", "score"), f"give it minimum {lowest} and maximum {highest}, or enum {scale}"
    names = list(schema["properties"])
    if "rationale" in names and names.index("score") < names.index("rationale"):
        yield ("properties",), "'rationale' comes before 'score', so that reasons come first"


def _get_property(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = schema.get("properties", {}).get(key, {})
    return found if isinstance(found, Mapping) else {}
