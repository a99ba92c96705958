"""Which detectors of interruptions are evaluated, as data, and their short form on the command line."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, ValidationError

from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.errors import ConfigError
from bystander.schemas.field_faults import describe_field_faults
from bystander.schemas.field_types import NAME, NAME_IN_WORDS, Name
from bystander.schemas.recogniser_configs import FasterWhisperConfig, RecogniserConfig
from bystander.schemas.stages import Params

Threshold = Annotated[float, Field(gt=0, lt=1)]
FramesToTrigger = Annotated[int, Field(ge=1, le=1000)]


class EnergyVadConfig(EngineConfig):
    """Level above a noise floor that adapts: the floor is the lowest level of the last seconds, within bounds."""

    engine: Literal["energy_vad"] = "energy_vad"
    frame_ms: int = Field(20, ge=5, le=100)
    margin_db: float = Field(10.0, gt=0, le=60)
    """A frame this far above the noise floor counts as speech."""
    min_level_dbfs: float = Field(-45.0, ge=-90, le=0)
    """Nothing quieter than this counts as speech, whatever the floor."""
    floor_window_s: float = Field(2.0, gt=0, le=60)
    max_floor_dbfs: float = Field(-35.0, ge=-90, le=0)
    """The floor rises no higher: a clip that begins with speech would take the speech for its noise."""
    frames_to_trigger: FramesToTrigger = 3


class WebrtcVadConfig(EngineConfig):
    """The GMM detector of WebRTC, through webrtcvad-wheels (MIT)."""

    engine: Literal["webrtc_vad"] = "webrtc_vad"
    aggressiveness: int = Field(2, ge=0, le=3)
    """0 lets most through as speech, 3 least."""
    frame_ms: Literal[10, 20, 30] = 20
    frames_to_trigger: FramesToTrigger = 3


class SileroVadConfig(EngineConfig):
    """Silero VAD v6 on onnxruntime, without torch (MIT): chunks of 32 ms."""

    engine: Literal["silero_vad"] = "silero_vad"
    model: str = "silero-vad-v6"
    """A name in the model store's manifest, or a path to an ONNX file."""
    threshold: Threshold = 0.5
    """The default of the model's authors, as is one chunk."""
    frames_to_trigger: FramesToTrigger = 1


class TenVadConfig(EngineConfig):
    """TEN VAD, through the package ten-vad (extra `ten-vad`): chunks of 10 or 16 ms.

    Its licence is Apache-2.0 with added conditions: it may not be used to compete with Agora's offerings, and only in
    applications for one's own benefit and that of their direct end users.
    """

    engine: Literal["ten_vad"] = "ten_vad"
    hop_samples: Literal[160, 256] = 256
    """Of 16 kHz audio."""
    threshold: Threshold = 0.5
    frames_to_trigger: FramesToTrigger = 1


class FsmnVadConfig(EngineConfig):
    """FunASR's FSMN-VAD on onnxruntime: a start is found as FunASR's own end-pointer finds it."""

    engine: Literal["fsmn_vad"] = "fsmn_vad"
    model: str = "fsmn-vad-zh-16k"
    """A name in the model store's manifest, or a path to a folder with `model.onnx`, `am.mvn` and `config.yaml`."""
    chunk_ms: int = Field(60, ge=10, le=1000, multiple_of=10)
    speech_noise_threshold: float = Field(0.6, ge=-1, le=1)
    """Least excess of the probability of speech over that of silence, in a frame of 10 ms; FunASR's default."""
    window_ms: int = Field(200, ge=10, le=5000, multiple_of=10)
    """A start needs `speech_ms` of speech within this long; FunASR's defaults."""
    speech_ms: int = Field(150, ge=10, le=5000, multiple_of=10)


class FakeDetectorConfig(EngineConfig):
    """Stops at the first chunk of 20 ms with a sample above `level`; for tests."""

    engine: Literal["fake_detector"] = "fake_detector"
    level: float = Field(0.1, ge=0, le=1)


VadConfig = Annotated[
    EnergyVadConfig | WebrtcVadConfig | SileroVadConfig | TenVadConfig | FsmnVadConfig | FakeDetectorConfig,
    Field(discriminator="engine"),
]
"""Those that tell speech from the rest, whatever is said."""


class SmartTurnConfig(EngineConfig):
    """Pipecat's smart-turn v3 (BSD-2-Clause) behind a VAD: it stops once what was said is a finished turn.

    It was made for the end of turns, so it hears the pause after the words, and a finished backchannel is a finished
    turn too.
    """

    engine: Literal["smart_turn"] = "smart_turn"
    model: str = "smart-turn-v3.2"
    """A name in the model store's manifest, or a path to an ONNX file."""
    threshold: Threshold = 0.5
    pause_s: float = Field(0.2, gt=0, le=10)
    """Silence after speech at which it is asked, as in Pipecat; again after the next speech."""
    vad: VadConfig = SileroVadConfig()


class LexiconWordsConfig(EngineConfig):
    """A recogniser's growing transcript: it stops at the first word that a lexicon does not know for a backchannel."""

    engine: Literal["lexicon_words"] = "lexicon_words"
    recogniser: RecogniserConfig = FasterWhisperConfig(beam_size=1, workers=1)
    language: Literal["en", "zh"] = "en"
    """Of the recogniser and the lexicon; it does not find out which of them a clip is in."""
    step_s: float = Field(0.4, gt=0, le=10)
    """Speech between two transcripts of what was said so far."""
    pause_s: float = Field(0.2, gt=0, le=10)
    """Silence at which the last words are taken for complete."""
    hold_back_words: int = Field(1, ge=0, le=20)
    """Last words of a transcript that do not count while speech goes on."""
    transcripts_to_trigger: int = Field(2, ge=1, le=100)
    """Transcripts in a row that must hold new intent."""
    min_mean_logprob: float = Field(-1.0, le=0)
    """Transcripts whose words the recogniser thinks less likely than this count as none; Whisper's own threshold."""
    vad: VadConfig = SileroVadConfig()


class RecurrentDetectorConfig(EngineConfig):
    """A small causal network that `bystander train sid` made: a few thousand steps a second, without torch."""

    engine: Literal["recurrent"] = "recurrent"
    model: str = Field(min_length=1)
    """Folder of the trained detector; it says the length of the chunks."""
    threshold: Threshold | None = None
    """Least probability of a positive chunk; null for the one that was chosen after training."""


class SidLmDetectorConfig(EngineConfig):
    """A detector that `bystander train sid` made after the SID paper: audio encoder and small language model.

    It hears the growing prefix anew at each chunk, so the time that a clip takes grows with the square of its length.
    """

    SPEED_ONLY: ClassVar[frozenset[str]] = frozenset({"device"})

    engine: Literal["sid_lm"] = "sid_lm"
    model: str = Field(min_length=1)
    """Folder of the trained detector; it says the length of the chunks and how much is heard at most."""
    threshold: Threshold | None = None
    """Least probability of a positive chunk; null for the one that was chosen after training."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"


OneDetectorConfig = Annotated[
    EnergyVadConfig
    | WebrtcVadConfig
    | SileroVadConfig
    | TenVadConfig
    | FsmnVadConfig
    | SmartTurnConfig
    | LexiconWordsConfig
    | RecurrentDetectorConfig
    | SidLmDetectorConfig
    | FakeDetectorConfig,
    Field(discriminator="engine"),
]


class KConsecutiveConfig(EngineConfig):
    """Stops only after `k` chunks in a row at which another detector would (SID paper, IV-C: K = 3)."""

    engine: Literal["k_consecutive"] = "k_consecutive"
    k: int = Field(3, ge=1, le=1000)
    of: OneDetectorConfig


DetectorConfig = Annotated[
    EnergyVadConfig
    | WebrtcVadConfig
    | SileroVadConfig
    | TenVadConfig
    | FsmnVadConfig
    | SmartTurnConfig
    | LexiconWordsConfig
    | RecurrentDetectorConfig
    | SidLmDetectorConfig
    | FakeDetectorConfig
    | KConsecutiveConfig,
    Field(discriminator="engine"),
]


class SidEvaluationEngines(Params):
    """The engine of one job of an evaluation on SID-Bench: the detector that is evaluated."""

    detector: DetectorConfig


_CONFIGS: dict[str, type[EngineConfig]] = {
    config.model_fields["engine"].default: config for config in get_args(get_args(OneDetectorConfig)[0])
}
DETECTORS: tuple[str, ...] = tuple(_CONFIGS)
"""Names of the detectors that the command line takes."""
_GRAMMAR = "[NAME=][kN:]DETECTOR[:SETTING=VALUE]..."


def parse_detectors(text: str) -> dict[str, DetectorConfig]:
    """Return the detectors of a comma-separated list, by name and in order.

    Each is a detector's name, with settings after colons and `kN:` before it for N consecutive chunks: `silero_vad`,
    `webrtc_vad:aggressiveness=3:frame_ms=30`, `k3:ten_vad`. It goes by what was written, with hyphens for all
    that a name may not hold, or by a name given in front: `strict=webrtc_vad:aggressiveness=3`. Settings of a `vad`
    within another detector are written `vad.engine=...`, those of its recogniser alike.

    Raises:
        ConfigError: names the entry, and the setting that is wrong or the detectors that there are.
    """
    found: dict[str, DetectorConfig] = {}
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        name, config = _parse_entry(entry)
        if name in found:
            raise ConfigError(
                f"detectors: {name} is there twice; give one another name, as in other={entry.removeprefix(name + '=')}"
            )
        found[name] = config
    if not found:
        raise ConfigError(f"detectors: none named; there are {', '.join(DETECTORS)}")
    return found


def _parse_entry(entry: str) -> tuple[Name, DetectorConfig]:
    head, *rest = entry.split(":")
    name, named, head = head.rpartition("=")
    if not named:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", entry).strip("-")[:100]
    if not re.match(NAME, name):
        raise ConfigError(f"detectors: {entry!r}: the name {name!r} will not do; a name is {NAME_IN_WORDS}")
    k = re.fullmatch(r"k(\d+)", head)
    if k is not None and rest:
        head, *rest = rest
    config = _make_config(entry, head, rest)
    if k is None:
        return name, config
    return name, _validate(entry, KConsecutiveConfig, {"k": int(k[1]), "of": config})


def _make_config(entry: str, engine: str, settings: list[str]) -> Any:
    if engine not in _CONFIGS:
        raise ConfigError(
            f"detectors: {entry!r}: no detector {engine!r}; there are {', '.join(DETECTORS)} (written {_GRAMMAR})"
        )
    values: dict[str, Any] = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals or not path:
            raise ConfigError(f"detectors: {entry!r}: {setting!r} is no setting; write {_GRAMMAR}")
        *outer, last = path.split(".")
        within = values
        for key in outer:
            within = within.setdefault(key, {})
            if not isinstance(within, dict):
                raise ConfigError(f"detectors: {entry!r}: {key} is set twice")
        within[last] = _read_value(value)
    return _validate(entry, _CONFIGS[engine], values)


def _read_value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _validate(entry: str, kind: type[EngineConfig], values: dict[str, Any]) -> Any:
    try:
        return kind.model_validate(values)
    except ValidationError as exc:
        raise ConfigError(f"detectors: {entry!r}: {describe_field_faults(kind, exc)}") from exc
