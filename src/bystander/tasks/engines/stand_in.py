"""Stand-ins for systems that are evaluated: replies whose scores are known beforehand, made without hearing a clip."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from bystander.schemas.engine_configs import StandInConfig
from bystander.schemas.engines import (
    AnswerReply,
    AnswerRequest,
    EngineIdentity,
    RowFault,
    TextEngine,
    TextReply,
    TextRequest,
)
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.identity import derive_seed, digest_json
from bystander.schemas.packs import PromptPack
from bystander.schemas.text_tasks import WRITE_ONE_SPEAKER_REPLY

_VERSION = "1"
"""Raised whenever the same texts would be answered otherwise."""
_TASK = WRITE_ONE_SPEAKER_REPLY.name
_ATTEMPTS = 3
_MAX_TOKENS = 200  # a reply of the reference pack has 360 characters at most
_RETRY_TEMPERATURE = 0.7

OnReply = Callable[[int, AnswerReply], None]


class PolicyStandIn:
    """Gives the bench's own replies: a system that follows the pack's strategy throughout."""

    @property
    def identity(self) -> EngineIdentity:
        """What decides the replies is in the rows."""
        return _identify("policy")

    def answer(
        self, requests: Sequence[AnswerRequest], on_reply: OnReply | None = None
    ) -> list[AnswerReply | RowFault]:
        """Return the variable `reply` of each request, in order."""
        replies: list[AnswerReply | RowFault] = [AnswerReply(request.variables["reply"]) for request in requests]
        _report(replies, on_reply)
        return replies

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class WritingStandIn:
    """A text model that answers what it is told was said, always as one speaker's words.

    `transcript` is told the transcript of the clip, so that it answers the two twins of a pair alike. `ignore_second`
    is told the whole request of the primary speaker and nothing of the second text.

    A text is answered once and then remembered: a model server need not answer the same request alike twice, when
    others are in flight with it.
    """

    def __init__(self, config: StandInConfig, writer: TextEngine, pack: PromptPack) -> None:
        """Take who writes (it stays its opener's to close) and the pack whose prompts it is asked with."""
        self._kind = config.kind
        self._writer = writer
        self._pack = pack
        self._known: dict[tuple[str, str], AnswerReply | RowFault] = {}
        self._lock = threading.Lock()

    @property
    def identity(self) -> EngineIdentity:
        """Names the kind, who writes, and the prompt."""
        return _identify(
            self._kind,
            ("writer", self._writer.identity.model),
            ("writer_digest", self._writer.identity.digest()),
            ("prompt", self._pack.task_digest(_TASK)),
        )

    def answer(
        self, requests: Sequence[AnswerRequest], on_reply: OnReply | None = None
    ) -> list[AnswerReply | RowFault]:
        """Return one reply or fault a request, in order; faults are the writer's.

        Raises:
            EngineError: the writer as a whole failed.
        """
        texts = [self._select_texts(request.variables) for request in requests]
        # One batch at a time (its requests run at once): two that met the same text would both ask for it.
        with self._lock:
            fresh = list(dict.fromkeys(text for text in texts if text not in self._known))
            written = self._write(fresh)
            replies = [written[text] if text in written else self._known[text] for text in texts]
            self._known |= {text: reply for text, reply in written.items() if isinstance(reply, AnswerReply)}
        _report(replies, on_reply)
        return replies

    def close(self) -> None:
        """Do nothing: the writer is its opener's."""

    def _select_texts(self, variables: Mapping[str, str]) -> tuple[str, str]:
        if self._kind == "ignore_second":
            return variables["primary_complete"], ""
        return variables["primary"], variables["third_party"]

    def _write(self, texts: Sequence[tuple[str, str]]) -> dict[tuple[str, str], AnswerReply | RowFault]:
        """Return a reply or the last fault for each text; one that cannot be used is asked for again."""
        written: dict[tuple[str, str], AnswerReply | RowFault] = {}
        for attempt in range(_ATTEMPTS):
            missing = [text for text in texts if not isinstance(written.get(text), AnswerReply)]
            if not missing:
                break
            replies = self._writer.generate([self._make_request(*text, attempt) for text in missing])
            written |= {text: _read_reply(reply) for text, reply in zip(missing, replies, strict=True)}
        return written

    def _make_request(self, primary: str, third_party: str, attempt: int) -> TextRequest:
        texts = {"primary": primary, "third_party": third_party}
        return TextRequest(
            task=_TASK,
            messages=self._pack.messages(_TASK, texts),
            seed=derive_seed(0, digest_json(texts), "stand_in", attempt),  # of the texts alone: no row has its own
            variables=texts,
            reply_schema=self._pack.reply_schema(_TASK),
            max_tokens=_MAX_TOKENS,
            temperature=_RETRY_TEMPERATURE if attempt else 0.0,
        )


def open_stand_in(
    config: StandInConfig, writer: TextEngine | None, pack: PromptPack | None
) -> PolicyStandIn | WritingStandIn:
    """Return the stand-in of a kind.

    Raises:
        EngineSetupError: it is one that writes, and `writer` or `pack` is missing.
    """
    if config.kind == "policy":
        return PolicyStandIn()
    if writer is None or pack is None:
        raise EngineSetupError(f"stand-in {config.kind!r}: needs a text engine; name one in its field `writer`")
    return WritingStandIn(config, writer, pack)


def _identify(kind: str, *settings: tuple[str, str]) -> EngineIdentity:
    return EngineIdentity("candidate", "stand_in", kind, _VERSION, settings)


def _read_reply(reply: TextReply | RowFault) -> AnswerReply | RowFault:
    if isinstance(reply, RowFault):
        return reply
    text = (reply.value or {}).get("reply")
    if not isinstance(text, str):
        return RowFault("unparsable_reply", "the answer has no field reply", reply.text)
    return AnswerReply(text.strip()) if text.strip() else RowFault("empty_reply", "the reply is empty", reply.text)


def _report(replies: Sequence[AnswerReply | RowFault], on_reply: OnReply | None) -> None:
    if on_reply is not None:
        for index, reply in enumerate(replies):
            if isinstance(reply, AnswerReply):
                on_reply(index, reply)
