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
_MARKS = {"en": (".", ", "), "zh": ("。", "，")}
"""What ends a sentence, and what parts two pieces of one."""


def draw_texts(language: str, count: int, seed: int) -> list[str]:
    """Return `count` texts of `en` or `zh`: sentences, clauses, listeners' answers alone and before a clause, lists.

    The first texts of a longer draw are those of a shorter one.

    Raises:
        InputError: there are no texts of that language.
    """
    lists = _get_lists(language)
    return [_draw_text(language, lists, make_rng(seed, str(index), "aligner_texts")) for index in range(count)]


def draw_break_texts(language: str, count: int, seed: int) -> list[tuple[str, str]]:
    """Return `count` pairs of a backchannel and a clause that could follow it after a pause, each a sentence.

    Raises:
        InputError: there are no texts of that language.
    """
    lists = _get_lists(language)
    stop = _MARKS[language][0]
    pairs = []
    for index in range(count):
        rng = make_rng(seed, str(index), "aligner_break_texts")
        backchannel = lists["backchannels"][index * 7 % len(lists["backchannels"])]
        clause = _fill(_choose(lists["clauses"], rng), lists, rng)
        pairs.append((_start_sentence(backchannel + stop), _start_sentence(clause + stop)))
    return pairs


@cache
def load_lists() -> dict[str, dict[str, list[str]]]:
    """Return the lists of each language."""
    source = resources.files("bystander.tasks.training").joinpath("data/aligner_texts.yaml")
    lists: dict[str, dict[str, list[str]]] = yaml.safe_load(source.read_text("utf-8"))
    return lists


def _get_lists(language: str) -> dict[str, list[str]]:
    lists = load_lists()
    if language not in lists:
        raise InputError(f"language {language!r}: there are training texts of {', '.join(sorted(lists))} only")
    return lists[language]


def _draw_text(language: str, lists: dict[str, list[str]], rng: np.random.Generator) -> str:
    stop, comma = _MARKS[language]
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
