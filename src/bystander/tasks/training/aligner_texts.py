"""Texts to train an alignment model on, drawn from lists of ours that hold every phone of the language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import yaml

from bystander.schemas.errors import InputError
from bystander.schemas.identity import make_rng

_SLOT = re.compile(r"\{([a-z_]+)\}")
_KINDS = ("backchannel", "backchannel_clause", "clause", "sentence", "list")
_SHARES = (0.12, 0.3, 0.15, 0.38, 0.05)
_MARKS = {"en": (".", ", ", "."), "zh": ("。", "，", "。")}


def draw_texts(language: str, count: int, seed: int) -> list[str]:
    """Return `count` texts of `en` or `zh`: sentences, clauses, listeners' answers alone and before a clause, lists.

    The first texts of a longer draw are those of a shorter one.

    Raises:
        InputError: there are no texts of that language.
    """
    lists = load_lists()
    if language not in lists:
        raise InputError(f"language {language!r}: there are training texts of {', '.join(sorted(lists))} only")
    return [_draw_text(language, lists[language], make_rng(seed, str(index), "aligner_texts")) for index in range(count)]


@cache
def load_lists() -> dict[str, dict[str, list[str]]]:
    """Return the lists of each language."""
    source = resources.files("bystander.tasks.training").joinpath("data/aligner_texts.yaml")
    lists: dict[str, dict[str, list[str]]] = yaml.safe_load(source.read_text("utf-8"))
    return lists


def _draw_text(language: str, lists: dict[str, list[str]], rng: np.random.Generator) -> str:
    stop, comma, _ = _MARKS[language]
    kind = str(rng.choice(_KINDS, p=_SHARES))
    if kind == "backchannel":
        return _start_sentence(_choose(lists["backchannels"], rng) + stop)
    if kind == "backchannel_clause":
        clause = _fill(_choose(lists["clauses"], rng), lists, rng)
        return _start_sentence(_choose(lists["backchannels"], rng) + comma + clause + stop)
    if kind == "clause":
        return _start_sentence(_fill(_choose(lists["clauses"], rng), lists, rng) + stop)
    if kind == "list":
        return _start_sentence(comma.join(_choose(lists["object"], rng) for _ in range(4)) + stop)
    return _fill(_choose(lists["sentences"], rng), lists, rng)


def _choose(items: Sequence[str], rng: np.random.Generator) -> str:
    return items[int(rng.integers(len(items)))]


def _fill(template: str, lists: dict[str, Any], rng: np.random.Generator) -> str:
    return _SLOT.sub(lambda match: _choose(lists[match[1]], rng), template)


def _start_sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
