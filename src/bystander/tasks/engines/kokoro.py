"""Kokoro-82M on onnxruntime: 28 English and 8 Mandarin voices, 24 kHz, no torch.

Text goes through grapheme-to-phoneme rules (American for `a*` voices, British for `b*`, Mandarin for `z*`), then, as
numbers of Kokoro's symbols, into the network together with a row of the voice's style tensor and a speed.

The network first predicts how many frames of 25 ms each symbol lasts, then speaks with exactly these durations: word
times are their sums, less what they are late by.

Kokoro itself is deterministic, so the seed of a request chooses a small variation that a speaker has too: the speed,
within `SPEED_SPREAD` of the configured one, and the style row, up to `STYLE_SPREAD` rows from the one for this number
of symbols. It depends on the seed alone; another seed therefore is another take, and the same seed the same samples.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import EngineIdentity, RowFault, SpeechReply, SpeechRequest, SpokenWord, Voice
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.identity import make_rng
from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
from bystander.tasks.engines.kokoro_english import EnglishPronouncer
from bystander.tasks.engines.kokoro_mandarin import PACKAGES as MANDARIN_PACKAGES
from bystander.tasks.engines.kokoro_mandarin import MandarinPronouncer
from bystander.tasks.engines.kokoro_styles import ACCENTS, VoiceStyles, load_styles, load_symbols
from bystander.tasks.engines.kokoro_words import Pronouncer, Pronunciation, WordSpan
from bystander.tasks.engines.model_revision import ResolveModel, find_package_version, read_revision
from bystander.tasks.engines.onnx_session import open_onnx_session

SAMPLING_RATE = 24000
MAX_SYMBOLS = 510
"""Length of Kokoro's context without its two pads."""
SPEED_SPREAD = 0.06
STYLE_SPREAD = 12
SAMPLES_PER_FRAME: Final = 600
"""25 ms: the durations that the network gives its symbols are whole frames of this length."""

# How late a word's first symbol is against its first sound, measured by benchmarks/word_time_accuracy.py on 105 clips
# of six voices. Spaces and marks between words have frames, but without a pause no sound: they are the next word's.
LATE_AFTER_PAUSE_S: Final = 0.06
LATE_WITHIN_S: Final = 0.04
"""Of a Chinese character right after another, with no symbol between."""
LATE_AFTER_MARK_S: Final = 0.01
"""Of the first space or mark before a word."""
PAUSE_FROM_S: Final = 0.1
"""Marks that last longer are a pause."""

_RULES = "1"  # raise when the mapping from text and seed to the network's inputs changes
_MANDARIN_RULES = "1"  # the same of Mandarin texts alone
_DURATIONS: Final = "/encoder/Gather_output_0"
"""The value inside the graph that holds the frames of each symbol, the two pads included: shape (n + 2,), int64."""
_LICENCE = "Apache-2.0"


class KokoroSpeechEngine:
    """Speaks with Kokoro. Calls from several threads share one network; `sessions` clips are made at once."""

    def __init__(self, config: KokoroSpeechConfig, resolve_model: ResolveModel) -> None:
        """Find the model; it is opened by the first call.

        Raises:
            ModelStoreError: the model is not in the store (from `resolve_model`).
        """
        self._config = config
        self._path = resolve_model(config.model)
        self._styles = {voice: styles for language in config.languages for styles, voice in _list_styles(language)}
        self._symbols = load_symbols()
        self._pool = ThreadPoolExecutor(config.sessions, thread_name_prefix="kokoro")
        self._lock = threading.Lock()
        self._session: Any = None
        self._tells_durations = False
        self._pronouncers: dict[str, Pronouncer] = {}
        self._identity = EngineIdentity(
            kind="speech",
            name="kokoro",
            model=config.model,
            revision=read_revision(config.model, self._path),
            settings=_describe_settings(config),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def voices(self) -> Sequence[Voice]:
        return [
            Voice(
                id=voice,
                language=_find_language(voice),
                gender="female" if voice[1] == "f" else "male",
                source=f"Kokoro-82M v1.0, {ACCENTS[voice[0]]}",
                licence=_LICENCE,
            )
            for voice in sorted(self._styles)
        ]

    def synthesise(
        self, requests: Sequence[SpeechRequest], on_reply: Callable[[int, SpeechReply], None] | None = None
    ) -> list[SpeechReply | RowFault]:
        """Speak the requests. A reply's word times are None where a word of the text has no symbols of its own.

        Row faults: `empty_text`, `text_too_long_to_speak` (above 510 symbols), `unsupported_language` (another than the
        voice's).

        Raises:
            EngineSetupError: a voice is unknown, a package is missing, or the model cannot be opened.
            EngineError: the network failed.
        """
        for request in requests:
            if request.voice not in self._styles:
                raise EngineSetupError(
                    f"Kokoro has no voice {request.voice!r}; it has {', '.join(sorted(self._styles))}"
                )
        self._open(any(request.word_times for request in requests))

        def speak(item: tuple[int, SpeechRequest]) -> SpeechReply | RowFault:
            index, request = item
            reply = self._speak(request)
            if on_reply is not None and isinstance(reply, SpeechReply):
                on_reply(index, reply)
            return reply

        return list(self._pool.map(speak, enumerate(requests)))

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._session = None

    def _open(self, durations: bool) -> None:
        # A session that tells durations speaks the same samples; it takes longer to open, so only who needs one waits.
        with self._lock:
            if self._session is None or (durations and not self._tells_durations):
                self._session = open_onnx_session(self._path, (_DURATIONS,) if durations else ())
                self._tells_durations = durations

    def _speak(self, request: SpeechRequest) -> SpeechReply | RowFault:
        language = _find_language(request.voice)
        if request.language.replace("_", "-").split("-")[0].lower() != language:
            return RowFault(
                "unsupported_language", f"Kokoro's voice {request.voice} speaks {language}, not {request.language}"
            )
        spoken = self._pronounce(request)
        kept = [i for i, symbol in enumerate(spoken.symbols) if symbol in self._symbols]
        if not any(symbol.isalpha() for symbol in spoken.symbols):
            return RowFault("empty_text", f"nothing in {request.text[:40]!r} can be spoken")
        if len(kept) > MAX_SYMBOLS:
            return RowFault("text_too_long_to_speak", f"{len(kept)} phoneme symbols, {MAX_SYMBOLS} at most")
        speed, shift = vary_delivery(request.seed)
        row = min(max(len(kept) - 1 + shift, 0), MAX_SYMBOLS - 1)
        feed = {
            "tokens": np.array([[0, *(self._symbols[spoken.symbols[i]] for i in kept), 0]], np.int64),
            "style": self._styles[request.voice].read_row(request.voice, row)[None],
            "speed": np.array([self._config.speed * speed], np.float32),
        }
        try:
            audio, *durations = self._session.run(["audio", *([_DURATIONS] if request.word_times else [])], feed)
        except Exception as exc:  # onnxruntime raises types of its own
            raise EngineError(f"Kokoro failed on {request.text[:40]!r}: {str(exc).splitlines()[0][:160]}") from exc
        samples = np.clip(audio.reshape(-1), -1, 1).astype(np.float32)
        words = None
        if durations and spoken.words is not None:
            words = time_words(spoken.words, kept, durations[0], len(samples))
        return SpeechReply(samples, SAMPLING_RATE, words)

    def _pronounce(self, request: SpeechRequest) -> Pronunciation:
        # The rules keep a cache and load one of their tables on demand; they are fast enough to take turns.
        text = cut_ellipsis(request.text)
        with self._lock:
            accent = request.voice[0]
            if accent not in self._pronouncers:
                self._pronouncers[accent] = (
                    MandarinPronouncer() if accent == "z" else EnglishPronouncer(british=accent == "b")
                )
            pronouncer = self._pronouncers[accent]
            if isinstance(pronouncer, EnglishPronouncer) and not request.word_times:
                return Pronunciation(pronouncer.transcribe(text), None)
            return pronouncer.pronounce(text)


def time_words(
    words: Sequence[WordSpan], kept: Sequence[int], durations: npt.NDArray[np.int64], length: int
) -> tuple[SpokenWord, ...] | None:
    """Return when each word is spoken, from how long each symbol lasts; None where a word has no symbol.

    Sounds are heard a little before the frames of their symbols, by amounts that depend on what stands before them: see
    the constants. Starts do not fall, and no word ends after the next begins.

    Args:
        words: spans of symbols.
        kept: which symbols the network was given, ascending.
        durations: frames of each of them, a pad before and after, shape (len(kept) + 2,).
        length: samples of the clip.

    Raises:
        EngineError: the durations are not those of the clip.
    """
    ends = np.cumsum(durations.reshape(-1)) * SAMPLES_PER_FRAME
    if len(ends) != len(kept) + 2 or ends[-1] != length:
        raise EngineError(f"Kokoro's durations are of {len(ends)} symbols and {ends[-1]} samples, not {length}")
    times_s = (ends / SAMPLING_RATE).tolist()
    spans: list[tuple[float, float]] = []
    for word in words:
        inside = [number for number, at in enumerate(kept) if word.start <= at < word.end]
        if not inside:
            return None
        before = spans[-1][1] if spans else None
        spans.append((_find_start(times_s[inside[0]], before), times_s[inside[-1] + 1]))
    starts = np.maximum.accumulate([max(0.0, start) for start, _ in spans]).tolist()
    limits = [*starts[1:], spans[-1][1]] if spans else []
    return tuple(
        SpokenWord(word.word, start, max(start, min(end - LATE_AFTER_MARK_S, limit)))
        for word, start, (_, end), limit in zip(words, starts, spans, limits, strict=True)
    )


def _find_start(symbol_s: float, before_s: float | None) -> float:
    """Return when a word begins, from when its first symbol does and the last symbol of the word before ended."""
    if before_s is None or symbol_s - before_s > PAUSE_FROM_S:
        return symbol_s - LATE_AFTER_PAUSE_S
    return before_s - LATE_AFTER_MARK_S if before_s < symbol_s else symbol_s - LATE_WITHIN_S


def vary_delivery(seed: int) -> tuple[float, int]:
    """Return a seed's speed factor, in 1 +- `SPEED_SPREAD`, and style-row shift, in +- `STYLE_SPREAD`."""
    rng = make_rng(seed, "", "kokoro_delivery")
    return 1 + SPEED_SPREAD * float(rng.uniform(-1, 1)), int(rng.integers(-STYLE_SPREAD, STYLE_SPREAD + 1))


def cut_ellipsis(text: str) -> str:
    """Return the text without dots at its end that say "cut off here".

    Kokoro draws the last word out before "..." (some voices by .2 s) and lets it fall; with no mark at all the word
    keeps its running length, which is how a sentence sounds that somebody else cuts.
    """
    bare = text.rstrip()
    if bare.endswith(("...", "…")):
        return bare.rstrip(".… ,")
    return bare


def _find_language(voice: str) -> str:
    return "zh" if voice[0] == "z" else "en"


def _list_styles(language: str) -> list[tuple[VoiceStyles, str]]:
    styles = load_styles(language)
    return [(styles, voice) for voice in styles.voices]


def _describe_settings(config: KokoroSpeechConfig) -> tuple[tuple[str, str], ...]:
    """Return what decides the samples. Without Mandarin it is what it was before there was any: caches stay good."""
    settings = [
        ("g2p", f"hibari-tts {find_package_version('hibari-tts')}"),
        ("rules", _RULES),
        ("speed", f"{config.speed:g}"),
    ]
    if "en" in config.languages:
        settings.append(("voices", load_styles("en").digest[:16]))
    if "zh" in config.languages:
        rules = ", ".join(f"{package} {find_package_version(package)}" for package in MANDARIN_PACKAGES)
        settings += [("zh_g2p", rules), ("zh_rules", _MANDARIN_RULES), ("zh_voices", load_styles("zh").digest[:16])]
    return tuple(settings)
