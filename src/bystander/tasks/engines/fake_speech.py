"""Fakes of the speech, recognition and verification engines that find each other's meaning in the samples.

The fake speech is a code in sound: each character is a tone of 60 ms from a band of 96 tones above 2 kHz, and under
all of them lies one tone below 1.8 kHz that is the voice. So the fake recogniser reads the text, and the fake verifier
the voice, from the audio alone: after trimming, a change of gain, FLAC, or resampling to 16 kHz and more, in another
process, and (the voice) from any part of a clip, a mixture's part with one speaker included. All tones are whole cycles
a character and begin at a crest: the code is continuous, and its first sample is loud enough to be found.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import (
    EmbeddingRequest,
    EngineIdentity,
    RecognitionReply,
    RecognitionRequest,
    RowFault,
    Samples,
    SpeechReply,
    SpeechRequest,
    SpokenWord,
    Voice,
)
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.recogniser_configs import FakeRecogniserConfig, FakeVerifierConfig
from bystander.schemas.speech_engine_configs import FakeSpeechConfig
from bystander.tasks.engines.engine_audio import measure_peak_level
from bystander.tasks.engines.simulated_slots import SimulatedSlots
from bystander.tasks.texts.turn_words import find_turn_words

SAMPLING_RATE = 24000
CHARACTER_S = 0.06
MARGIN_S = 0.1
"""Silence before and after the code, so that there is something to trim."""
MAX_CHARACTERS = 2000
MAX_VOICES = 32
MIN_EMBED_S = 0.3

# Frequencies in cycles a character (16.7 Hz each), so that they hold at any sampling rate; 3 apart to be distinct.
_TEXT_CYCLES = 120 + 3 * np.arange(96)
_VOICE_CYCLES = 12 + 3 * np.arange(MAX_VOICES)
_TEXT_LEVEL, _VOICE_LEVEL = 0.3, 0.2
_FIRST_CHARACTER = 32
_ONSET = 0.25  # of the peak: the code begins at its crest
_ACTIVE = 0.1  # of the peak; a window whose RMS lies below it is a pause
_LOWEST_RATE = 14000  # the highest tone lies at 6.75 kHz
_EMBEDDED_WINDOWS = 16
_TONE_SHARE = 0.2  # of a window's power: the code has .69 in one tone, noise a hundredth
_SILENCE_DBFS = -55.0


class SpeechFlaw(StrEnum):
    """How a speech engine can go wrong; each is what a real one did."""

    GIBBERISH = "gibberish"
    LONG_SILENCE = "long_silence"
    DROPPED_WORD = "dropped_word"
    CLIPPED = "clipped"
    SILENT = "silent"


def flaw_by_seed(flaw: SpeechFlaw, every: int) -> Callable[[SpeechRequest], SpeechFlaw | None]:
    """Return a rule that spoils each request whose seed is a multiple of `every`."""
    return lambda request: flaw if request.seed % every == 0 else None


class FakeSpeechEngine:
    """Speaks in code, instantly or in the time configured. `flaw_of` says which requests come out spoiled, and how; for
    tests. `slots` are its workers, which know when they were busy."""

    def __init__(
        self, config: FakeSpeechConfig, flaw_of: Callable[[SpeechRequest], SpeechFlaw | None] | None = None
    ) -> None:
        self._config = config
        self.slots = SimulatedSlots(config.workers)
        self._flaw_of = flaw_of
        self._voices = tuple(f"fake_{index:02d}" for index in range(config.voices))
        self._languages = tuple(config.languages[i // 2 % len(config.languages)] for i in range(config.voices))

    @property
    def identity(self) -> EngineIdentity:
        settings = [("voices", str(self._config.voices))]
        if self._config.languages != ("en",):
            settings.append(("languages", ",".join(self._config.languages)))
        return EngineIdentity("speech", "fake_speech", "tones", "1", tuple(settings))

    @property
    def voices(self) -> Sequence[Voice]:
        return [
            Voice(id=voice, language=language, gender="male" if i % 2 else "female", source="tones", licence="CC0-1.0")
            for i, (voice, language) in enumerate(zip(self._voices, self._languages, strict=True))
        ]

    def synthesise(
        self, requests: Sequence[SpeechRequest], on_reply: Callable[[int, SpeechReply], None] | None = None
    ) -> list[SpeechReply | RowFault]:
        """Speak the requests. Row faults: `empty_text`, `text_too_long_to_speak`.

        Raises:
            EngineSetupError: a voice is unknown.
        """
        for request in requests:
            if request.voice not in self._voices:
                raise EngineSetupError(f"the fake has no voice {request.voice!r}; it has {', '.join(self._voices)}")

        def speak(index: int) -> SpeechReply | RowFault:
            reply = self._speak(requests[index])
            if on_reply is not None and isinstance(reply, SpeechReply):
                on_reply(index, reply)
            return reply

        return self.slots.run_batch(speak, len(requests), self._config.seconds_per_clip)

    def close(self) -> None:
        """End all waiting."""
        self.slots.close()

    def _speak(self, request: SpeechRequest) -> SpeechReply | RowFault:
        text = request.text.strip()
        if not any(character.isalnum() for character in text):
            return RowFault("empty_text", f"nothing in {request.text[:40]!r} can be spoken")
        if len(text) > MAX_CHARACTERS:
            return RowFault("text_too_long_to_speak", f"{len(text)} characters, {MAX_CHARACTERS} at most")
        flaw = self._flaw_of(request) if self._flaw_of is not None else None
        if flaw is SpeechFlaw.GIBBERISH:
            text = "blah " * max(1, len(text) // 5)
        elif flaw is SpeechFlaw.DROPPED_WORD:
            text = text.partition(" ")[2] or "blah"
        code = encode_speech(text, self._voices.index(request.voice))
        if flaw is SpeechFlaw.CLIPPED:
            code = np.clip(4 * code, -1, 1)
        elif flaw is SpeechFlaw.LONG_SILENCE:
            half = len(text) // 2 * _characters_to_samples(1)
            code = np.concatenate([code[:half], np.zeros(_characters_to_samples(500), np.float32), code[half:]])
        elif flaw is SpeechFlaw.SILENT:
            code = np.zeros_like(code)
        margin = np.zeros(round(MARGIN_S * SAMPLING_RATE), np.float32)
        words = time_words(text) if request.word_times else None
        return SpeechReply(np.concatenate([margin, code, margin]), SAMPLING_RATE, words)


class FakeRecogniser:
    """Reads the text out of fake speech. Other sound has no text. `slots` are its workers."""

    def __init__(self, config: FakeRecogniserConfig) -> None:
        self._config = config
        self.slots = SimulatedSlots(config.workers)

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity("recogniser", "fake_recogniser", "tones", "2")

    def recognise(
        self, requests: Sequence[RecognitionRequest], on_reply: Callable[[int, RecognitionReply], None] | None = None
    ) -> list[RecognitionReply | RowFault]:
        """Transcribe the requests. Row faults: `empty_audio`, `non_finite_audio`."""

        def listen(index: int) -> RecognitionReply | RowFault:
            reply = self._listen(requests[index])
            if on_reply is not None and isinstance(reply, RecognitionReply):
                on_reply(index, reply)
            return reply

        return self.slots.run_batch(listen, len(requests), self._config.seconds_per_clip)

    def close(self) -> None:
        """End all waiting."""
        self.slots.close()

    def _listen(self, request: RecognitionRequest) -> RecognitionReply | RowFault:
        if len(request.samples) == 0:
            return RowFault("empty_audio", "the clip has no samples")
        if not np.isfinite(request.samples).all():
            return RowFault("non_finite_audio", "the clip has samples that are no numbers")
        text = decode_speech(request.samples, request.sampling_rate)
        return RecognitionReply(text, mean_logprob=0.0 if text else None, no_speech_prob=0.0 if text else 1.0)


class FakeVerifier:
    """Embeds a clip as the levels of the voices' tones: one voice gives a unit axis, two give something between."""

    def __init__(self, config: FakeVerifierConfig) -> None:
        self._config = config

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity("verifier", "fake_verifier", "tones", "2")

    @property
    def min_duration_s(self) -> float:
        return MIN_EMBED_S

    def embed(self, requests: Sequence[EmbeddingRequest]) -> list[npt.NDArray[np.float32] | RowFault]:
        """Return one vector a clip, shape (32,), float32, L2 norm 1.

        Row faults: `too_short_to_embed` (silence too), `non_finite_audio`.
        """
        return [self._embed(request) for request in requests]

    def close(self) -> None:
        """Nothing to close."""

    def _embed(self, request: EmbeddingRequest) -> npt.NDArray[np.float32] | RowFault:
        duration_s = len(request.samples) / request.sampling_rate
        if duration_s < MIN_EMBED_S:
            return RowFault("too_short_to_embed", f"{duration_s:.2f} s of audio, {MIN_EMBED_S:g} s are needed")
        if not np.isfinite(request.samples).all():
            return RowFault("non_finite_audio", "the clip has samples that are no numbers")
        size = round(CHARACTER_S * request.sampling_rate)
        windows = request.samples[: len(request.samples) // size * size].reshape(-1, size)
        # Some windows tell as much as all: the voice is under every character.
        windows = windows[:: max(1, len(windows) // _EMBEDDED_WINDOWS)]
        # The taper keeps the text's tones, which change inside a window, out of the voices' band.
        power = np.abs(np.fft.rfft(windows * _make_taper(size), axis=1)[:, _VOICE_CYCLES]) ** 2
        levels = power.mean(axis=0)
        norm = float(np.linalg.norm(levels))
        if norm < 1e-9:
            return RowFault("too_short_to_embed", "the clip is silent")
        embedding: npt.NDArray[np.float32] = (levels / norm).astype(np.float32)
        return embedding


def encode_speech(text: str, voice: int) -> Samples:
    """Return the code of a text in a voice, at 24 kHz, shape (1440 * characters,); other characters become `?`."""
    plain = _write_plain(text)
    symbols = np.frombuffer(plain, np.uint8).astype(np.int64) - _FIRST_CHARACTER
    symbols[(symbols < 0) | (symbols >= len(_TEXT_CYCLES))] = ord("?") - _FIRST_CHARACTER
    code: Samples = (_make_tones()[symbols] + _make_voice(voice)).reshape(-1)
    return code


def time_words(text: str) -> tuple[SpokenWord, ...]:
    """Return when each word of a text is spoken in its code, margin included."""

    def tell(position: int) -> float:
        return MARGIN_S + CHARACTER_S * len(_write_plain(text[:position]))

    return tuple(SpokenWord(word.text, tell(word.start), tell(word.end)) for word in find_turn_words(text))


def decode_speech(samples: Samples, sampling_rate: int) -> str:
    """Return the text of a code that begins anywhere in the clip; empty for other sound and for a rate below 14 kHz."""
    if sampling_rate < _LOWEST_RATE or measure_peak_level(samples, sampling_rate) < _SILENCE_DBFS:
        return ""
    magnitude = np.abs(samples)
    peak = float(magnitude.max())
    start = int(np.argmax(magnitude >= _ONSET * peak))
    size = round(CHARACTER_S * sampling_rate)
    count = max(1, (len(samples) - start + size // 4) // size)
    padded = np.zeros(count * size, np.float32)
    taken = samples[start : start + len(padded)]
    padded[: len(taken)] = taken
    windows = padded.reshape(count, size)
    # All tones are whole cycles in a third of a character too: its middle tells the symbol.
    third = size // 3
    middles, cycles = (windows, _TEXT_CYCLES) if size % 3 else (windows[:, third:-third], _TEXT_CYCLES // 3)
    spectrum = np.abs(np.fft.rfft(middles, axis=1)[:, cycles])
    power = np.mean(windows**2, axis=1)
    in_tone = 2 * (spectrum.max(axis=1) / middles.shape[1]) ** 2
    coded = (power >= (_ACTIVE * peak) ** 2) & (in_tone >= _TONE_SHARE * power)
    symbols = spectrum.argmax(axis=1)[coded] + _FIRST_CHARACTER
    return bytes(symbols.astype(np.uint8)).decode("ascii").strip()


def _write_plain(text: str) -> bytes:
    return unicodedata.normalize("NFKD", text).encode("ascii", "replace")


def _characters_to_samples(characters: int) -> int:
    return round(CHARACTER_S * SAMPLING_RATE) * characters


@cache
def _make_taper(size: int) -> npt.NDArray[np.float32]:
    return np.hanning(size).astype(np.float32)


@cache
def _make_tones() -> npt.NDArray[np.float32]:
    """Return the tone of each symbol, shape (96, 1440)."""
    return (_TEXT_LEVEL * _make_cosines(_TEXT_CYCLES)).astype(np.float32)


@cache
def _make_voice(voice: int) -> npt.NDArray[np.float32]:
    (wave,) = _make_cosines(_VOICE_CYCLES[voice : voice + 1]).astype(np.float32)
    tone: npt.NDArray[np.float32] = np.float32(_VOICE_LEVEL) * wave
    return tone


def _make_cosines(cycles: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    size = _characters_to_samples(1)
    waves: npt.NDArray[np.float64] = np.cos(2 * np.pi * cycles[:, None] * np.arange(size) / size)
    return waves
