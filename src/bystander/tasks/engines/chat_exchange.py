"""One request on its way through a chat model: what to ask next, and what an answer amounts to. It does no talking.

The states: an option request is first measured by the log-probabilities of its first token, if they are to be had, and
else asked for a bare answer; what cannot be read is asked for once more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bystander.schemas.engines import RowFault, TextReply, TextRequest
from bystander.tasks.engines.chat_reply import (
    build_answer_schema,
    choose_option,
    loops_white_space,
    measure_options,
    read_json,
    split_thinking,
)

READING_VERSION = "2"
"""Part of identities: raised when the same answer of a model would be read as another reply."""
SEED_MODULUS = 2**31
"""Seeds of a build have 63 bits; servers take fewer."""
_TOP_LOGPROBS = 20
"""As many alternatives as vLLM and OpenAI give at most."""
_REPAIR = (
    "\n\nYour last answer could not be read. Answer again with nothing but the JSON object that was asked for: "
    "no text around it, no line breaks, all its keys, no others."
)
_REPAIR_TEXT = "\n\nYour last answer could not be read. Answer again in a few plain sentences."


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """One completion as the model gave it; `tokens` are the listed first tokens with natural log-probabilities."""

    content: str
    reasoning: str | None = None
    finish_reason: str | None = None
    tokens: tuple[tuple[str, float], ...] | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    """Of the completion's, those that the server says were thought, which hosted ones do not show."""


class ChatExchange:
    """Asks for one request until there is a reply or a fault: `body` is sent, its answer given to `take`, and so on.

    Faults: `request_refused` (as the caller gives it), `reply_too_long`, `empty_reply`, `unparsable_reply`.
    """

    def __init__(self, request: TextRequest, *, logprobs: bool, reasoning_tokens: int = 0) -> None:
        """`logprobs`: whether options may be measured. A model that thinks has thoughts for first tokens: it has none.

        `reasoning_tokens` are granted on top of what the answer itself may take.
        """
        self._request = request
        self._reasoning_tokens = reasoning_tokens
        self._measuring = bool(request.options) and logprobs and not reasoning_tokens
        self._schema = build_answer_schema(request.options) if request.options else request.reply_schema
        self._attempt = 0
        self._prompt_tokens = self._completion_tokens = 0

    @property
    def measuring(self) -> bool:
        """Whether the answer to the next `body` is to be measured, not read."""
        return self._measuring

    def body(self) -> dict[str, Any]:
        """Return the body of the chat completion to ask for next, but for the name of the model."""
        request = self._request
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        if self._attempt:
            # Into the last message, not behind it: some chat templates refuse two user turns in a row.
            messages[-1]["content"] += _REPAIR if self._schema is not None else _REPAIR_TEXT
        body: dict[str, Any] = {"messages": messages, "seed": (request.seed + self._attempt) % SEED_MODULUS}
        if self._measuring:
            return {**body, "max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": _TOP_LOGPROBS}
        body["max_tokens"] = request.max_tokens + self._reasoning_tokens
        body["temperature"] = 0.0 if request.options else request.temperature
        body["top_p"] = request.top_p
        if self._schema is not None:
            name = re.sub(r"[^A-Za-z0-9_-]", "_", request.task)[:64] or "reply"
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": name, "strict": True, "schema": dict(self._schema)},
            }
        return body

    def take(self, answer: ChatAnswer | RowFault) -> TextReply | RowFault | None:
        """Return what the answer to `body` amounts to, or None where the next `body` is to be asked for."""
        if self._measuring:
            measured = None if isinstance(answer, RowFault) else self._measure(answer)
            self._measuring = False  # where nothing was measured, perhaps only the log-probabilities were refused
            return measured
        if isinstance(answer, RowFault):
            return answer
        self._prompt_tokens += answer.prompt_tokens
        self._completion_tokens += answer.completion_tokens
        outcome = self._read(answer)
        if isinstance(outcome, RowFault) and outcome.reason == "unparsable_reply" and not self._attempt:
            self._attempt = 1
            return None
        return outcome

    def _measure(self, answer: ChatAnswer) -> TextReply | None:
        options = self._request.options
        probs = measure_options(options, answer.tokens) if answer.tokens else None
        if probs is None:
            return None
        return TextReply(
            text=max(options, key=probs.__getitem__),
            option_probs=probs,
            option_source="logprobs",
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
        )

    def _read(self, answer: ChatAnswer) -> TextReply | RowFault:
        text, thinking = split_thinking(answer.content)
        thinking = answer.reasoning or thinking or None
        raw = answer.content if text or not answer.reasoning else f"<think>{answer.reasoning}"
        if loops_white_space(answer.content):
            return RowFault("unparsable_reply", "the reply is a loop of white space", raw)
        if answer.finish_reason == "length":
            return RowFault("reply_too_long", self._explain_length(text, thinking), raw)
        if not text:
            said = "the model thought and answered nothing" if thinking else "the model answered nothing"
            return RowFault("empty_reply", said, raw)
        try:
            value = read_json(text, self._schema) if self._schema is not None else None
        except ValueError as exc:
            return RowFault("unparsable_reply", f"the reply is {exc}", raw)
        chosen = str(value["answer"]) if self._request.options and value is not None else None
        return TextReply(
            text=text if chosen is None else chosen,
            value=value if chosen is None else None,
            option_probs=None if chosen is None else choose_option(self._request.options, chosen),
            option_source=None if chosen is None else "answer",
            reasoning=thinking,
            repaired=self._attempt > 0,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
        )

    def _explain_length(self, text: str, thinking: str | None) -> str:
        tokens = self._request.max_tokens + self._reasoning_tokens
        if thinking and not text:
            return f"the model thought for all of its {tokens} tokens and gave no answer; raise `reasoning_tokens`"
        if thinking is None and self._reasoning_tokens:
            # Without its opening tag, which templates put into the prompt, a thought looks like an answer.
            return f"the reply does not end within {tokens} tokens, nor do thoughts in it; raise `reasoning_tokens`"
        return f"the reply does not end within {tokens} tokens"


def read_completion(completion: Mapping[str, Any]) -> ChatAnswer:
    """Return the answer in the JSON of a chat completion.

    Raises:
        ValueError: it is no chat completion.
    """
    try:
        choice = completion["choices"][0]
        message = choice["message"]
        listed = ((choice.get("logprobs") or {}).get("content") or [{}])[0].get("top_logprobs") or ()
        usage = completion.get("usage") or {}
        # vLLM has called the field both names.
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        return ChatAnswer(
            content=message.get("content") or "",
            reasoning=reasoning if isinstance(reasoning, str) else None,
            finish_reason=choice.get("finish_reason"),
            tokens=tuple((str(top["token"]), float(top["logprob"])) for top in listed) or None,
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            completion_tokens=int(usage.get("completion_tokens") or 0),
            reasoning_tokens=int((usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
        raise ValueError("no chat completion") from exc
