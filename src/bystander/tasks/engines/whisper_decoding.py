"""Decoding of clips by openai-whisper: windows of 30 s in batches, and longer audio by its own transcription.

Imported only when such a model is opened, since it imports torch.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import whisper
from whisper.decoding import DecodingOptions, DecodingResult, DecodingTask, GreedyDecoder

from bystander.schemas.engines import RecognitionReply
from bystander.schemas.recogniser_configs import TemperatureFallback
from bystander.tasks.engines.recognition_input import WhisperClip
from bystander.tasks.engines.temperature_fallback import choose_tokens, make_draws, needs_another, seed_clip

_GLOBAL_RANDOM = threading.Lock()
"""Held while torch's global generators are seeded: whisper's own transcription draws from them."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How clips are decoded."""

    beam_size: int
    half: bool
    fallback: TemperatureFallback | None


class _SeededDecoder(GreedyDecoder):  # type: ignore[misc]  # whisper has no types
    """Samples tokens by draws that are each clip's own, whatever else is in the batch."""

    def __init__(self, temperature: float, eot: int, generators: Sequence[np.random.Generator], best_of: int) -> None:
        super().__init__(temperature, eot)
        self._generators = generators
        self._best_of = best_of

    def update(self, tokens: torch.Tensor, logits: torch.Tensor, sum_logprobs: torch.Tensor) -> tuple[Any, Any]:
        """Append a token to each candidate; see the base class."""
        draws = np.concatenate([generator.random(self._best_of) for generator in self._generators])
        chosen, logprobs = choose_tokens(logits.float().cpu().numpy(), self.temperature, draws)
        ended = tokens[:, -1] == self.eot
        following = torch.from_numpy(chosen).to(tokens.device)
        following[ended] = self.eot
        sum_logprobs += torch.from_numpy(logprobs).to(sum_logprobs) * ~ended
        tokens = torch.cat([tokens, following[:, None]], dim=-1)
        return tokens, bool((tokens[:, -1] == self.eot).all())


class _BatchTask(DecodingTask):  # type: ignore[misc]  # whisper has no types
    """Decoding of several clips in groups, which the package itself can do for one clip alone since 20250625.

    There the encoder's output is one a clip but the tokens are one a candidate: they go together only where the
    former is broadcast.
    """

    def _get_audio_features(self, mel: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = super()._get_audio_features(mel)
        return features.repeat_interleave(self.n_group, dim=0)

    def _detect_language(self, audio_features: torch.Tensor, tokens: torch.Tensor) -> Any:
        return super()._detect_language(audio_features[:: self.n_group], tokens)


def decode_windows(model: Any, clips: Sequence[WhisperClip], decoding: Decoding) -> list[RecognitionReply]:
    """Return what is heard in clips of one language and of up to 30 s, each as if it were alone.

    Clips are padded to the window with silence and decoded as one batch by beam search, without timestamps. Those
    whose text is unlikely are decoded again, as one batch too, at each further temperature.
    """
    mels = torch.stack([_make_mel(model, clip) for clip in clips])
    results: list[DecodingResult] = _decode(model, mels, clips, 0.0, decoding)
    fallback = decoding.fallback
    for temperature in fallback.temperatures if fallback is not None else ():
        assert fallback is not None
        again = [
            place
            for place, result in enumerate(results)
            if needs_another(result.text, result.avg_logprob, _read_doubt(result.no_speech_prob), fallback)
        ]
        if not again:
            break
        # What the encoder made of a clip comes back with its result: it is not run again.
        features = torch.stack([results[place].audio_features for place in again])
        fresh = _decode(model, features, [clips[place] for place in again], temperature, decoding)
        for place, result in zip(again, fresh, strict=True):
            results[place] = result
    return [
        RecognitionReply(
            result.text.strip(),
            mean_logprob=float(result.avg_logprob),
            no_speech_prob=_read_doubt(result.no_speech_prob),
            temperature=float(result.temperature),
        )
        for result in results
    ]


def transcribe_long(model: Any, clip: WhisperClip, decoding: Decoding) -> tuple[RecognitionReply, float]:
    """Return what is heard in a clip of any length, window by window at the model's own timestamps.

    With it comes the highest compression ratio of a window, since that of a long text grows with its length.
    """
    fallback = decoding.fallback
    temperatures = (0.0, *fallback.temperatures) if fallback is not None else (0.0,)
    limits = fallback or TemperatureFallback()
    # A seed is set on all GPUs at once.
    with _GLOBAL_RANDOM, torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed_clip(clip.audio, clip.language))
        found = whisper.transcribe(
            model,
            clip.audio,
            verbose=None,
            language=clip.language,
            temperature=temperatures,
            compression_ratio_threshold=limits.compression_ratio,
            logprob_threshold=limits.mean_logprob,
            no_speech_threshold=limits.no_speech_prob,
            condition_on_previous_text=False,
            beam_size=decoding.beam_size,
            best_of=limits.best_of,
            fp16=decoding.half,
        )
    segments = found["segments"]
    if not segments:
        return RecognitionReply("", no_speech_prob=1.0), 0.0
    reply = RecognitionReply(
        found["text"].strip(),
        mean_logprob=float(np.mean([segment["avg_logprob"] for segment in segments])),
        no_speech_prob=max(_read_doubt(segment["no_speech_prob"]) for segment in segments),
        temperature=float(max(segment["temperature"] for segment in segments)),
    )
    return reply, float(max(segment["compression_ratio"] for segment in segments))


def _make_mel(model: Any, clip: WhisperClip) -> torch.Tensor:
    audio = whisper.pad_or_trim(torch.from_numpy(np.array(clip.audio)))
    mel: torch.Tensor = whisper.log_mel_spectrogram(audio, model.dims.n_mels, device=model.device)
    return mel


def _decode(
    model: Any, heard: torch.Tensor, clips: Sequence[WhisperClip], temperature: float, decoding: Decoding
) -> list[DecodingResult]:
    """Decode a batch of spectrograms or of the encoder's outputs at one temperature."""
    best_of = decoding.fallback.best_of if decoding.fallback is not None and temperature > 0 else None
    options = DecodingOptions(
        language=clips[0].language,
        temperature=temperature,
        beam_size=decoding.beam_size if temperature == 0 else None,
        best_of=best_of,
        without_timestamps=True,
        fp16=decoding.half,
    )
    task = _BatchTask(model, options)
    if best_of is not None:
        generators = [make_draws(seed_clip(clip.audio, clip.language), temperature) for clip in clips]
        task.decoder = _SeededDecoder(temperature, task.tokenizer.eot, generators, best_of)
    results: list[DecodingResult] = task.run(heard)
    return results


def _read_doubt(no_speech_prob: float) -> float:
    return float(no_speech_prob) if np.isfinite(no_speech_prob) else 0.0
