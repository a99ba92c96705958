"""Settings of the SID paper's detector (`sid_lm`): what it is made of and trained on, and what its folder says."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from bystander.schemas.stages import Params

SidLmPart = Literal["encoder", "projector", "language_model", "head"]


class TranscribedSource(Params):
    """Clips with transcripts, in Parquet, to align the encoder and the language model on."""

    path: str = Field(min_length=1)
    """A path, glob or fsspec URL to Parquet, or a finished build of SID rows."""
    audio_column: str = "audio"
    """Bytes of an audio file, or a struct with `bytes`, as Hugging Face writes them."""
    text_column: str = "text"


class SidLmConfig(Params):
    """The detector of the SID paper: audio encoder, projector, small language model, binary head on its last state.

    A clip of `t` s costs the language model 13 t positions (AuT) and each chunk of a stream the whole prefix anew, so
    that a stream of `n` chunks costs the square of n, up to `max_context_s`.
    """

    architecture: Literal["sid_lm"] = "sid_lm"
    encoder: str = "Qwen/Qwen3-Omni-30B-A3B-Instruct"
    """A folder or a name on the Hugging Face hub: a Qwen3-Omni model, of which only the audio encoder is read, or a
    Whisper model."""
    encoder_revision: str | None = None
    language_model: str = "Qwen/Qwen3-0.6B"
    """A folder or a name on the Hugging Face hub: a causal language model of `transformers`."""
    language_model_revision: str | None = None
    stack_frames: int = Field(1, ge=1, le=64)
    """Positions of the encoder that make one of the language model: 1 for AuT (13 a second), 4 for Whisper (50)."""
    max_context_s: float = Field(30.0, gt=0, le=3600)
    """Longest stretch that is heard: of a longer one its end. Whisper takes 30 s at most."""
    alignment_parts: tuple[SidLmPart, ...] = ("encoder", "projector", "language_model")
    """What learns in stage 1; the paper trains the entire pipeline."""
    detection_parts: tuple[SidLmPart, ...] = ("encoder", "projector", "language_model", "head")
    """What learns in stage 2."""
    transcripts: tuple[TranscribedSource, ...] = ()
    """Corpora for stage 1, besides the builds' own clips."""
    align_on_builds: bool = True
    """Whether stage 1 hears the builds' clips with their texts too."""


class SidLmFolder(Params):
    """`config.json` of a trained detector's folder."""

    architecture: Literal["sid_lm"] = "sid_lm"
    version: Literal[1] = 1
    encoder_kind: Literal["aut", "whisper"]
    encoder: dict[str, Any]
    """Of `transformers`: the audio encoder's configuration."""
    language_model: dict[str, Any]
    stack_frames: int = Field(ge=1)
    chunk_s: float = Field(gt=0)
    """Chunks that it was made to hear a stream in."""
    k: int = Field(ge=1)
    """Positive chunks in a row that its threshold was chosen for."""
    max_context_s: float = Field(gt=0)
    threshold: float = Field(0.5, gt=0, lt=1)
    """Least probability of a positive chunk."""
