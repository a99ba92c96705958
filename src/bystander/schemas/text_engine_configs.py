"""Which language model writes and judges, as data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from bystander.schemas.addresses import Addresses
from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.field_types import TimeoutSeconds


class OpenAiTextConfig(EngineConfig):
    """Any OpenAI-compatible chat endpoint, vLLM included, or several that serve the same model."""

    MODEL_IN_STORE = False
    SPEED_ONLY = frozenset({"base_url", "api_key_env", "max_in_flight", "timeout_s", "max_retries"})
    engine: Literal["openai"] = "openai"
    base_url: Addresses
    """One address, or several among which requests are balanced. Which of them answers must not matter: they serve
    the same weights with the same settings."""
    model: str
    revision: str = ""
    """Free text that identifies the weights; part of the cache key."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; the key itself never enters a config."""
    max_in_flight: int = Field(16, ge=1, le=1000)
    """Requests at once, at each address."""
    timeout_s: TimeoutSeconds = 120.0
    max_retries: int = Field(5, ge=0, le=100)
    logprobs: bool = True
    """Whether to ask for token log-probabilities when options are scored."""
    reasoning_tokens: int = Field(0, ge=0)
    """Tokens that a reasoning model may think for before it answers, on top of what the answer itself may take. Above
    0, options are chosen by an answer: the log-probabilities of a first thought say nothing about them.

    vLLM must run with `--reasoning-parser`: without one it holds the thoughts, too, to the JSON schema of the answer,
    so that the model cannot think."""


class VllmTextConfig(EngineConfig):
    """vLLM, which the flow starts as `vllm serve` when the first call comes, and stops at its end.

    The program lives in an environment of its own, since its requirements and Prefect's exclude each other.
    """

    ONE_PROCESS = True
    MODEL_IN_STORE = False
    SPEED_ONLY = frozenset(
        {
            "command",
            "tensor_parallel_size",
            "replicas",
            "devices",
            "port",
            "gpu_memory_utilization",
            "enable_prefix_caching",
            "max_num_seqs",
            "environment",
            "log_folder",
            "startup_timeout_s",
            "max_restarts",
            "max_in_flight",
            "timeout_s",
            "max_retries",
        }
    )
    engine: Literal["vllm"] = "vllm"
    model: str
    """Folder of the model, or its name on a hub."""
    revision: str = ""
    """Branch, tag or commit on the hub."""
    command: str | tuple[str, ...] = "vllm"
    """The program: its name on PATH, the path of another environment's `vllm`, or several words."""
    tensor_parallel_size: int = Field(1, ge=1, le=1024)
    """Devices that one replica is spread over."""
    replicas: int = Field(1, ge=1, le=256)
    """Servers of the same model, each on devices of its own; requests are balanced among them."""
    devices: tuple[str, ...] = ()
    """What CUDA_VISIBLE_DEVICES is for each replica, such as ["0,1", "2,3"]. Empty gives each `tensor_parallel_size` of
    those that are visible here, in order; another engine of the same build that is to have GPUs, too, wants this set.
    """
    port: int = Field(0, ge=0, le=65_535)
    """Port of the first replica, the others follow it; 0 takes free ones. They listen on loopback only."""
    max_model_len: int | None = Field(None, ge=256)
    """Tokens of prompt and reply; null takes the model's own."""
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1)
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    quantization: str | None = None
    enable_prefix_caching: bool = True
    """Reuse of the computed beginning of a prompt, which most of a build's prompts share."""
    max_num_seqs: int = Field(128, ge=1, le=800)
    """Requests that a replica works on at once."""
    reasoning_parser: str | None = None
    """vLLM's name for how the model marks its thoughts, such as `qwen3` or `deepseek_r1`."""
    seed: int = Field(0, ge=0, lt=2**31)
    """The server's own; every request has its row's."""
    extra_args: tuple[str, ...] = ()
    """Further words of the command line, such as ["--kv-cache-dtype", "fp8"]; they win over those given here."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Variables for the program. No place for secrets, for the manifest shows them: the program inherits those of the
    flow."""
    log_folder: str | None = None
    """Folder of the servers' logs; null takes `bystander/logs` in the user's state folder."""
    startup_timeout_s: TimeoutSeconds = 1800.0
    max_restarts: int = Field(3, ge=0, le=100)
    """Times in a row that a server that died is started again, each."""
    max_in_flight: int | None = Field(None, ge=1, le=1000)
    """Requests at once, at each replica; null takes a quarter more than `max_num_seqs`, so that it never waits."""
    timeout_s: TimeoutSeconds = 600.0
    max_retries: int = Field(5, ge=0, le=100)
    logprobs: bool = True
    reasoning_tokens: int = Field(0, ge=0)
    """As for `openai`; they must find room in `max_model_len`."""

    @model_validator(mode="after")
    def _check(self) -> VllmTextConfig:
        if not self.command or not all(self.command):
            raise ValueError("command: is empty; give the name or path of the program vllm")
        if self.devices and len(self.devices) != self.replicas:
            raise ValueError(f"devices: {len(self.devices)} are named for {self.replicas} replicas; name one for each")
        if self.port and self.port + self.replicas - 1 > 65_535:
            raise ValueError(f"port: there are no {self.replicas} ports from {self.port} on")
        if self.reasoning_tokens and self.reasoning_parser is None:
            raise ValueError(
                "reasoning_parser: a model that thinks (reasoning_tokens) needs one, for without it vLLM holds its "
                "thoughts to the JSON schema of the answer; name the model's, such as qwen3 or deepseek_r1"
            )
        if self.max_model_len is not None and self.reasoning_tokens >= self.max_model_len:
            raise ValueError("reasoning_tokens: find no room in max_model_len")
        return self

    @property
    def in_flight(self) -> int:
        """Requests at once, at each replica."""
        return self.max_in_flight or self.max_num_seqs + max(1, self.max_num_seqs // 4)


class VllmBatchTextConfig(EngineConfig):
    """vLLM offline: requests are written into a file, `vllm run-batch` answers them all, and the answers are read.

    A batch is what one stage asks for one partition, and the model is loaded for every batch anew: set the build's
    `partition_rows` to thousands, up to all rows, and `workers` low.
    """

    ONE_PROCESS = True
    MODEL_IN_STORE = False
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
    OpenAiTextConfig | VllmTextConfig | VllmBatchTextConfig | LlamaCppTextConfig | PlaybookTextConfig | FakeTextConfig,
    Field(discriminator="engine"),
]
