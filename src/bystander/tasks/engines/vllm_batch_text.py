"""The text engine over batch files: vLLM offline, run by the build or, elsewhere and later, by the user."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bystander.schemas.engines import EngineIdentity, RowFault, TextReply, TextRequest
from bystander.schemas.errors import BatchPendingError, EngineError
from bystander.schemas.text_engine_configs import VllmBatchTextConfig
from bystander.tasks.engines.batch_files import BatchFolder, name_request
from bystander.tasks.engines.chat_exchange import READING_VERSION, ChatExchange
from bystander.tasks.engines.vllm_batch_command import BatchRunner, read_last_lines, write_script

OnReply = Callable[[int, TextReply], None]


class VllmBatchTextEngine:
    """Asks all requests of a call at once, and then once more those whose answers cannot be read.

    With `mode: run`, each of these is one run of `vllm run-batch`, and only one goes on at a time. With `mode: files`,
    it is a file in the folder, and the call ends with a `BatchPendingError` unless the folder has the answers.
    """

    def __init__(self, config: VllmBatchTextConfig, resolve_model: Callable[[str], Path] | None = None) -> None:
        """Take the settings; nothing is started yet, and vLLM finds the model by itself."""
        del resolve_model
        self._config = config
        self._runner = BatchRunner(config)
        self._lock = threading.Lock()
        self._opened: BatchFolder | None = None
        self._scratch: Path | None = None
        self._failed = False

    @property
    def identity(self) -> EngineIdentity:
        """What decides the replies."""
        config = self._config
        settings = [
            ("args", " ".join(config.args)),
            ("logprobs", str(config.logprobs)),
            ("reading", READING_VERSION),
            *([("reasoning_tokens", str(config.reasoning_tokens))] if config.reasoning_tokens else []),
        ]
        return EngineIdentity("text", "vllm_batch", config.model, config.revision, tuple(settings))

    def generate(self, requests: Sequence[TextRequest], on_reply: OnReply | None = None) -> list[TextReply | RowFault]:
        """Return one reply or fault a request, in order.

        Faults: `request_refused` (vLLM takes no such request, e.g. too long a context), `reply_too_long`,
        `empty_reply`, `unparsable_reply` (after one repair).

        Raises:
            BatchPendingError: the requests are written, and their answers are not there yet (`mode: files`).
            EngineError: vLLM failed, ran too long, or left requests without an answer.
            EngineSetupError: vLLM cannot be started, does not know the model, or the folder cannot be written.
            InputError: a file of results is damaged.
        """
        config = self._config
        exchanges = [
            ChatExchange(request, logprobs=config.logprobs, reasoning_tokens=config.reasoning_tokens)
            for request in requests
        ]
        replies: dict[int, TextReply | RowFault] = {}

        def advance(index: int) -> dict[str, Any] | None:
            """Take the answers that are there; return the body whose answer is not."""
            while index not in replies:
                body = {"model": config.model, **exchanges[index].body()}
                answer = self._folder.find(name_request(body))
                if answer is None:
                    return body
                outcome = exchanges[index].take(answer)
                if outcome is not None:
                    replies[index] = outcome
                    if on_reply is not None and isinstance(outcome, TextReply):
                        on_reply(index, outcome)
            return None

        used: list[Path] = []
        asked: set[str] = set()
        while len(replies) < len(requests):
            self._folder.read_results()
            missing = {
                name_request(body): body for index in range(len(requests)) if (body := advance(index)) is not None
            }
            if missing:
                if unanswered := asked & set(missing):
                    self._complain(len(unanswered), used[-1])
                asked |= set(missing)
                used += self._ask(missing)
        if self._scratch is not None:
            self._folder.discard(*used)
        return [replies[index] for index in range(len(requests))]

    def close(self) -> None:
        """End a run that goes on, and remove what is of no use any more; a second call does nothing."""
        self._runner.close()
        with self._lock:
            if self._scratch is not None and not self._failed:
                shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def _folder(self) -> BatchFolder:
        """The folder of this model and its settings; where none is set, a temporary one, kept after a failure."""
        with self._lock:
            if self._opened is None:
                if self._config.folder is None:
                    self._scratch = Path(tempfile.mkdtemp(prefix="bystander-batch-"))
                    self._opened = BatchFolder(self._scratch)
                else:
                    name = re.sub(r"[^A-Za-z0-9.-]+", "-", self._config.model).strip("-.")[-60:]
                    self._opened = BatchFolder(
                        Path(self._config.folder).expanduser() / f"{name}-{self.identity.digest()[:8]}"
                    )
            return self._opened

    def _ask(self, bodies: Mapping[str, Mapping[str, Any]]) -> list[Path]:
        """Have the bodies answered and return the files of it: requests, log, results."""
        requests, results = self._folder.write_requests(bodies)
        if self._config.mode == "files":
            script = write_script(self._config, self._folder.path)
            raise BatchPendingError(str(script), len(bodies))
        try:
            self._runner.run(requests, results)
        except EngineError:
            self._failed = True
            raise
        return [requests, results.with_suffix(".log"), results]

    def _complain(self, unanswered: int, results: Path) -> None:
        self._failed = True
        log = results.with_suffix(".log")
        raise EngineError(f"{results}: {unanswered} requests were not answered: {read_last_lines(log)} (log: {log})")
