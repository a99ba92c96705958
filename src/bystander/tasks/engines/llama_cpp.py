"""The embedded llama.cpp server and the text engine that talks to it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bystander.schemas.engines import EngineIdentity, RowFault, TextReply, TextRequest
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.text_engine_configs import LlamaCppTextConfig, OpenAiTextConfig
from bystander.tasks.engines.openai_text import OnReply, OpenAiTextEngine, describe_settings

_PROMPT_CACHE_MIB = 512
"""Memory for prompts that lost their slot. The server's default of 8 GiB would outgrow a laptop within a build."""


class LlamaCppServer:
    """llama.cpp's OpenAI-compatible server inside this process, on a free loopback port."""

    def __init__(self, config: LlamaCppTextConfig) -> None:
        self._config = config
        self._server: Any = None

    def start(self, model: Path) -> str:
        """Load a GGUF file, wait until the server answers, and return its base URL (ending in /v1).

        Raises:
            EngineSetupError: the package or the file is missing, or the file cannot be loaded.
        """
        if self._server is not None:
            raise EngineSetupError("llama.cpp server: is running already")
        if not model.is_file():
            raise EngineSetupError(f"llama.cpp server: no model file {model}; `bystander models fetch` gets it")
        # Spinning OpenMP threads starve whatever else runs here. Read once, when the library is loaded.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        try:
            import xllamacpp
        except ImportError as exc:
            raise EngineSetupError("llama.cpp server: install the package xllamacpp") from exc
        config = self._config
        params = xllamacpp.CommonParams()
        params.model.path = str(model)
        params.n_parallel = config.slots
        params.n_ctx = config.slots * config.context_tokens
        params.cpuparams.n_threads = config.threads
        params.cpuparams_batch.n_threads = config.threads
        params.cache_ram_mib = _PROMPT_CACHE_MIB
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.verbosity = 0
        params.ui = False
        try:
            self._server = xllamacpp.Server(params)
        except Exception as exc:
            raise EngineSetupError(
                f"llama.cpp server: cannot load {model} ({exc}); is it a complete GGUF file and is there memory for it?"
            ) from exc
        return f"{self._server.listening_address}/v1"

    def close(self) -> None:
        """Stop the server and free the model; a second call does nothing."""
        self._server = None


class LlamaCppTextEngine:
    """A GGUF model on the embedded server, which starts at the first call.

    So a build whose replies are all cached loads no model.
    """

    def __init__(
        self,
        config: LlamaCppTextConfig,
        resolve_model: Callable[[str], Path],
        *,
        model_digest: str | None = None,
    ) -> None:
        """Find the model file. `model_digest` is its SHA-256 where the caller knows it; else it is computed here."""
        self._config = config
        self._model = resolve_model(config.model)
        self._identity = EngineIdentity(
            kind="text",
            name="llama_cpp",
            model=self._model.name,
            revision=model_digest or _digest_file(self._model),
            settings=(("context_tokens", str(config.context_tokens)), *describe_settings(config)),
        )
        self._lock = threading.Lock()
        self._server = LlamaCppServer(config)
        self._client: OpenAiTextEngine | None = None
        self._closed = False

    @property
    def identity(self) -> EngineIdentity:
        """Named by the file's SHA-256; slots and threads change the speed only."""
        return self._identity

    def generate(self, requests: Sequence[TextRequest], on_reply: OnReply | None = None) -> list[TextReply | RowFault]:
        """Return one reply or fault a request, in order; see `OpenAiTextEngine.generate`."""
        if not requests:
            return []
        return self._open().generate(requests, on_reply)

    def close(self) -> None:
        """Stop the server; a second call does nothing."""
        with self._lock:
            self._closed = True
            with contextlib.ExitStack() as stack:
                stack.callback(self._server.close)
                if self._client is not None:
                    stack.callback(self._client.close)
            self._client = None

    def _open(self) -> OpenAiTextEngine:
        with self._lock:
            if self._closed:
                raise EngineSetupError(f"text engine {self._model.name} was closed and cannot be called again")
            if self._client is None:
                config = self._config
                self._client = OpenAiTextEngine(
                    OpenAiTextConfig(
                        base_url=self._server.start(self._model),
                        model=self._model.stem,
                        max_in_flight=config.slots,
                        timeout_s=config.timeout_s,
                        max_retries=1,
                        logprobs=config.logprobs,
                        reasoning_tokens=config.reasoning_tokens,
                    ),
                    identity=self._identity,
                    use_proxies=False,
                    check_models=False,
                )
            return self._client


def _digest_file(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as exc:
        raise EngineSetupError(
            f"model file {path}: cannot be read ({exc.strerror}); `bystander models fetch` gets it"
        ) from exc
