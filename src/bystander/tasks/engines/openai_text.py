"""The text engine for any OpenAI-compatible chat endpoint (vLLM, llama.cpp, hosted ones)."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bystander.schemas.engines import EngineIdentity, RowFault, TextReply, TextRequest
from bystander.schemas.text_engine_configs import LlamaCppTextConfig, OpenAiTextConfig, VllmTextConfig
from bystander.tasks.engines.chat_reply import (
    build_answer_schema,
    choose_option,
    loops_white_space,
    measure_options,
    read_json,
    split_thinking,
)
from bystander.tasks.engines.endpoint_pool import EndpointPool
from bystander.tasks.engines.openai_client import ChatClient, Slot, run_together
from bystander.tasks.engines.request_lanes import split_into_lanes

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

_log = logging.getLogger(__name__)

OnReply = Callable[[int, TextReply], None]

_READING_VERSION = "2"
"""Part of the identity: raised when the same answer of a server would be read as another reply."""
_TOP_LOGPROBS = 20
"""As many alternatives as vLLM and OpenAI give at most."""
_REPAIR = (
    "\n\nYour last answer could not be read. Answer again with nothing but the JSON object that was asked for: "
    "no text around it, no line breaks, all its keys, no others."
)
_REPAIR_TEXT = "\n\nYour last answer could not be read. Answer again in a few plain sentences."


@dataclass(frozen=True, slots=True)
class _Answer:
    """One completion as the server gave it."""

    content: str
    reasoning: str | None
    finish_reason: str | None
    tokens: tuple[tuple[str, float], ...] | None
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    """Of the completion's, those that the server says were thought, which hosted ones do not show."""


class OpenAiTextEngine:
    """A model behind one or several OpenAI-compatible endpoints, each with at most `max_in_flight` requests at once.

    The bound is shared by all threads that call `generate`.

    Requests are sent in lanes ordered by their prompts, because servers reuse the computed beginning of a prompt; the
    lanes next to each other have the same server for a home (`endpoint_pool`). A lane that is done takes over the last
    request of the longest one, of those with its home if they have any left. Replies come back in the order asked.
    """

    def __init__(
        self,
        config: OpenAiTextConfig,
        resolve_model: Callable[[str], Path] | None = None,  # noqa: ARG002 - all adapters are built alike
        *,
        identity: EngineIdentity | None = None,
        use_proxies: bool = True,
        check_models: bool = True,
        api_key: str | None = None,
    ) -> None:
        """Take the settings; nothing is contacted yet.

        `identity` replaces the one that the config gives; the others are those of `ChatClient`.

        Raises:
            EngineSetupError: the environment variable that should hold the key is not set.
        """
        self._config = config
        self._client = ChatClient(
            config, "text engine", use_proxies=use_proxies, check_models=check_models, api_key=api_key
        )
        self._identity = identity or EngineIdentity(
            kind="text",
            name="openai",
            model=config.model,
            revision=config.revision,
            settings=describe_settings(config),
        )
        # A reasoning model's first token is a thought: its log-probabilities say nothing about the answer.
        self._logprobs_offered = config.logprobs and not config.reasoning_tokens
        self._thoughts_seen = False

    @property
    def identity(self) -> EngineIdentity:
        """What decides the replies."""
        return self._identity

    @property
    def endpoints(self) -> EndpointPool:
        """The servers, with what each has answered so far."""
        return self._client.pool

    def generate(self, requests: Sequence[TextRequest], on_reply: OnReply | None = None) -> list[TextReply | RowFault]:
        """Return one reply or fault a request, in order.

        Faults: `request_refused` (the server takes no such request, e.g. too long a context), `reply_too_long`,
        `empty_reply`, `unparsable_reply` (after one repair).

        Raises:
            EngineUnavailableError: the server cannot be reached or is overloaded, after all retries.
            EngineSetupError: the key or the model is not accepted, or the engine was closed.
        """
        if not requests:
            return []
        return self._client.run(lambda: self._generate_all(requests, on_reply))

    def look_again(self) -> None:
        """Use servers again that were left out and are well by now, without waiting for their next probe."""
        self._client.run(self._client.pool.look_again)

    def close(self) -> None:
        """Cancel what is in flight, close the connections and end the thread; a second call does nothing."""
        self._client.close()

    async def _generate_all(
        self, requests: Sequence[TextRequest], on_reply: OnReply | None
    ) -> list[TextReply | RowFault]:
        replies: dict[int, TextReply | RowFault] = {}
        lanes = split_into_lanes(requests, self._client.capacity)
        homes = [self._client.pool.find_home(number, len(lanes)) for number in range(len(lanes))]

        async def run_lane(lane: deque[int], home: int) -> None:
            while True:
                if lane:
                    index = lane.popleft()
                elif left := [
                    (homes[number] == home, len(other), -number) for number, other in enumerate(lanes) if other
                ]:
                    index = lanes[-max(left)[2]].pop()
                else:
                    return
                async with self._client.take_slot(home) as slot:
                    reply = await self._answer(slot, requests[index])
                replies[index] = reply
                if on_reply is not None and isinstance(reply, TextReply):
                    on_reply(index, reply)

        # The first of each home, then the second: so that all servers fill up alike, and none looks much the busiest.
        first_of = {home: number for number, home in reversed(list(enumerate(homes)))}
        order = sorted(range(len(lanes)), key=lambda number: number - first_of[homes[number]])
        await run_together([run_lane(lanes[number], homes[number]) for number in order])
        return [replies[index] for index in range(len(requests))]

    async def _answer(self, slot: Slot, request: TextRequest) -> TextReply | RowFault:
        if not request.options:
            return await self._write(slot, request, request.reply_schema)
        if self._logprobs_offered:
            measured = await self._measure(slot, request)
            if measured is not None:
                return measured
        reply = await self._write(slot, request, build_answer_schema(request.options))
        if isinstance(reply, RowFault) or reply.value is None:
            return reply
        answer = str(reply.value["answer"])
        return TextReply(
            text=answer,
            option_probs=choose_option(request.options, answer),
            option_source="answer",
            reasoning=reply.reasoning,
            repaired=reply.repaired,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
        )

    async def _measure(self, slot: Slot, request: TextRequest) -> TextReply | None:
        """Return a reply with measured probabilities, or None where the server's answer gives none."""
        answer = await self._ask(
            slot,
            request,
            {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": _TOP_LOGPROBS},
        )
        if isinstance(answer, RowFault):
            return None  # perhaps only the log-probabilities were refused
        if answer.tokens is None:
            self._logprobs_offered = False
            return None
        probs = measure_options(request.options, answer.tokens)
        if probs is None:
            return None
        return TextReply(
            text=max(request.options, key=probs.__getitem__),
            option_probs=probs,
            option_source="logprobs",
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
        )

    async def _write(self, slot: Slot, request: TextRequest, schema: Mapping[str, Any] | None) -> TextReply | RowFault:
        """Ask, and ask once more if the answer cannot be read."""
        fault = RowFault("unparsable_reply")
        options = _writing_options(request, schema, self._config.reasoning_tokens)
        prompt_tokens = completion_tokens = 0
        for attempt in range(2):
            answer = await self._ask(slot, request, options, repair=attempt > 0, schema=schema)
            if isinstance(answer, RowFault):
                return answer
            prompt_tokens += answer.prompt_tokens
            completion_tokens += answer.completion_tokens
            text, thinking = split_thinking(answer.content)
            thinking = answer.reasoning or thinking or None
            raw = answer.content if text or not answer.reasoning else f"<think>{answer.reasoning}"
            if loops_white_space(answer.content):
                fault = RowFault("unparsable_reply", "the reply is a loop of white space", raw)
                continue
            if answer.finish_reason == "length":
                return RowFault("reply_too_long", self._explain_length(text, thinking, options["max_tokens"]), raw)
            if not text:
                said = "the model thought and answered nothing" if thinking else "the model answered nothing"
                return RowFault("empty_reply", said, raw)
            if schema is not None and thinking is None:
                self._doubt_thinking(answer)
            try:
                value = read_json(text, schema) if schema is not None else None
            except ValueError as exc:
                fault = RowFault("unparsable_reply", f"the reply is {exc}", raw)
                continue
            return TextReply(
                text=text,
                value=value,
                reasoning=thinking,
                repaired=attempt > 0,
                prompt_tokens=prompt_tokens,
                completion_tokens=completion_tokens,
            )
        return fault

    def _explain_length(self, text: str, thinking: str | None, tokens: int) -> str:
        if thinking and not text:
            return f"the model thought for all of its {tokens} tokens and gave no answer; raise `reasoning_tokens`"
        if thinking is None and self._config.reasoning_tokens:
            # Without its opening tag, which templates put into the prompt, a thought looks like an answer.
            return f"the reply does not end within {tokens} tokens, nor do thoughts in it; raise `reasoning_tokens`"
        return f"the reply does not end within {tokens} tokens"

    def _doubt_thinking(self, answer: _Answer) -> None:
        """Warn, once, where a model that should think gives its first JSON without."""
        if self._config.reasoning_tokens and not self._thoughts_seen and not answer.reasoning_tokens:
            _log.warning(
                "text engine %s: `reasoning_tokens` is set, but it answers in JSON without thinking; vLLM lets it "
                "think only with --reasoning-parser",
                self._config.model,
            )
        self._thoughts_seen = True

    async def _ask(
        self,
        slot: Slot,
        request: TextRequest,
        options: Mapping[str, Any],
        repair: bool = False,
        schema: Mapping[str, Any] | None = None,
    ) -> _Answer | RowFault:
        messages = [{"role": message.role, "content": message.content} for message in request.messages]
        if repair:
            # Into the last message, not behind it: some chat templates refuse two user turns in a row.
            messages[-1]["content"] += _REPAIR if schema is not None else _REPAIR_TEXT
        return await self._client.complete(
            slot, _read_completion, seed=request.seed + repair, messages=messages, **options
        )


def describe_settings(config: OpenAiTextConfig | VllmTextConfig | LlamaCppTextConfig) -> tuple[tuple[str, str], ...]:
    """Return the settings of an engine's identity that this client has a part in."""
    settings = (("logprobs", str(config.logprobs)), ("reading", _READING_VERSION))
    thinking = (("reasoning_tokens", str(config.reasoning_tokens)),) if config.reasoning_tokens else ()
    return settings + thinking


def _writing_options(request: TextRequest, schema: Mapping[str, Any] | None, reasoning_tokens: int) -> dict[str, Any]:
    options: dict[str, Any] = {
        "max_tokens": request.max_tokens + reasoning_tokens,
        "temperature": 0.0 if request.options else request.temperature,
        "top_p": request.top_p,
    }
    if schema is not None:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", request.task)[:64] or "reply"
        options["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": name, "strict": True, "schema": dict(schema)},
        }
    return options


def _read_completion(completion: ChatCompletion) -> _Answer:
    choice = completion.choices[0]
    extra = choice.message.model_extra or {}
    # vLLM has called the field both names.
    reasoning = extra.get("reasoning_content") or extra.get("reasoning")
    tokens: tuple[tuple[str, float], ...] | None = None
    if choice.logprobs is not None and choice.logprobs.content:
        tokens = tuple((top.token, top.logprob) for top in choice.logprobs.content[0].top_logprobs) or None
    usage = completion.usage
    details = usage.completion_tokens_details if usage else None
    return _Answer(
        content=choice.message.content or "",
        reasoning=reasoning if isinstance(reasoning, str) else None,
        finish_reason=choice.finish_reason,
        tokens=tokens,
        prompt_tokens=usage.prompt_tokens if usage else 0,
        completion_tokens=usage.completion_tokens if usage else 0,
        reasoning_tokens=(details.reasoning_tokens or 0) if details is not None else 0,
    )
