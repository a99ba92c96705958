"""What to ask a chat model next, and what its answers amount to: the batch engine's way is the online engine's way."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from scripted_chat_server import Scripted, _render, serve_script

from bystander.schemas.engines import Message, RowFault, TextReply, TextRequest
from bystander.schemas.text_engine_configs import OpenAiTextConfig
from bystander.tasks.engines.chat_exchange import ChatExchange, read_completion
from bystander.tasks.engines.openai_text import OpenAiTextEngine

SCHEMA = {
    "type": "object",
    "properties": {"line": {"type": "string", "maxLength": 20}},
    "required": ["line"],
    "additionalProperties": False,
}
YES = [("Yes", math.log(0.6)), ("No", math.log(0.2))]


def ask(**fields: Any) -> TextRequest:
    return TextRequest(
        "write a line", (Message("system", "Be brief."), Message("user", "Say it.")), seed=2**40 + 5, **fields
    )


def run_exchange(request: TextRequest, answers: list[Scripted], **settings: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return the outcome and the bodies asked for, given these answers one after the other."""
    exchange = ChatExchange(request, **{"logprobs": True, **settings})
    bodies: list[dict[str, Any]] = []
    outcome = None
    while outcome is None:
        bodies.append(exchange.body())
        scripted = answers[min(len(bodies), len(answers)) - 1]
        refused = RowFault("request_refused", scripted.error)
        outcome = exchange.take(refused if scripted.status >= 400 else read_completion(_render(scripted)))
    return outcome, bodies


def run_online(request: TextRequest, answers: list[Scripted], **settings: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return the same of the engine that talks to a server."""
    with serve_script(lambda _body, number: answers[min(number, len(answers) - 1)]) as server:
        engine = OpenAiTextEngine(OpenAiTextConfig(base_url=server.base_url, model="m", **settings))
        try:
            [outcome] = engine.generate([request])
        finally:
            engine.close()
        return outcome, [{k: v for k, v in body.items() if k != "model"} for body in server.bodies]


CASES: dict[str, tuple[TextRequest, list[Scripted], dict[str, Any]]] = {
    "text": (ask(temperature=0.3, top_p=0.8, max_tokens=9), [Scripted("Hi.")], {}),
    "json": (ask(reply_schema=SCHEMA), [Scripted('{"line": "Hi."}')], {}),
    "fenced": (ask(reply_schema=SCHEMA), [Scripted('```json\n{"line": "a\tb"}\n```')], {}),
    "repaired": (ask(reply_schema=SCHEMA), [Scripted("oops"), Scripted('{"line": "Hi."}')], {}),
    "never readable": (ask(reply_schema=SCHEMA), [Scripted('{"line": 3}')], {}),
    "white space": (ask(reply_schema=SCHEMA), [Scripted('{"line": "x"' + " " * 60, "length")], {}),
    "cut off": (ask(reply_schema=SCHEMA), [Scripted('{"line": "and', "length")], {}),
    "empty": (ask(), [Scripted(" ")], {}),
    "refused": (ask(), [Scripted(status=400, error="too long")], {}),
    "thinking": (ask(), [Scripted("<think>Hm.</think>Yes.")], {"reasoning_tokens": 50}),
    "measured": (ask(options=("Yes", "No")), [Scripted("Yes", logprobs=YES)], {}),
    "no measure": (ask(options=("Yes", "No")), [Scripted("Yes"), Scripted('{"answer": "No"}')], {}),
    "measure refused": (
        ask(options=("Yes", "No")),
        [Scripted(status=400, error="no logprobs"), Scripted('{"answer": "No"}')],
        {},
    ),
    "answer only": (ask(options=("Yes", "No")), [Scripted('{"answer": "No"}')], {"logprobs": False}),
    "no option": (ask(options=("Yes", "No")), [Scripted('{"answer": "Hm"}')], {"logprobs": False}),
    "thinks first": (ask(options=("Yes", "No")), [Scripted('Hm.</think>{"answer": "No"}')], {"reasoning_tokens": 50}),
}


@pytest.mark.parametrize("name", CASES)
def test_batches_ask_and_read_as_the_online_engine_does(name: str) -> None:
    request, answers, settings = CASES[name]
    outcome, bodies = run_exchange(request, answers, **settings)
    expected, sent = run_online(request, answers, **settings)
    assert bodies == sent
    if name == "refused":  # the client says that it is an error, too
        assert isinstance(expected, RowFault)
        expected = replace(expected, detail=expected.detail.removeprefix("Error code: 400 - "))
    assert outcome == expected
    assert isinstance(outcome, TextReply | RowFault)


@pytest.mark.parametrize("body", [{}, [], {"choices": []}, {"choices": [{}]}, {"choices": [{"message": 3}]}, "x"])
def test_what_is_no_completion_is_told(body: Any) -> None:
    with pytest.raises(ValueError, match="no chat completion"):
        read_completion(body)
