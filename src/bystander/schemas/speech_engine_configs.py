"""Which text-to-speech model speaks, as data."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.field_types import TimeoutSeconds


class KokoroSpeechConfig(EngineConfig):
    """Embedded Kokoro-82M on onnxruntime, English and Mandarin voices."""

    SPEED_ONLY = frozenset({"sessions"})
    engine: Literal["kokoro"] = "kokoro"
    model: str = "kokoro-v1.0-int8"
    sessions: int = Field(2, ge=1, le=256)
    """Clips synthesised at once, one thread each."""
    speed: float = Field(1.0, ge=0.5, le=2.0)
    languages: tuple[Literal["en", "zh"], ...] = Field(("en",), min_length=1)
    """Whose voices there are. What an engine without Mandarin says does not depend on anything Mandarin."""

    @field_validator("languages")
    @classmethod
    def _order_languages(cls, languages: tuple[Literal["en", "zh"], ...]) -> tuple[Literal["en", "zh"], ...]:
        return tuple(sorted(set(languages)))


class FakeSpeechConfig(EngineConfig):
    """Deterministic sound; the fake recogniser reads its text back, the fake verifier its voice.

    Instant, or with `seconds_per_clip` as slow as a real engine: `workers / seconds_per_clip` clips a second.
    """

    SPEED_ONLY = frozenset({"seconds_per_clip", "workers"})
    engine: Literal["fake_speech"] = "fake_speech"
    voices: int = Field(8, ge=2, le=32)
    languages: tuple[str, ...] = Field(("en",), min_length=1)
    """Of the voices, two after two."""
    seconds_per_clip: float = Field(0.0, ge=0)
    """How long a worker pretends to need for a clip."""
    workers: int = Field(1, ge=1, le=10_000)
    """Clips that it pretends to speak at once."""


class ChatterboxSpeechConfig(EngineConfig):
    """Chatterbox in worker processes with an environment of their own, in the voices of a bank.

    Either the flow starts the workers, one a device, with the Python of that environment (`python`), or it attaches to
    some that run already (`endpoints`); then model, weights, devices and dtype are what those were started with, and
    must be the same for all. Each process that runs stages starts workers of its own: where there are several, attach.
    What is said between them is told in `bystander.workers.speech.protocol`.
    """

    MODEL_IN_STORE = False
    SPEED_ONLY = frozenset(
        {
            "bank",
            "python",
            "devices",
            "threads",
            "weights",
            "endpoints",
            "token_env",
            "cache_folder",
            "log_folder",
            "batch_size",
            "max_worker_memory_mib",
            "startup_timeout_s",
            "timeout_s",
            "max_restarts",
        }
    )
    engine: Literal["chatterbox"] = "chatterbox"
    bank: str
    """Folder or URL of the voice bank. What is in it decides what is said, not where it lies."""
    model: Literal["english", "multilingual", "tone"] = "english"
    """`multilingual` speaks Mandarin and 21 more languages. `tone` is no model: tones of the right length, for dry runs
    of bank, workers and devices; no recogniser finds words in them."""
    python: str | tuple[str, ...] = ()
    """Python of the workers' environment: its path, or several words such as [conda, run, --no-capture-output, -n,
    chatterbox, python]. Not needed for `tone`."""
    weights: str | None = None
    """Folder of the weights as the hub has them; null takes them from the hub."""
    revision: str = ""
    """Commit on the hub, where the weights come from there."""
    devices: tuple[str, ...] = Field(("cuda:0",), min_length=1)
    """One worker is started for each: [cuda:0, cuda:1]; a device named twice has two. All of one kind, since a GPU and
    a CPU speak another take for the same seed."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the language model; the vocoder needs float32."""
    threads: int | None = Field(None, ge=1, le=256)
    """Threads of the CPU, each worker; null leaves it to torch."""
    endpoints: tuple[str, ...] = ()
    """Workers that run already, as host:port; nothing is started then."""
    token_env: str | None = None
    """Name of the environment variable with the token that the endpoints ask for."""
    exaggeration: float = Field(0.5, ge=0, le=4)
    cfg_weight: float = Field(0.5, gt=0, le=10)
    """At 0 the model crashes."""
    temperature: float = Field(0.8, gt=0, le=10)
    repetition_penalty: float | None = Field(None, gt=0, le=100)
    """Null takes the model's own: 1.2, multilingual 2."""
    min_p: float = Field(0.05, ge=0, le=1)
    top_p: float = Field(1.0, gt=0, le=1)
    max_characters: int = Field(600, ge=1, le=2000)
    """Longer texts are refused."""
    max_s: float = Field(40.0, ge=1, le=40)
    """Clips that reach this limit, or that of their text, are faults of their rows. Upstream stops at 40."""
    spare_s: float = Field(4.0, gt=0, le=40)
    max_s_per_character: float = Field(0.5, ge=0, le=40)
    """A text of n characters may last `spare_s` and n times this: a short text that finds no end is stopped early."""
    cache_folder: str | None = None
    """Folder of prepared voices, on the workers' machine; null takes `bystander/speech` in the user's cache folder."""
    log_folder: str | None = None
    """Folder of the workers' logs; null takes `bystander/logs` in the user's state folder."""
    batch_size: int = Field(8, ge=1, le=1000)
    """Requests sent to a worker at once."""
    max_worker_memory_mib: int | None = Field(None, ge=1)
    """A worker whose resident memory is above this after a batch is started again; null lets it grow."""
    startup_timeout_s: TimeoutSeconds = 1800.0
    """Until a worker has loaded its model, which it may have to fetch before."""
    timeout_s: TimeoutSeconds = 300.0
    """Until a worker has spoken one clip or prepared one voice; then it counts as dead."""
    max_restarts: int = Field(3, ge=0, le=100)
    """Times in a row, without a clip between, that a worker that died is started again; then it is left out."""

    @property
    def python_words(self) -> tuple[str, ...]:
        """The command of the workers' Python, word by word."""
        return (self.python,) if isinstance(self.python, str) else self.python

    @property
    def sampling(self) -> dict[str, float]:
        """What a worker takes as the settings of a batch."""
        names = ["max_characters", "temperature"]
        if self.model != "tone":
            names += ["exaggeration", "cfg_weight", "repetition_penalty", "min_p", "top_p"]
            names += ["max_s", "spare_s", "max_s_per_character"]
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}

    @model_validator(mode="after")
    def _check_workers(self) -> ChatterboxSpeechConfig:
        if self.endpoints and (self.python or self.max_worker_memory_mib):
            raise ValueError("endpoints run already: python and max_worker_memory_mib are for workers that are started")
        if not self.endpoints and not self.python and self.model != "tone":
            raise ValueError("python is missing: the Python of Chatterbox's environment; or give endpoints")
        if len({device.partition(":")[0] for device in self.devices}) > 1:
            raise ValueError(f"devices of different kinds speak differently: {', '.join(self.devices)}")
        for endpoint in self.endpoints:
            host, _, port = endpoint.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65536:
                raise ValueError(f"endpoint {endpoint!r} is not host:port")
        return self


SpeechEngineConfig = Annotated[
    KokoroSpeechConfig | ChatterboxSpeechConfig | FakeSpeechConfig, Field(discriminator="engine")
]
