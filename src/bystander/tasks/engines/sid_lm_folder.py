"""A trained `sid_lm` detector as one folder, and a new one made of pretrained parts.

The folder holds `model.safetensors`, `config.json`, the tokenizer and the feature extractor: nothing else is needed to
open it, and no hub.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from bystander.schemas.engines import Samples
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.identity import digest_json
from bystander.schemas.sid_lm_config import SidLmConfig, SidLmFolder
from bystander.tasks.engines.model_revision import read_revision
from bystander.tasks.engines.package_check import load_packages
from bystander.tasks.engines.pretrained_files import CONFIG, WEIGHTS, PretrainedFiles

PACKAGES = ("torch", "transformers", "safetensors")
"""What a detector is loaded by."""
SAMPLING_RATE = 16000
_MIN_SAMPLES = 400  # one window of the spectrogram
_MARKERS = {
    "qwen3_omni_moe": "audio_tower.",
    "qwen3_omni_moe_thinker": "audio_tower.",
    "qwen3_omni_moe_audio_encoder": "",
    "whisper": "encoder.",
}
"""What stands before an audio encoder's weights, by the type of model that it is a part of."""


@dataclass(frozen=True, slots=True)
class SidLm:
    """A detector's model with what its inputs are made by."""

    model: Any
    """A `sid_lm_model.SidLmModel`."""
    tokenizer: Any
    extractor: Any
    folder: SidLmFolder


def open_pretrained(config: SidLmConfig, chunk_s: float, k: int, seed: int) -> SidLm:
    """Return an untrained detector of a pretrained audio encoder and language model, in float32.

    Of a Qwen3-Omni model, only the files that hold its audio encoder are fetched, and only that is read.

    Raises:
        EngineSetupError: a package, a model or a part of it is missing or does not fit.
    """
    load_packages(PACKAGES, "sid_lm", "train")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from bystander.tasks.engines.sid_lm_model import SidLmModel

    encoder_files = PretrainedFiles(config.encoder, config.encoder_revision)
    encoder = _open_encoder(encoder_files)
    if encoder.max_frames is not None and encoder.max_frames < 100 * config.max_context_s:
        raise EngineSetupError(
            f"model.max_context_s: {config.encoder} hears {encoder.max_frames / 100:g} s and no more; lower it to that"
        )
    files = PretrainedFiles(config.language_model, config.language_model_revision)
    try:
        tokenizer = AutoTokenizer.from_pretrained(files.source, **files.options)
        language_model = AutoModelForCausalLM.from_pretrained(files.source, dtype="float32", **files.options)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as exc:
        raise EngineSetupError(f"{config.language_model}: cannot be loaded ({_shorten(exc)})") from exc
    if tokenizer.eos_token_id is None:
        raise EngineSetupError(f"{config.language_model}: its tokenizer has no token for the end of a text")
    folder = SidLmFolder(
        encoder_kind=encoder.kind,
        encoder=_describe(encoder.encoder.config),
        language_model=_describe(language_model.config),
        stack_frames=config.stack_frames,
        chunk_s=chunk_s,
        k=k,
        max_context_s=config.max_context_s,
    )
    model = SidLmModel(encoder, language_model, config.stack_frames, seed)
    return SidLm(model, tokenizer, _open_extractor(encoder_files, encoder.mel_bins), folder)


def check_pretrained(config: SidLmConfig) -> None:
    """See whether an audio encoder and a language model are where they are named, without reading a weight.

    Of a model on the hub, its configuration is fetched.

    Raises:
        EngineSetupError: a folder is missing or lacks a file, the encoder is none that we know, or the hub does not
            give the model.
    """
    with _naming("encoder"):
        encoder = PretrainedFiles(config.encoder, config.encoder_revision)
        encoder.check_weights(_find_marker(encoder))
    with _naming("language_model"):
        words = PretrainedFiles(config.language_model, config.language_model_revision)
        if "model_type" not in words.read_json(CONFIG):
            raise EngineSetupError(f"{words.model}: its {CONFIG} names no model_type; name a causal language model")


@contextlib.contextmanager
def _naming(field: str) -> Iterator[None]:
    """Let an error in the block begin with the field of the model that it is about."""
    try:
        yield
    except EngineSetupError as exc:
        raise EngineSetupError(f"model.{field} {exc}") from exc


def digest_pretrained(config: SidLmConfig) -> str | None:
    """Return a digest of the files that a detector is made of; None where one lies on the hub, whose revision tells.

    Raises:
        EngineSetupError: a path has no folder, or there is no model in it.
    """
    encoder = PretrainedFiles(config.encoder, config.encoder_revision)
    words = PretrainedFiles(config.language_model, config.language_model_revision)
    if encoder.folder is None or words.folder is None:
        return None
    return digest_json([encoder.digest_part(_find_marker(encoder)), read_revision(config.language_model, words.folder)])


def save_sid_lm(folder: Path, sid_lm: SidLm) -> None:
    """Write a detector into a folder, which is made."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    sid_lm.tokenizer.save_pretrained(folder)
    sid_lm.extractor.save_pretrained(folder)
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in sid_lm.model.state_dict().items()}
    save_file(state, folder / WEIGHTS, metadata={"format": "pt"})
    text = json.dumps(sid_lm.folder.model_dump(mode="json"), indent=2, sort_keys=True, ensure_ascii=False)
    (folder / CONFIG).write_text(text + "\n", "utf-8")


def find_model_folder(path: Path) -> Path:
    """Return the detector's folder: the one named, or `model` of the run's folder that was named."""
    inner = path / "model"
    return inner if not (path / CONFIG).is_file() and (inner / CONFIG).is_file() else path


def read_sid_lm_config(folder: Path) -> SidLmFolder:
    """Return what a detector's folder says of it; no package is needed.

    Raises:
        EngineSetupError: there is no such detector in it.
    """
    try:
        return SidLmFolder.model_validate_json((folder / CONFIG).read_bytes())
    except OSError as exc:
        raise EngineSetupError(
            f"{folder}: no {CONFIG} of a trained detector; name the folder `model` that `bystander train sid` wrote"
        ) from exc
    except ValidationError as exc:
        raise EngineSetupError(f"{folder}/{CONFIG}: is none of a sid_lm detector; name another folder") from exc


def open_sid_lm(
    folder: Path, device: str = "cpu", dtype: Literal["float32", "bfloat16", "float16"] = "float32"
) -> SidLm:
    """Return a detector as `save_sid_lm` wrote it, ready to be asked.

    Raises:
        EngineSetupError: a package is missing, or the folder is none of a detector or damaged.
    """
    load_packages(PACKAGES, "sid_lm", "train")
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, WhisperFeatureExtractor

    from bystander.tasks.engines.sid_lm_encoders import build_encoder
    from bystander.tasks.engines.sid_lm_model import SidLmModel

    config = read_sid_lm_config(folder)
    try:
        settings = dict(config.language_model)
        language_model = AutoModelForCausalLM.from_config(AutoConfig.for_model(settings.pop("model_type"), **settings))
        model = SidLmModel(build_encoder(config.encoder_kind, config.encoder), language_model, config.stack_frames, 0)
        model.load_state_dict(load_file(folder / WEIGHTS))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        extractor = WhisperFeatureExtractor.from_pretrained(folder)
        model = model.to(device=device, dtype=getattr(torch, dtype)).eval()
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as exc:
        raise EngineSetupError(f"{folder}: the detector cannot be loaded ({_shorten(exc)})") from exc
    return SidLm(model, tokenizer, extractor, config)


def extract_features(extractor: Any, samples: Samples, max_context_s: float) -> npt.NDArray[np.float32]:
    """Return the log-mel features of a clip on its own, shape (mel, frames), at 100 frames/s.

    Nothing is filled up to 30 s, and the loudness that Whisper's features are cut off by is this clip's: a prefix is
    heard as if nothing followed. Of a clip longer than `max_context_s`, its end is heard.

    Args:
        extractor: a `WhisperFeatureExtractor`.
        samples: shape (n,), float32, 16 kHz, range [-1, 1].
        max_context_s: seconds at most.
    """
    heard = samples[-round(max_context_s * SAMPLING_RATE) :]
    if len(heard) < _MIN_SAMPLES:
        heard = np.concatenate([heard, np.zeros(_MIN_SAMPLES - len(heard), np.float32)])
    found = extractor(heard, sampling_rate=SAMPLING_RATE, padding="longest", truncation=False, return_tensors="np")
    features: npt.NDArray[np.float32] = np.asarray(found["input_features"][0], np.float32)
    return features


def stack_features(features: Sequence[npt.NDArray[np.float32]]) -> tuple[Any, Any]:
    """Return features of clips as one tensor, shape (clips, mel, frames), filled up with 0, and their frames, int64."""
    import torch

    frames = torch.tensor([one.shape[1] for one in features])
    stacked = torch.zeros(len(features), features[0].shape[0], int(frames.max()))
    for row, one in zip(stacked, features, strict=True):
        row[:, : one.shape[1]] = torch.from_numpy(one)
    return stacked, frames


def _find_marker(files: PretrainedFiles) -> str:
    """Return what stands before the audio encoder's weights in a model."""
    kind = files.read_json(CONFIG).get("model_type")
    if kind not in _MARKERS:
        raise EngineSetupError(
            f"{files.model}: its type {kind!r} has no audio encoder that we know; name a Qwen3-Omni or Whisper model"
        )
    return _MARKERS[kind]


def _open_encoder(files: PretrainedFiles) -> Any:
    from bystander.tasks.engines.sid_lm_encoders import build_encoder

    config = files.read_json(CONFIG)
    kind = config.get("model_type")
    settings = config
    if kind == "qwen3_omni_moe":
        settings = config.get("thinker_config", {}).get("audio_config", {})
    elif kind == "qwen3_omni_moe_thinker":
        settings = config.get("audio_config", {})
    weights = files.read_part(_find_marker(files))
    try:
        encoder = build_encoder("whisper" if kind == "whisper" else "aut", settings)
        encoder.encoder.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    except (RuntimeError, TypeError, ValueError) as exc:
        raise EngineSetupError(f"{files.model}: its audio encoder cannot be loaded ({_shorten(exc)})") from exc
    return encoder


def _describe(config: Any) -> dict[str, Any]:
    """Return a configuration of `transformers` as JSON reads it, without where on this machine it came from."""
    described: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    return {name: value for name, value in described.items() if name not in ("_name_or_path", "transformers_version")}


def _open_extractor(files: PretrainedFiles, mel_bins: int) -> Any:
    from transformers import WhisperFeatureExtractor

    if files.find("preprocessor_config.json") is None:
        return WhisperFeatureExtractor(feature_size=mel_bins)
    extractor = WhisperFeatureExtractor.from_pretrained(files.source, **files.options)
    if extractor.feature_size != mel_bins or extractor.sampling_rate != SAMPLING_RATE:
        raise EngineSetupError(
            f"{files.model}: its feature extractor makes {extractor.feature_size} mel bins at "
            f"{extractor.sampling_rate} Hz, the encoder takes {mel_bins} at {SAMPLING_RATE}"
        )
    return extractor


def _shorten(exc: Exception) -> str:
    line = " ".join(str(exc).split()) or type(exc).__name__
    return line if len(line) <= 300 else line[:297] + "..."
