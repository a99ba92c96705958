"""Which language model writes and judges, as data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.field_types import TimeoutSeconds


class OpenAiTextConfig(EngineConfig):
    """Any OpenAI-compatible chat endpoint, vLLM included."""

    SPEED_ONLY = frozenset({"base_url", "api_key_env", "max_in_flight", "timeout_s", "max_retries"})
    engine: Literal["openai"] = "openai"
    base_url: str
    model: str
    revision: str = ""
    """Free text that identifies the weights; part of the cache key."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; the key itself never enters a config."""
    max_in_flight: int = Field(16, ge=1, le=10_000)
    timeout_s: TimeoutSeconds = 120.0
    max_retries: int = Field(5, ge=0, le=100)
    logprobs: bool = True
    """Whether to ask for token log-probabilities when options are scored."""
    reasoning_tokens: int = Field(0, ge=0)
    """Tokens that a reasoning model may think for before it answers, on top of what the answer itself may take. Above
    0, options are chosen by an answer: the log-probabilities of a first thought say nothing about them."""


class VllmBatchTextConfig(EngineConfig):
    """vLLM offline: requests are written into a file, `vllm run-batch` answers them all, and the answers are read.

    A batch is what one stage asks for one partition, and the model is loaded for every batch anew: set the build's
    `partition_rows` to thousands, up to all rows, and `workers` low.
    """

    SPEED_ONLY = frozenset({"mode", "folder", "command", "speed_args", "timeout_s"})
    engine: Literal["vllm_batch"] = "vllm_batch"
    model: str
    """Folder of the model, or its name on a hub, as vLLM takes it."""
    revision: str = ""
    """Branch, tag or commit on the hub."""
    mode: Literal["run", "files"] = "run"
    """`run` runs vLLM on this machine. `files` leaves that to you, for clusters: the build writes the requests of all
    partitions, ends with a message that names a script to run, and goes on when it is started again."""
    folder: str | None = None
    """Where the files lie; they are not removed. Null takes a temporary folder, with `mode: run` only."""
    command: tuple[str, ...] = Field(("vllm",), min_length=1)
    """The program: its name on PATH, the path of another environment's `vllm`, or several words (`srun ... vllm`)."""
    args: tuple[str, ...] = ()
    """Words of the command line that decide answers, such as ["--max-model-len", "8192", "--quantization", "fp8"]."""
    speed_args: tuple[str, ...] = ()
    """Words that do not, such as ["--tensor-parallel-size", "8"]."""
    timeout_s: TimeoutSeconds = 86_400.0
    """For one batch."""
    logprobs: bool = True
    reasoning_tokens: int = Field(0, ge=0)
    """As for `openai`."""

    @field_validator("command", mode="before")
    @classmethod
    def _take_one_word(cls, command: object) -> object:
        return (command,) if isinstance(command, str) else command

    @model_validator(mode="after")
    def _files_have_a_place(self) -> VllmBatchTextConfig:
        if self.mode == "files" and self.folder is None:
            raise ValueError("folder: is needed with mode files; name one that the machine with vLLM can see, too")
        return self


class LlamaCppTextConfig(EngineConfig):
    """The embedded llama.cpp server, started and stopped by the flow on a free loopback port."""

    SPEED_ONLY = frozenset({"slots", "threads", "timeout_s"})
    engine: Literal["llama_cpp"] = "llama_cpp"
    model: str = "qwen2.5-coder-1.5b-instruct-q4_k_m"
    """A name in the model store's manifest, or a path to a GGUF file."""
    slots: int = Field(4, ge=1, le=256)
    context_tokens: int = Field(2048, ge=256)
    """Per slot."""
    threads: int = Field(2, ge=1, le=256)
    timeout_s: TimeoutSeconds = 300.0
    logprobs: bool = True
    reasoning_tokens: int = Field(0, ge=0)
    """As for `openai`; they must find room in `context_tokens`."""


class PlaybookTextConfig(EngineConfig):
    """The deterministic engine over dialogues authored as data."""

    engine: Literal["playbook"] = "playbook"


class FakeTextConfig(EngineConfig):
    """Instant, deterministic text that passes the rules; for tests and benchmarks of the rest."""

    engine: Literal["fake_text"] = "fake_text"


TextEngineConfig = Annotated[
    OpenAiTextConfig | VllmBatchTextConfig | LlamaCppTextConfig | PlaybookTextConfig | FakeTextConfig,
    Field(discriminator="engine"),
]
