"""The text engine over vLLM servers of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from bystander.schemas.engines import EngineIdentity, RowFault, TextReply, TextRequest
from bystander.schemas.errors import EngineSetupError, EngineUnavailableError
from bystander.schemas.identity import digest_json
from bystander.schemas.text_engine_configs import OpenAiTextConfig, VllmTextConfig
from bystander.tasks.engines.openai_text import OnReply, OpenAiTextEngine, describe_settings
from bystander.tasks.engines.vllm_server import VllmServers

_IN_IDENTITY_BY_NAME = frozenset({"engine", "model", "revision", "logprobs", "reasoning_tokens"})


class VllmTextEngine:
    """A model on `vllm serve`, which starts at the first call and ends with `close()`.

    So a build whose replies are all cached loads no model. A server that dies is started again; meanwhile the other
    replicas get its requests, or, where there is none, the call waits.
    """

    def __init__(
        self,
        config: VllmTextConfig,
        resolve_model: Callable[[str], Path] | None = None,  # noqa: ARG002 - all adapters are built alike
    ) -> None:
        """Find the program; nothing is started yet.

        Raises:
            EngineSetupError: there is no such program, or there are too few devices.
        """
        self._config = config
        asked = {name: value for name, value in config.describe().items() if name not in _IN_IDENTITY_BY_NAME}
        self._identity = EngineIdentity(
            kind="text",
            name="vllm",
            model=config.model,
            revision=config.revision,
            settings=(("server", digest_json(asked)), *describe_settings(config)),
        )
        self._lock = threading.Lock()
        self.servers = VllmServers(config)
        self.client: OpenAiTextEngine | None = None
        """What talks to the servers, once they are started."""
        self._closed = False

    @property
    def identity(self) -> EngineIdentity:
        """What decides the replies: the model and how it is served, not on how many devices."""
        return self._identity

    def generate(self, requests: Sequence[TextRequest], on_reply: OnReply | None = None) -> list[TextReply | RowFault]:
        """Return one reply or fault a request, in order; see `OpenAiTextEngine.generate`.

        Raises:
            EngineSetupError: the server cannot be started (with what its log says), or the engine was closed.
            EngineError: all servers died more often than `max_restarts`.
        """
        if not requests:
            return []
        client = self._open()
        replies: dict[int, TextReply | RowFault] = {}
        while True:
            deaths = self.servers.deaths
            left = [index for index in range(len(requests)) if index not in replies]

            def keep(position: int, reply: TextReply, left: Sequence[int] = left) -> None:
                replies[left[position]] = reply
                if on_reply is not None:
                    on_reply(left[position], reply)

            try:
                found = client.generate([requests[index] for index in left], keep)
            except EngineUnavailableError:
                if not self.servers.await_recovery(deaths):
                    raise
                client.look_again()
                continue
            replies.update(zip(left, found, strict=True))
            return [replies[index] for index in range(len(requests))]

    def close(self) -> None:
        """Stop the servers; a second call does nothing."""
        self._closed = True
        with contextlib.ExitStack() as stack:
            stack.callback(self.servers.close)  # also one that is just being started, for which the lock is held
            if self.client is not None:
                stack.callback(self.client.close)
        self.client = None

    def _open(self) -> OpenAiTextEngine:
        with self._lock:
            if self.client is None:
                if not self._closed:
                    self.servers.start()
                if self._closed:
                    self.servers.close()
                    raise EngineSetupError(f"text engine {self._config.model} was closed and cannot be called again")
                config = self._config
                self.client = OpenAiTextEngine(
                    OpenAiTextConfig(
                        base_url=self.servers.addresses,
                        model=config.model,
                        max_in_flight=config.in_flight,
                        timeout_s=config.timeout_s,
                        max_retries=config.max_retries,
                        logprobs=config.logprobs,
                        reasoning_tokens=config.reasoning_tokens,
                    ),
                    identity=self._identity,
                    use_proxies=False,
                    check_models=False,
                    api_key=self.servers.api_key,
                )
            return self.client
