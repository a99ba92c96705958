"""Says in words what is wrong with the fields of a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from bystander.schemas.field_types import PATTERNS_IN_WORDS, PLACE, PUBLISHING_PLACE

_TAGS = ("engine", "runner", "architecture", "kind")
"""Fields by which the members of our unions are told apart."""


def describe_field_faults(kind: type[BaseModel], exc: ValidationError) -> str:
    """Return the faults of a configuration of this kind as one phrase, each with the dotted name of its field."""
    return "; ".join(
        f"{name_field(kind, fault['loc']) or 'fields'}: {describe_field_fault(kind, fault)}" for fault in exc.errors()
    )


def name_field(kind: type[BaseModel], place: Sequence[str | int]) -> str:
    """Return the dotted name of a field as whoever wrote it knows it, from the `loc` of a fault.

    In unions pydantic also names the member that it tried, as in `model.recurrent.hidden` of the field `model.hidden`.
    """
    return ".".join(str(step) for step, _ in _walk(kind, place) if step is not None)


def describe_field_fault(kind: type[BaseModel], fault: Any) -> str:
    """Return what is wrong with one field, by one of the `errors()` of a `ValidationError`, without its name."""
    if fault["type"] == "extra_forbidden":
        return _describe_unknown_field(kind, fault["loc"])
    if fault["type"] == "union_tag_not_found":
        return f"must say of which kind it is, in its field {fault['ctx']['discriminator']}"
    if fault["type"] == "string_pattern_mismatch" and fault["ctx"]["pattern"] in PATTERNS_IN_WORDS:
        what = "be a place" if fault["ctx"]["pattern"] in (PLACE, PUBLISHING_PLACE) else "be a name"
        return f"{fault['input'][:40]!r} cannot {what}; use {PATTERNS_IN_WORDS[fault['ctx']['pattern']]}"
    return str(fault["msg"]).removeprefix("Value error, ")  # pydantic's, before the sentence of a validator of ours


def find_models_at(kind: type[BaseModel], place: Sequence[str | int]) -> list[type[BaseModel]]:
    """Return the models that the fields at a place may belong to: steps are those of the `loc` of a fault."""
    ends = [[kind], *([*_list_models(found)] for _, found in _walk(kind, place))]
    return ends[-1]


def _describe_unknown_field(kind: type[BaseModel], place: Sequence[str | int]) -> str:
    steps, name = [(None, kind), *_walk(kind, place[:-1])], place[-1]
    here = [*_list_models(steps[-1][1])]
    if len(steps) > 1 and steps[-1][0] is None and len(here) == 1:  # a member of a union: others may have the field
        others = [model for model in _list_models(steps[-2][1]) if name in model.model_fields]
        tag = next((field for field in _TAGS if field in here[0].model_fields), None)
        if others and tag is not None:
            ours = here[0].model_fields[tag].default
            owners = " or ".join(str(model.model_fields[tag].default) for model in others)
            return f"belongs to {tag} {owners}, and this is {ours}: choose that {tag}, or leave the field out"
    names = sorted({known for model in here for known in model.model_fields})
    return f"no such field; there are {', '.join(names)}" if names else "no such field; there are none here"


def _walk(annotation: Any, place: Sequence[str | int]) -> Iterator[tuple[str | int | None, Any]]:
    """Yield each step's name, None for the member of a union, and the annotation of what lies there."""
    for step in place:
        annotation, is_union = _open_union(annotation)
        if is_union:
            annotation, name = _choose_member(annotation, step), None
        else:
            annotation, name = _step_into(annotation, step), step
        yield name, annotation


def _open_union(annotation: Any) -> tuple[Any, bool]:
    """Return an annotation without what is said beside it and without null, and whether it is a union even so."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) not in (Union, UnionType):
        return annotation, False
    members = [member for member in get_args(annotation) if member is not NoneType]
    return (annotation, True) if len(members) > 1 else _open_union(members[0])


def _choose_member(union: Any, label: str | int) -> Any:
    """Return the member of a union that pydantic's label stands for: its tag, or its name; else the union."""
    for member in get_args(union):
        bare, is_union = _open_union(member)
        if is_union:
            chosen = _choose_member(bare, label)
            if chosen is not bare:
                return chosen
        elif isinstance(bare, type) and issubclass(bare, BaseModel):
            tags = [bare.model_fields[tag].default for tag in _TAGS if tag in bare.model_fields]
            if label in (*tags, bare.__name__):
                return bare
        elif str(label).split("[")[0] == getattr(get_origin(bare) or bare, "__name__", None):
            return bare
    return union


def _step_into(annotation: Any, step: str | int) -> Any:
    """Return the annotation of a field of a model, or of what a mapping or sequence holds; else None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = annotation.model_fields.get(str(step))
        return None if field is None else field.annotation
    held = [one for one in get_args(annotation) if one is not Ellipsis]
    if isinstance(step, int) and get_origin(annotation) is tuple and step < len(held) and held[-1:] != held[:1]:
        return held[step]
    return held[-1] if held else None


def _list_models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _list_models(part)
