"""The text engine for any OpenAI-compatible chat endpoint (vLLM, llama.cpp, hosted ones)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bystander.schemas.engines import EngineIdentity, RowFault, TextReply, TextRequest
from bystander.schemas.text_engine_configs import LlamaCppTextConfig, OpenAiTextConfig, VllmTextConfig
from bystander.tasks.engines.chat_exchange import READING_VERSION, ChatAnswer, ChatExchange
from bystander.tasks.engines.endpoint_pool import EndpointPool
from bystander.tasks.engines.openai_client import ChatClient, Slot, run_together
from bystander.tasks.engines.request_lanes import split_into_lanes

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

_log = logging.getLogger(__name__)

OnReply = Callable[[int, TextReply], None]


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
        config = self._config
        exchange = ChatExchange(request, logprobs=self._logprobs_offered, reasoning_tokens=config.reasoning_tokens)
        while True:
            measuring = exchange.measuring
            answer = await self._client.complete(slot, _read_completion, **exchange.body())
            outcome = exchange.take(answer)
            if isinstance(answer, ChatAnswer):
                if measuring and answer.tokens is None:
                    self._logprobs_offered = False
                if isinstance(outcome, TextReply) and not measuring:
                    self._doubt_thinking(outcome, answer)
            if outcome is not None:
                return outcome

    def _doubt_thinking(self, reply: TextReply, answer: ChatAnswer) -> None:
        """Warn, once, where a model that should think gives its first JSON without."""
        if reply.reasoning is not None or (reply.value is None and reply.option_source is None):
            return
        if self._config.reasoning_tokens and not self._thoughts_seen and not answer.reasoning_tokens:
            _log.warning(
                "text engine %s: `reasoning_tokens` is set, but it answers in JSON without thinking; vLLM lets it "
                "think only with --reasoning-parser",
                self._config.model,
            )
        self._thoughts_seen = True


def describe_settings(config: OpenAiTextConfig | VllmTextConfig | LlamaCppTextConfig) -> tuple[tuple[str, str], ...]:
    """Return the settings of an engine's identity that this client has a part in."""
    settings = (("logprobs", str(config.logprobs)), ("reading", READING_VERSION))
    thinking = (("reasoning_tokens", str(config.reasoning_tokens)),) if config.reasoning_tokens else ()
    return settings + thinking


def _read_completion(completion: ChatCompletion) -> ChatAnswer:
    choice = completion.choices[0]
    extra = choice.message.model_extra or {}
    # vLLM has called the field both names.
    reasoning = extra.get("reasoning_content") or extra.get("reasoning")
    tokens: tuple[tuple[str, float], ...] | None = None
    if choice.logprobs is not None and choice.logprobs.content:
        tokens = tuple((top.token, top.logprob) for top in choice.logprobs.content[0].top_logprobs) or None
    usage = completion.usage
    details = usage.completion_tokens_details if usage else None
    return ChatAnswer(
        content=choice.message.content or "",
        reasoning=reasoning if isinstance(reasoning, str) else None,
        finish_reason=choice.finish_reason,
        tokens=tokens,
        prompt_tokens=usage.prompt_tokens if usage else 0,
        completion_tokens=usage.completion_tokens if usage else 0,
        reasoning_tokens=(details.reasoning_tokens or 0) if details is not None else 0,
    )
