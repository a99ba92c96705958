"""Verdicts on VoiceBench that no model gave: simple rules, so that an evaluation can be tried out and tested."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from bystander.schemas.text_tasks import JUDGE_OPEN_ANSWER, JUDGE_REFERENCE_ANSWER

_MIN_LETTERS = 4  # shorter words say little about what a request is about


def _judge_open_answer(variables: Mapping[str, str]) -> dict[str, Any]:
    asked, said = _list_words(variables["request"]), _list_words(variables["answer"])
    shared = len(asked & said)
    return {"rationale": f"{shared} of the request's words come up.", "score": min(5, 1 + shared)}


def _judge_reference_answer(variables: Mapping[str, str]) -> dict[str, Any]:
    right, said = (" ".join(re.findall(r"\w+", variables[key].lower())) for key in ("reference", "answer"))
    held = f" {right} " in f" {said} "
    return {"rationale": f"The reference is {'' if held else 'not '}in it.", "score": int(held)}


def _list_words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) >= _MIN_LETTERS}


FAKE_VERDICTS: dict[str, Callable[[Mapping[str, str]], dict[str, Any]]] = {
    JUDGE_OPEN_ANSWER.name: _judge_open_answer,
    JUDGE_REFERENCE_ANSWER.name: _judge_reference_answer,
}
"""From the variables of a request to the verdict, by task. Open: 1, and 1 more for each longer word of the request that
the answer takes up, at most 5. Reference: whether its words stand in the answer."""
