"""A system that is evaluated, behind an OpenAI-compatible chat endpoint that takes audio."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bystander.schemas.engine_configs import OpenAiAudioConfig
from bystander.schemas.engines import AnswerReply, AnswerRequest, EngineIdentity, RowFault
from bystander.schemas.identity import digest_json
from bystander.tasks.engines.chat_reply import split_thinking
from bystander.tasks.engines.engine_audio import convert_rate, encode_wav
from bystander.tasks.engines.openai_client import ChatClient, Slot, run_together

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

OnReply = Callable[[int, AnswerReply], None]

_READING_VERSION = "2"
"""Part of the identity: raised when the same clip would be sent, or the same answer read, in another way."""


class OpenAiAudioCandidate:
    """A model that hears a clip as `input_audio` (base64 WAV, 16 bits) and answers in text.

    The request holds the clip, the configured prompts and a seed: nothing of the row's id and texts. An answer that is
    cut off at `max_tokens` counts as it stands.
    """

    def __init__(
        self,
        config: OpenAiAudioConfig,
        resolve_model: Callable[[str], Path] | None = None,  # noqa: ARG002 - all adapters are built alike
    ) -> None:
        """Take the settings; nothing is contacted yet.

        Raises:
            EngineSetupError: the environment variable that should hold the key is not set.
        """
        self._config = config
        self._client = ChatClient(config, "audio model")

    @property
    def identity(self) -> EngineIdentity:
        """What decides the answers."""
        config = self._config
        asked = config.model_dump(mode="json", exclude={*config.SPEED_ONLY, "engine", "model", "revision"})
        return EngineIdentity(
            kind="candidate",
            name="openai_audio",
            model=config.model,
            revision=config.revision,
            settings=(("request", digest_json(asked)), ("reading", _READING_VERSION)),
        )

    def answer(
        self, requests: Sequence[AnswerRequest], on_reply: OnReply | None = None
    ) -> list[AnswerReply | RowFault]:
        """Return one reply or fault a request, in order.

        Faults: `request_refused` (the server takes no such clip), `empty_reply` (it says nothing, or only thinks).

        Raises:
            EngineUnavailableError: the server cannot be reached or is overloaded, after all retries.
            EngineSetupError: the key or the model is not accepted, or the engine was closed.
        """
        return self._client.run(lambda: self._answer_all(requests, on_reply)) if requests else []

    def close(self) -> None:
        """Cancel what is in flight, close the connections and end the thread; a second call does nothing."""
        self._client.close()

    async def _answer_all(
        self, requests: Sequence[AnswerRequest], on_reply: OnReply | None
    ) -> list[AnswerReply | RowFault]:
        replies: dict[int, AnswerReply | RowFault] = {}

        async def answer_one(index: int) -> None:
            home = self._client.pool.find_home(index, len(requests))
            async with self._client.take_slot(home) as slot:  # before encoding: only so many clips are held at once
                reply = await self._ask(slot, requests[index])
            replies[index] = reply
            if on_reply is not None and isinstance(reply, AnswerReply):
                on_reply(index, reply)

        await run_together([answer_one(index) for index in range(len(requests))])
        return [replies[index] for index in range(len(requests))]

    async def _ask(self, slot: Slot, request: AnswerRequest) -> AnswerReply | RowFault:
        config = self._config
        body: dict[str, Any] = {
            "messages": self._write_messages(request),
            "max_tokens": config.max_tokens,
            "temperature": config.temperature,
        }
        if config.text_only:
            body["modalities"] = ["text"]
        if config.extra_body:
            body["extra_body"] = dict(config.extra_body)
        return await self._client.complete(slot, _read_answer, seed=request.seed, **body)

    def _write_messages(self, request: AnswerRequest) -> list[dict[str, Any]]:
        config = self._config
        rate = config.sampling_rate or request.sampling_rate
        wav = encode_wav(convert_rate(request.samples, request.sampling_rate, rate), rate)
        clip = {"data": base64.b64encode(wav).decode("ascii"), "format": "wav"}
        parts: list[dict[str, Any]] = [{"type": "input_audio", "input_audio": clip}]
        if config.user_prompt:
            parts.append({"type": "text", "text": config.user_prompt})
        system = [{"role": "system", "content": config.system_prompt}] if config.system_prompt else []
        return [*system, {"role": "user", "content": parts}]


def _read_answer(completion: ChatCompletion) -> AnswerReply | RowFault:
    choice = completion.choices[0]
    message = choice.message
    # A model that also speaks writes its words beside the sound; one that declines may do so in a field of its own.
    spoken = message.audio.transcript if message.audio is not None else None
    content = message.content or spoken or message.refusal or ""
    text, thinking = split_thinking(content)
    if text:
        return AnswerReply(text)
    if choice.finish_reason == "content_filter":
        return RowFault("request_refused", "the server's content filter took the answer away")
    if thinking is not None:
        return RowFault("empty_reply", "the model only thought and said nothing; raise `max_tokens`", content)
    return RowFault("empty_reply", f"the model answered nothing (finish reason {choice.finish_reason})", content)
