"""Decoding of clips by a Whisper model of CTranslate2 in batches of windows of 30 s, with a fall-back to sampling.

At temperature 0 the texts are those of faster-whisper's `transcribe` without timestamps, which decodes one window after
the other. CTranslate2 samples from generators that cannot be seeded again, so what is sampled here is drawn by us from
the logits that it gives, token by token: slow, but for few clips, and the same whenever it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import RecognitionReply
from bystander.schemas.recogniser_configs import MEAN_LOGPROB, NO_SPEECH_PROB, TemperatureFallback
from bystander.tasks.engines.hallucination_guards import measure_compression
from bystander.tasks.engines.recognition_input import WhisperClip
from bystander.tasks.engines.temperature_fallback import (
    choose_candidate,
    choose_tokens,
    make_draws,
    needs_another,
    seed_clip,
)

_MAX_LENGTH = 448
"""Tokens of a window, those before the text among them: Whisper's context."""


@dataclass(frozen=True, slots=True)
class _Window:
    """Part `number` of a clip: log-mel features, shape (mels, 3000), float32."""

    clip: int
    number: int
    features: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Text:
    text: str
    mean_logprob: float
    no_speech_prob: float
    temperature: float


def decode_clips(
    model: Any, clips: Sequence[WhisperClip], beam_size: int, batch_size: int, fallback: TemperatureFallback | None
) -> list[tuple[RecognitionReply, float]]:
    """Return what is heard in clips of one language, each as if it were alone, and how much it repeats itself.

    That is the highest compression ratio of a window, since that of a long text grows with its length.

    Args:
        model: a `faster_whisper.WhisperModel`.
        clips: of any length; what is longer than 30 s is cut there.
        beam_size: of the search at temperature 0.
        batch_size: windows at once.
        fallback: null leaves unlikely texts as they are.
    """
    from faster_whisper.tokenizer import Tokenizer

    language = clips[0].language
    tokenizer = Tokenizer(model.hf_tokenizer, model.model.is_multilingual, task="transcribe", language=language)
    windows = [window for place, clip in enumerate(clips) for window in _cut_windows(model, place, clip)]
    texts: list[_Text] = []
    for start in range(0, len(windows), batch_size):
        texts += _search(model, tokenizer, windows[start : start + batch_size], beam_size)
    if fallback is not None:
        seeds = [seed_clip(clip.audio, clip.language) for clip in clips]
        texts = [
            _fall_back(model, tokenizer, window, text, seeds[window.clip] + window.number, fallback)
            for window, text in zip(windows, texts, strict=True)
        ]
    heard: list[list[_Text]] = [[] for _ in clips]
    for window, text in zip(windows, texts, strict=True):
        made_up = text.no_speech_prob > NO_SPEECH_PROB and text.mean_logprob <= MEAN_LOGPROB
        if text.text.strip() and not made_up:
            heard[window.clip].append(text)
    return [_join(parts) for parts in heard]


def _cut_windows(model: Any, place: int, clip: WhisperClip) -> list[_Window]:
    from faster_whisper.audio import pad_or_trim

    features = model.feature_extractor(clip.audio)[..., :-1]
    size = model.feature_extractor.nb_max_frames
    return [
        _Window(place, number, pad_or_trim(features[:, start : start + size]))
        for number, start in enumerate(range(0, features.shape[-1], size))
    ]


def _join(parts: Sequence[_Text]) -> tuple[RecognitionReply, float]:
    if not parts:
        return RecognitionReply("", no_speech_prob=1.0), 0.0
    reply = RecognitionReply(
        "".join(part.text for part in parts).strip(),
        mean_logprob=float(np.mean([part.mean_logprob for part in parts])),
        no_speech_prob=max(part.no_speech_prob for part in parts),
        temperature=max(part.temperature for part in parts),
    )
    return reply, max(measure_compression(part.text) for part in parts)


def _search(model: Any, tokenizer: Any, windows: Sequence[_Window], beam_size: int) -> list[_Text]:
    """Decode a batch of windows by beam search."""
    prompt = model.get_prompt(tokenizer, [], without_timestamps=True)
    results = model.model.generate(
        model.encode(np.stack([window.features for window in windows])),
        [prompt] * len(windows),
        beam_size=beam_size,
        max_length=_MAX_LENGTH,
        return_scores=True,
        return_no_speech_prob=True,
        suppress_tokens=_list_suppressed(tokenizer),
    )
    return [
        _Text(
            tokenizer.decode(result.sequences_ids[0]),
            result.scores[0] * len(result.sequences_ids[0]) / (len(result.sequences_ids[0]) + 1),
            result.no_speech_prob,
            0.0,
        )
        for result in results
    ]


def _fall_back(
    model: Any, tokenizer: Any, window: _Window, text: _Text, seed: int, fallback: TemperatureFallback
) -> _Text:
    """Return the first text that is likely enough, or that of the last temperature."""
    encoded: npt.NDArray[Any] | None = None
    for temperature in fallback.temperatures:
        if not needs_another(text.text, text.mean_logprob, text.no_speech_prob, fallback):
            break
        if encoded is None:
            encoded = _encode(model, window)
        draws = make_draws(seed, temperature)
        tokens, total = _sample(model, tokenizer, encoded, temperature, draws, fallback.best_of)
        decoded = tokenizer.decode(tokens)
        text = _Text(decoded, total / (len(tokens) + 1), text.no_speech_prob, temperature)
    return text


def _encode(model: Any, window: _Window) -> npt.NDArray[Any]:
    """Return the encoder's output, shape (1, 1500, width), float32, on the CPU: any replica may go on with it."""
    import ctranslate2

    features = ctranslate2.StorageView.from_array(np.ascontiguousarray(window.features[None]))
    encoded = model.model.encode(features, to_cpu=True)
    return np.array(encoded.to(ctranslate2.DataType.float32))


def _sample(
    model: Any,
    tokenizer: Any,
    encoded: npt.NDArray[Any],
    temperature: float,
    draws: np.random.Generator,
    best_of: int,
) -> tuple[list[int], float]:
    """Sample texts and return the tokens of the likeliest, and the sum of their log-probabilities (end included)."""
    import ctranslate2

    prompt = model.get_prompt(tokenizer, [], without_timestamps=True)
    suppressed = _list_suppressed(tokenizer)
    texts: list[list[int]] = [[] for _ in range(best_of)]
    sums = [0.0] * best_of
    live = list(range(best_of))
    for step in range(_MAX_LENGTH // 2):
        uniform = draws.random(best_of)
        results = model.model.generate(
            ctranslate2.StorageView.from_array(np.repeat(encoded, len(live), axis=0)),
            [[*prompt, *texts[candidate]] for candidate in live],
            beam_size=1,
            max_length=2 * (step + 1),  # half of which are tokens of the text, those given among them
            return_logits_vocab=True,
            suppress_blank=step == 0,
            suppress_tokens=suppressed,
        )
        logits = np.stack([np.array(result.logits[0][-1], np.float32) for result in results])
        chosen, logprobs = choose_tokens(logits, temperature, uniform[live])
        for candidate, token, logprob in zip(tuple(live), chosen.tolist(), logprobs.tolist(), strict=True):
            sums[candidate] += logprob
            if token == tokenizer.eot:
                live.remove(candidate)
            else:
                texts[candidate].append(token)
        if not live:
            break
    best = choose_candidate(sums, [len(text) for text in texts])
    return texts[best], sums[best]


def _list_suppressed(tokenizer: Any) -> list[int]:
    from faster_whisper.transcribe import get_suppressed_tokens

    return list(get_suppressed_tokens(tokenizer, [-1]))
