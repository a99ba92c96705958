"""What a simulated model answers: as the fake text engine does where the prompt is marked, else whatever fits."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bystander.schemas.engines import TextReply, TextRequest
from bystander.schemas.text_tasks import list_kind_letters
from bystander.simulation.marked_pack import read_mark
from bystander.tasks.engines.fake_text import FakeTextEngine

_COMMON_OPTIONS = ("A", "B", "C", "D", "1", "2", "3", "4", "5", "Yes", "No")
_FILLER = "This is a simulated answer."


@dataclass(frozen=True, slots=True)
class SimulatedAnswer:
    """A message's text, and the tokens that could have come first, with their natural log-probabilities."""

    content: str
    first_tokens: tuple[tuple[str, float], ...]


class SimulatedModel:
    """Answers chat completion requests; the same body always gets the same answer."""

    def __init__(self) -> None:
        self._engine = FakeTextEngine()

    def answer(self, body: Mapping[str, Any]) -> SimulatedAnswer:
        """Answer a request whose `messages` are a list of chat messages and whose `seed`, if any, is a number."""
        schema = _find_schema(body)
        mark = read_mark(str(body["messages"][-1]["content"]))
        if mark is not None:
            options = _find_options(mark, schema)
            request = TextRequest(
                task=str(mark.get("task")),
                messages=(),
                seed=int(body.get("seed") or 0),
                variables=mark.get("variables") or {},
                reply_schema=schema,
                options=options,
            )
            (reply,) = self._engine.generate([request])
            if isinstance(reply, TextReply):
                return _say(reply, schema, bool(options))
        if schema is not None:
            return SimulatedAnswer(json.dumps(fill_schema(schema)), ())
        tokens = tuple((option, -math.log(len(_COMMON_OPTIONS))) for option in _COMMON_OPTIONS)
        return SimulatedAnswer(_FILLER, tokens)


def fill_schema(schema: Mapping[str, Any]) -> Any:
    """Return a value of the types that a JSON schema asks for; patterns are not heeded."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {key: fill_schema(value) for key, value in schema.get("properties", {}).items()}
    if kind == "array":
        return [fill_schema(schema.get("items", {})) for _ in range(int(schema.get("minItems", 0)))]
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    if kind == "boolean":
        return False
    return _FILLER[: int(schema.get("maxLength", len(_FILLER)))]


def _find_schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    return schema if isinstance(schema, Mapping) else None


def _find_options(mark: Mapping[str, Any], schema: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the options of a request: those of its schema where it asks for a bare answer."""
    asked: Sequence[str] = ((schema or {}).get("properties", {}).get("answer", {})).get("enum", ())
    if asked:
        return tuple(asked)
    if "kinds" in mark:
        return list_kind_letters(int(mark["kinds"]))
    return tuple(mark.get("options", ()))


def _say(reply: TextReply, schema: Mapping[str, Any] | None, chosen: bool) -> SimulatedAnswer:
    if not chosen:
        return SimulatedAnswer(reply.text, ())
    content = reply.text if schema is None else json.dumps({"answer": reply.text})
    tokens = tuple((option, math.log(p)) for option, p in (reply.option_probs or {}).items() if p > 0)
    return SimulatedAnswer(content, tokens)
