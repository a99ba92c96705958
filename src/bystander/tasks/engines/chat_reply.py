"""What a chat model's raw answer means: thinking split off, JSON read and checked, option log-probabilities summed.

Pure functions; `openai_text` does the talking.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema

_ABSENT_MARGIN = 2.0
"""Nats below the least probable listed token: what an option gets that is not among the listed tokens."""
_LEAST_SHARE = 1e-3
"""Share of all probability that the options must have together. A reasoning model puts nearly all on the token that
opens its thinking; what is left says nothing about the answer."""
_WHITE_SPACE_LOOP = re.compile(r"\s{40,}")
_OPENING = "<think>"
_THINKING = re.compile(r"^\s*(?:<think>)?(.*?)</think>", re.DOTALL)
_FENCE = re.compile(r"^```[A-Za-z]*\s*\n(.*?)\n?\s*```$", re.DOTALL)


def split_thinking(content: str) -> tuple[str, str | None]:
    """Return (answer, thinking) of a reasoning model's text; thinking is None where there is none.

    Chat templates may put the opening tag into the prompt, so a closing tag alone counts too, unless the whole text is
    JSON, in which it stands in a string. Several thoughts one after the other are joined. Thinking that never ends
    leaves an empty answer.
    """
    thoughts: list[str] = []
    rest = content
    while True:
        opened = rest.lstrip().startswith(_OPENING)
        closed = _THINKING.match(rest)
        if closed is None and opened:
            thoughts.append(rest.lstrip().removeprefix(_OPENING).strip())
            rest = ""
        if closed is None or not (opened or (not thoughts and not _is_json(rest))):
            break
        thoughts.append(closed.group(1).strip())
        rest = rest[closed.end() :]
    return rest.strip(), "\n".join(thoughts).strip() if thoughts else None


def loops_white_space(content: str) -> bool:
    """Tell whether the answer in a text holds a run of white space that it does not need: guided decoding gone astray.

    Thoughts are not looked at: they may hold tables and code.
    """
    answer = content[closed.end() :] if (closed := _THINKING.match(content)) else content
    return not answer.lstrip().startswith(_OPENING) and _WHITE_SPACE_LOOP.search(answer) is not None


def read_json(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object in `text`, checked against `schema`; a code fence around it is taken off.

    Raw control characters inside strings are let through, since guided decoding of some servers yields them.

    Raises:
        ValueError: it is no JSON, no object, or does not fit; the message says what is wrong.
    """
    fenced = _FENCE.match(text)
    try:
        value = json.loads(fenced.group(1) if fenced else text, strict=False)
    except ValueError as exc:
        raise ValueError(f"not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    fault = next(jsonschema.Draft202012Validator(schema).iter_errors(value), None)
    if fault is not None:
        raise ValueError(f"does not fit the schema: {fault.message}")
    return value


def measure_options(options: Sequence[str], tokens: Sequence[tuple[str, float]]) -> dict[str, float] | None:
    """Return the probability of each option as the next answer.

    `tokens` are the listed first tokens with their natural log-probabilities. A token counts for an option if it
    spells its beginning, white space and (for options of several letters) case aside. Spellings of one option are
    summed; an option that is not listed gets the least listed log-probability less a margin; then they are normalised
    over the options.

    Returns None where nothing can be measured: the options have next to no probability, or a listed token begins
    several of them.
    """
    listed: dict[str, list[float]] = {option: [] for option in options}
    lowest = math.inf
    for token, logprob in tokens:
        if not math.isfinite(logprob):
            continue
        lowest = min(lowest, logprob)
        begun = [option for option in options if _begins(token, option)]
        if len(begun) > 1:
            return None
        if begun:
            listed[begun[0]].append(logprob)
    if sum(math.exp(logprob) for found in listed.values() for logprob in found) < _LEAST_SHARE:
        return None
    scores = {option: _add_logs(found) if found else lowest - _ABSENT_MARGIN for option, found in listed.items()}
    total = _add_logs(list(scores.values()))
    return {option: math.exp(score - total) for option, score in scores.items()}


def choose_option(options: Sequence[str], answer: str) -> dict[str, float]:
    """Return the probabilities that a bare answer amounts to: 1 for the option it names, 0 for the others.

    Raises:
        ValueError: the answer is none of the options.
    """
    if answer not in options:
        raise ValueError(f"{answer!r} is none of {', '.join(options)}")
    return {option: float(option == answer) for option in options}


def build_answer_schema(options: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of a bare answer to an option request."""
    return {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": list(options)}},
        "required": ["answer"],
        "additionalProperties": False,
    }


def _is_json(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except ValueError:
        return False
    return True


def _begins(token: str, option: str) -> bool:
    stripped = token.strip()
    if not stripped:
        return False
    if len(option) == 1:
        return stripped == option
    return option.casefold().startswith(stripped.casefold())


def _add_logs(logprobs: Sequence[float]) -> float:
    highest = max(logprobs)
    return highest + math.log(sum(math.exp(logprob - highest) for logprob in logprobs))
