"""Which engine serves a role of SID, as data: decoders, taggers, aligners and detectors."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.engines import EngineRole
from bystander.schemas.field_types import TimeoutSeconds
from bystander.schemas.recogniser_configs import RecogniserConfig
from bystander.schemas.speech_engine_configs import SpeechEngineConfig
from bystander.schemas.stages import Params
from bystander.schemas.text_engine_configs import (
    FakeTextConfig,
    LlamaCppTextConfig,
    OpenAiTextConfig,
    PlaybookTextConfig,
    VllmBatchTextConfig,
    VllmTextConfig,
)

# ---- decoding ------------------------------------------------------------------------------------------------


class FileDecoderConfig(EngineConfig):
    """libsndfile, and ffmpeg for what it cannot read."""

    engine: Literal["file_decoder"] = "file_decoder"
    ffmpeg: Literal["pyav", "pydub"] = "pyav"
    """How ffmpeg is reached: as libraries, by PyAV; or as the program on this machine, by pydub (the extra `pydub`)."""
    max_duration_s: float = Field(2 * 3600.0, gt=0, le=24 * 3600)
    """A longer recording is refused: at 48 kHz, each hour of two channels takes 1.4 GB of memory while it is read."""


class FakeDecoderConfig(EngineConfig):
    """Instant, deterministic two-channel sound; for tests."""

    engine: Literal["fake_decoder"] = "fake_decoder"


DecoderConfig = Annotated[FileDecoderConfig | FakeDecoderConfig, Field(discriminator="engine")]

# ---- voice activity ------------------------------------------------------------------------------------------


class SileroVadConfig(EngineConfig):
    """Silero VAD 6, the ONNX model in faster-whisper's wheel (MIT)."""

    engine: Literal["silero"] = "silero"
    threshold: float = Field(0.5, gt=0, lt=1)
    """Probability from which a stretch of 32 ms begins speech; it ends below 0.15 less."""
    min_pause_s: float = Field(0.1, ge=0, le=10)
    """Shorter pauses do not end a span."""


VadConfig = SileroVadConfig

# ---- alignment -----------------------------------------------------------------------------------------------


class PocketsphinxAlignerConfig(EngineConfig):
    """CMU pocketsphinx with the English model in its wheel.

    The limits are for recorded speech and the telephone too. Measured by `benchmarks/aligner_scores.py` on clips of
    three words and more: right texts rejected / texts of other clips / texts with one wrong word, in percent.

    | limits | Kokoro | Kokoro, telephone | recorded | recorded, telephone |
    |---|---|---|---|---|
    | -40, -110 | 0 / 100 / 13 | 0 / 98 / 12 | 9 / 93 / 21 | 14 / 98 / 35 |
    | -35, -60 | 0 / 100 / 77 | 0 / 100 / 67 | 23 / 95 / 81 | 47 / 100 / 79 |
    | -30, -50 | 0 / 100 / 90 | 3 / 100 / 80 | 35 / 98 / 93 | 58 / 100 / 93 |

    For synthetic speech alone take -35 and -60. Of clips of one or two words 25 to 67 % of the wrong texts pass
    at either, since short words of any text fit somewhere.
    """

    engine: Literal["pocketsphinx"] = "pocketsphinx"
    min_score: float = -40.0
    """Least mean score a frame of a clip's words. The median of right texts is -11 for Kokoro, -16 over the telephone,
    -20 and -26 for recorded speech; of wrong ones -45 to -67."""
    min_word_score: float = -110.0
    """Least mean score a frame of every word. Laxer, because words of right texts that are slurred, hoarse or cut by
    the telephone's band score as low as wrong words: the worst word of a clip reaches -50 at the median of recorded
    speech over the telephone, -105 to -130 in one clip of twenty. Raise it to find single wrong words."""


class KaldiGmmAlignerConfig(EngineConfig):
    """Kaldi's GMM code with monophone models: those shipped, or a folder that the training script wrote.

    `models` maps a language to a model folder; the shipped models where none is given. Beams are Kaldi's, in scaled
    cost. The limits replace those that were calibrated with the model, in nats a frame. The features end at 3.8 kHz, so
    that telephone speech has the scores of full-band speech.
    """

    engine: Literal["kaldi_gmm"] = "kaldi_gmm"
    models: dict[str, str] = Field(default_factory=dict)
    min_score: float | None = Field(None, le=0)
    """Least score of a clip against a free loop of phones."""
    min_word_score: float | None = Field(None, le=0)
    """The same of every word of 0.1 s and more."""
    min_speech_score: float | None = None
    """Least score against noise."""
    beam: float = Field(20.0, gt=0)
    retry_beam: float = Field(80.0, gt=0)


class MfaAlignerConfig(EngineConfig):
    """Montreal Forced Aligner 3 through its command line, in a conda environment of its own."""

    SPEED_ONLY = frozenset({"jobs", "timeout_s", "command", "prefix", "root_dir"})
    engine: Literal["mfa"] = "mfa"
    command: str = "mfa"
    """The program, on PATH or by its path; it is run within the conda environment that it lies in."""
    prefix: str | None = None
    """Folder of that environment, such as /opt/conda/envs/mfa; stands in place of `command`."""
    root_dir: str | None = None
    """Where MFA keeps its models; null means MFA_ROOT_DIR, or Documents/MFA at home."""
    dictionary: dict[str, str] = Field(default_factory=lambda: {"en": "english_us_arpa", "zh": "mandarin_mfa"})
    """Language to dictionary, as `acoustic` and `g2p` to models: by MFA's names, or paths."""
    acoustic: dict[str, str] = Field(default_factory=lambda: {"en": "english_us_arpa", "zh": "mandarin_mfa"})
    g2p: dict[str, str] = Field(default_factory=dict)
    beam: int = Field(10, ge=1)
    retry_beam: int = Field(40, ge=1)
    fine_tune: bool = False
    bias_s: float = Field(0.0, ge=-1, le=1)
    """How late the starts of these models lie (negative: early), subtracted from all times."""
    jobs: int = Field(1, ge=1, le=256)
    timeout_s: TimeoutSeconds = 3600.0


class KaldiArkAlignerConfig(EngineConfig):
    """Alignments that a Kaldi run left: CTM of words, and phones from CTM or ark. Trusted local paths only.

    The utterances of the Kaldi run must have the clips' ids, and times from their starts.
    """

    engine: Literal["kaldi_ark"] = "kaldi_ark"
    words_ctm: str
    phones_ctm: str | None = None
    phones_ark: str | None = None
    """Phone numbers frame by frame: what `ali-to-phones --per-frame=true` writes, in text or binary."""
    phone_table: str | None = None
    """Kaldi's phones.txt, which `phones_ark` needs."""
    frame_shift_s: float = Field(0.01, gt=0, le=1)
    languages: tuple[str, ...] = ("en", "zh")
    """Languages that the Kaldi run aligned."""
    bias_s: float = Field(0.0, ge=-1, le=1)
    """How late the starts of its models lie (negative: early), subtracted from all times."""


class RecogniserAlignerConfig(EngineConfig):
    """Word times of a recogniser, matched to the text: a fall-back, marked as such on the row."""

    SPEED_ONLY = frozenset({"workers"})
    engine: Literal["recogniser_words"] = "recogniser_words"
    model: str = "whisper-tiny.en-ct2"
    compute_type: str = "int8"
    workers: int = Field(1, ge=1, le=256)


class FakeAlignerConfig(EngineConfig):
    """Spreads the words evenly over the clip's sound; for tests."""

    engine: Literal["fake_aligner"] = "fake_aligner"


OneAlignerConfig = Annotated[
    PocketsphinxAlignerConfig
    | KaldiGmmAlignerConfig
    | MfaAlignerConfig
    | KaldiArkAlignerConfig
    | RecogniserAlignerConfig
    | FakeAlignerConfig,
    Field(discriminator="engine"),
]


class ByLanguageAlignerConfig(EngineConfig):
    """Another aligner for each language."""

    engine: Literal["by_language"] = "by_language"
    aligners: dict[str, OneAlignerConfig]


AlignerConfig = Annotated[
    PocketsphinxAlignerConfig
    | KaldiGmmAlignerConfig
    | MfaAlignerConfig
    | KaldiArkAlignerConfig
    | RecogniserAlignerConfig
    | FakeAlignerConfig
    | ByLanguageAlignerConfig,
    Field(discriminator="engine"),
]

# ---- tagging -------------------------------------------------------------------------------------------------


class RuleTaggerConfig(EngineConfig):
    """No model: a lexicon of backchannels; what follows them is new intent. English and Mandarin."""

    engine: Literal["rule_tagger"] = "rule_tagger"


TaggerConfig = Annotated[
    OpenAiTextConfig
    | VllmTextConfig
    | VllmBatchTextConfig
    | LlamaCppTextConfig
    | PlaybookTextConfig
    | FakeTextConfig
    | RuleTaggerConfig,
    Field(discriminator="engine"),
]


class SidEngines(Params):
    """One engine a role. `writer` (the tagger where it is null) and `speech` are for embedded conversations only."""

    decoder: DecoderConfig = FileDecoderConfig()
    vad: VadConfig | None = SileroVadConfig()
    """Null finds speech by its energy alone."""
    recogniser: RecogniserConfig | None = None
    tagger: TaggerConfig
    second_tagger: TaggerConfig | None = None
    aligner: AlignerConfig
    second_aligner: AlignerConfig | None = None
    writer: TaggerConfig | None = None
    speech: SpeechEngineConfig | None = None


SID_ROLES: tuple[EngineRole, ...] = (
    "decoder",
    "vad",
    "recogniser",
    "tagger",
    "second_tagger",
    "aligner",
    "second_aligner",
    "writer",
    "speech",
)
"""The roles of a SID build: the fields of `SidEngines`."""
