"""The speech engine whose model runs in worker processes: Chatterbox, in the voices of a bank."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bystander.schemas.engines import EngineIdentity, RowFault, SpeechReply, SpeechRequest, Voice
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.speech_engine_configs import ChatterboxSpeechConfig
from bystander.schemas.voice_bank import VoiceBank
from bystander.tasks.engines.speech_worker_process import (
    AttachedWorker,
    StartedWorker,
    WorkerSource,
    describe_worker,
)
from bystander.tasks.engines.speech_workers import SpeechWorkerPool, WorkerRules
from bystander.workers.speech.protocol import Hello


class ChatterboxSpeechEngine:
    """Speaks through workers, which start at the first call. Calls from several threads share them.

    It cannot tell when words are spoken.
    """

    def __init__(self, config: ChatterboxSpeechConfig, bank: VoiceBank) -> None:
        """Ask what the model is; none is loaded.

        Raises:
            EngineSetupError: the workers' environment or weights are missing, or the bank has no voice for the model.
            EngineUnavailableError: an endpoint cannot be reached.
        """
        hello = describe_worker(config)
        _check_hello(config, hello)
        self._voices = tuple(voice for voice in bank.voices if find_language(voice.language) in hello.languages)
        if not self._voices:
            raise EngineSetupError(
                f"the voice bank {config.bank} has no voice whose language is one of {', '.join(hello.languages)}"
            )
        self._ids = frozenset(voice.id for voice in self._voices)
        self._bank_name = config.bank
        self._identity = describe_identity(config, hello, bank.digest)
        rules = WorkerRules(
            settings=config.sampling,
            hello=hello,
            batch_size=config.batch_size,
            max_restarts=config.max_restarts,
            max_memory_mib=config.max_worker_memory_mib,
        )
        self._pool = SpeechWorkerPool(_list_sources(config), rules, bank.read_reference)

    @property
    def identity(self) -> EngineIdentity:
        """Names the weights' digest, the bank's, all settings, and the kind of device, which draws its own random
        numbers; not how many there are."""
        return self._identity

    @property
    def voices(self) -> Sequence[Voice]:
        """The bank's voices in the languages that the model speaks."""
        return self._voices

    def synthesise(
        self, requests: Sequence[SpeechRequest], on_reply: Callable[[int, SpeechReply], None] | None = None
    ) -> list[SpeechReply | RowFault]:
        """Speak the requests; replies come from the workers' threads as soon as they are there.

        Row faults: those of `workers.speech.protocol`; `unreadable_reference`: the bank cannot give the voice's clip;
        `speech_worker_died`: two workers died of this request.

        Raises:
            EngineSetupError: a voice is unknown, or the workers cannot work.
            EngineUnavailableError: every worker died time and again.
        """
        for request in requests:
            if request.voice not in self._ids:
                raise EngineSetupError(
                    f"the voice bank {self._bank_name} has no voice {request.voice!r} for this model"
                )
        return self._pool.speak(requests, on_reply)

    @property
    def restarts(self) -> int:
        """How many workers were started again."""
        return self._pool.restarts

    def close(self) -> None:
        """Stop the workers that were started; a second call does nothing."""
        self._pool.close()


def describe_identity(config: ChatterboxSpeechConfig, hello: Hello, bank_digest: str) -> EngineIdentity:
    """Return what names the engine."""
    settings = {"bank": bank_digest, **hello.facts, **{name: f"{value:g}" for name, value in config.sampling.items()}}
    return EngineIdentity("speech", hello.name, hello.model, hello.revision, tuple(sorted(settings.items())))


def find_language(tag: str) -> str:
    """Return the language of a tag such as `zh-CN`."""
    return tag.replace("_", "-").split("-")[0].lower()


def _list_sources(config: ChatterboxSpeechConfig) -> list[WorkerSource]:
    if config.endpoints:
        return [AttachedWorker(config, endpoint) for endpoint in config.endpoints]
    names = [f"speech-worker-{number}-{device.replace(':', '')}" for number, device in enumerate(config.devices)]
    return [StartedWorker(config, device, name) for device, name in zip(config.devices, names, strict=True)]


def _check_hello(config: ChatterboxSpeechConfig, hello: Hello) -> None:
    """Raise EngineSetupError where a worker runs another model than the configuration says."""
    if hello.model != config.model:
        raise EngineSetupError(f"the speech workers run the model {hello.model!r}, not {config.model!r}")
    dtype = hello.facts.get("dtype", config.dtype)
    if dtype != config.dtype:
        raise EngineSetupError(f"the speech workers run in {dtype}, not {config.dtype}")
