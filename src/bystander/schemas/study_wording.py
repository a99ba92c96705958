"""The words of a study: those that ship, with a file of one's own laid over."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml
from pydantic import ValidationError

from bystander.schemas.errors import ConfigError
from bystander.schemas.field_faults import describe_field_faults
from bystander.schemas.study import FIRST, SECOND, TIE, StudyKind, StudyWording

_ANSWERS: Mapping[StudyKind, Mapping[str, frozenset[str]]] = {
    "realism": {"realism": frozenset("123")},
    "naturalness": {"naturalness": frozenset("123")},
    "reply": {"rsf": frozenset({"no", "yes"}), "oh": frozenset("12345")},
    "preference": {"preference": frozenset({FIRST, SECOND, TIE})},
    "satisfaction": {"satisfaction": frozenset({"preferred", "neutral", "unpreferred"})},
}
"""What each kind asks and which answers it takes: other words are free, but figures are made of these."""


def load_wording(kind: StudyKind, own: str | None = None, source: str = "--wording") -> StudyWording:
    """Return the words of a kind of study.

    Args:
        kind: of the study.
        own: YAML of fields to lay over; mappings are merged, lists replaced.
        source: how messages name that YAML.

    Raises:
        ConfigError: the YAML is none, or the words do not fit the kind.
    """
    shipped = _read_shipped()
    words: dict[str, Any] = _lay_over(shipped["common"], shipped[kind])
    if own is not None:
        try:
            given = yaml.safe_load(own)
        except yaml.YAMLError as exc:
            raise ConfigError(f"{source}: is not valid YAML ({' '.join(str(exc).split())})") from exc
        if not isinstance(given, Mapping):
            raise ConfigError(f"{source}: must hold fields of the wording, such as title or questions")
        words = _lay_over(words, given)
    try:
        wording = StudyWording.model_validate(words)
    except ValidationError as exc:
        raise ConfigError(f"{source}: {describe_field_faults(StudyWording, exc)}") from exc
    asked = {question.name: {option.value for option in question.options} for question in wording.questions}
    if asked != _ANSWERS[kind]:
        wanted = "; ".join(f"{name}: {', '.join(sorted(values))}" for name, values in _ANSWERS[kind].items())
        raise ConfigError(f"{source}: a study of {kind} asks these questions with options of these values: {wanted}")
    missing = sorted(shipped["common"]["ui"].keys() - wording.ui.keys())
    if missing:
        raise ConfigError(f"{source}: ui has no {', '.join(missing)}")
    return wording


def _lay_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        merged[name] = _lay_over(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


@cache
def _read_shipped() -> Mapping[str, Any]:
    text = resources.files("bystander.schemas").joinpath("data/studies.yaml").read_text("utf-8")
    return dict(yaml.safe_load(text))
