"""Says in words what is wrong with the fields of a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from bystander.schemas.field_types import PATTERNS_IN_WORDS, PLACE, PUBLISHING_PLACE


def describe_field_faults(kind: type[BaseModel], exc: ValidationError) -> str:
    """Return the faults of a configuration of this kind as one phrase, each with the dotted name of its field."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'fields'}: {describe_field_fault(kind, fault)}" for fault in exc.errors()
    )


def describe_field_fault(kind: type[BaseModel], fault: Any) -> str:
    """Return what is wrong with one field, by one of the `errors()` of a `ValidationError`, without its name."""
    if fault["type"] == "extra_forbidden":
        names = sorted({name for model in find_models_at(kind, fault["loc"][:-1]) for name in model.model_fields})
        return f"no such field; there are {', '.join(names)}" if names else "no such field; there are none here"
    if fault["type"] == "union_tag_not_found":
        return f"must say of which kind it is, in its field {fault['ctx']['discriminator']}"
    if fault["type"] == "string_pattern_mismatch" and fault["ctx"]["pattern"] in PATTERNS_IN_WORDS:
        what = "be a place" if fault["ctx"]["pattern"] in (PLACE, PUBLISHING_PLACE) else "be a name"
        return f"{fault['input'][:40]!r} cannot {what}; use {PATTERNS_IN_WORDS[fault['ctx']['pattern']]}"
    return str(fault["msg"]).removeprefix("Value error, ")  # pydantic's, before the sentence of a validator of ours


def find_models_at(kind: type[BaseModel], place: Sequence[str | int]) -> list[type[BaseModel]]:
    """Return the models that the fields at a place may belong to: steps are fields, keys, positions and engines."""
    models = [kind]
    for step in place:
        fields = [model.model_fields[step] for model in models if isinstance(step, str) and step in model.model_fields]
        engines = [
            model
            for model in models
            for kind in ("engine", "runner", "architecture")
            if kind in model.model_fields and model.model_fields[kind].default == step
        ]
        if fields:
            models = [model for field in fields for model in _list_models(field.annotation)]
        elif engines:
            models = engines
    return models


def _list_models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _list_models(part)
