"""A deterministic system to evaluate without a model: what it says is a function of what it hears."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence

import numpy as np

from bystander.schemas.engine_configs import FakeCandidateConfig
from bystander.schemas.engines import AnswerReply, AnswerRequest, EngineIdentity, RowFault

OnReply = Callable[[int, AnswerReply], None]

_REVISION = "1"


class FakeCandidate:
    """Names the length of the clip, its sampling rate, and a digest of its samples. `calls` counts the answers."""

    def __init__(
        self,
        config: FakeCandidateConfig | None = None,  # noqa: ARG002 - adapters are built alike
        *,
        fail_with: Callable[[AnswerRequest], RowFault | None] | None = None,
    ) -> None:
        """Take faults to inject: `fail_with` may return one for a request or raise an `EngineError`."""
        self.calls = 0
        self._fail_with = fail_with
        self._lock = threading.Lock()

    @property
    def identity(self) -> EngineIdentity:
        """Raised in revision whenever an answer changes."""
        return EngineIdentity(kind="candidate", name="fake_candidate", model="fake", revision=_REVISION)

    def answer(
        self, requests: Sequence[AnswerRequest], on_reply: OnReply | None = None
    ) -> list[AnswerReply | RowFault]:
        """Return one reply a request, in order. Fault: `empty_reply` for a clip without samples."""
        replies: list[AnswerReply | RowFault] = []
        for index, request in enumerate(requests):
            with self._lock:
                self.calls += 1
            fault = self._fail_with(request) if self._fail_with is not None else None
            reply = fault or _describe_clip(request)
            if on_reply is not None and isinstance(reply, AnswerReply):
                on_reply(index, reply)
            replies.append(reply)
        return replies

    def close(self) -> None:
        """Do nothing."""


def _describe_clip(request: AnswerRequest) -> AnswerReply | RowFault:
    if not len(request.samples):
        return RowFault("empty_reply", "the clip has no samples")
    digest = hashlib.sha256(np.ascontiguousarray(request.samples, "<f4").tobytes()).hexdigest()
    seconds = len(request.samples) / request.sampling_rate
    return AnswerReply(f"I heard {seconds:.2f} seconds at {request.sampling_rate} Hz, clip {digest[:12]}.")
