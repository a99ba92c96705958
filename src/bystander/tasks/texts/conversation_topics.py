"""Subjects that embedded conversations are written about."""

from __future__ import annotations

from functools import cache
from importlib import resources

import yaml

_DATA = resources.files("bystander.tasks.texts") / "data" / "conversation_topics.yaml"


@cache
def list_topics(language: str) -> tuple[str, ...]:
    """Return the topics in one of the languages of `schemas.text_tasks.SID_LANGUAGES`, in the file's order."""
    topics: dict[str, list[str]] = yaml.safe_load(_DATA.read_text("utf-8"))
    return tuple(topics[language])
