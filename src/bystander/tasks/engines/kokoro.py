"""Kokoro-82M on onnxruntime: 28 English voices, 24 kHz, no torch.

Text goes through hibari-tts' grapheme-to-phoneme rules (American for `a*` voices, British for `b*`), then, as numbers
of Kokoro's symbols, into the network together with a row of the voice's style tensor and a speed.

Kokoro itself is deterministic, so the seed of a request chooses a small variation that a speaker has too: the speed,
within `SPEED_SPREAD` of the configured one, and the style row, up to `STYLE_SPREAD` rows from the one for this number
of symbols. It depends on the seed alone; another seed therefore is another take, and the same seed the same samples.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import metadata, resources
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engine_configs import KokoroSpeechConfig
from bystander.schemas.engines import EngineIdentity, RowFault, SpeechReply, SpeechRequest, Voice
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.identity import make_rng
from bystander.tasks.engines.model_revision import ResolveModel, read_revision
from bystander.tasks.engines.onnx_session import open_onnx_session

SAMPLING_RATE = 24000
MAX_SYMBOLS = 510
"""Length of Kokoro's context without its two pads."""
SPEED_SPREAD = 0.06
STYLE_SPREAD = 12

_RULES = "1"  # raise when the mapping from text and seed to the network's inputs changes
_ACCENTS = {"a": "American English", "b": "British English"}
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
        self._styles = load_styles()
        self._symbols = load_symbols()
        self._pool = ThreadPoolExecutor(config.sessions, thread_name_prefix="kokoro")
        self._lock = threading.Lock()
        self._session: Any = None
        self._phonemisers: dict[str, Any] = {}
        self._identity = EngineIdentity(
            kind="speech",
            name="kokoro",
            model=config.model,
            revision=read_revision(config.model, self._path),
            settings=(
                ("g2p", f"hibari-tts {_find_version('hibari-tts')}"),
                ("rules", _RULES),
                ("speed", f"{config.speed:g}"),
                ("voices", self._styles.digest[:16]),
            ),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def voices(self) -> Sequence[Voice]:
        return [
            Voice(
                id=voice,
                language="en",
                gender="female" if voice[1] == "f" else "male",
                source=f"Kokoro-82M v1.0, {_ACCENTS[voice[0]]}",
                licence=_LICENCE,
            )
            for voice in self._styles.voices
        ]

    def synthesise(
        self, requests: Sequence[SpeechRequest], on_reply: Callable[[int, SpeechReply], None] | None = None
    ) -> list[SpeechReply | RowFault]:
        """Speak the requests.

        Row faults: `empty_text`, `text_too_long_to_speak` (above 510 symbols), `unsupported_language`.

        Raises:
            EngineSetupError: a voice is unknown, or the model cannot be opened.
            EngineError: the network failed.
        """
        for request in requests:
            if request.voice not in self._styles.voices:
                raise EngineSetupError(
                    f"Kokoro has no voice {request.voice!r}; it has {', '.join(self._styles.voices)}"
                )
        self._open()

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

    def _open(self) -> None:
        with self._lock:
            if self._session is None:
                self._session = open_onnx_session(self._path)

    def _speak(self, request: SpeechRequest) -> SpeechReply | RowFault:
        if request.language.split("-")[0] != "en":
            return RowFault("unsupported_language", f"Kokoro's voices here speak en, not {request.language}")
        phonemes = self._phonemise(request.text, request.voice)
        numbers = [self._symbols[symbol] for symbol in phonemes if symbol in self._symbols]
        if not any(symbol.isalpha() for symbol in phonemes):
            return RowFault("empty_text", f"nothing in {request.text[:40]!r} can be spoken")
        if len(numbers) > MAX_SYMBOLS:
            return RowFault("text_too_long_to_speak", f"{len(numbers)} phoneme symbols, {MAX_SYMBOLS} at most")
        speed, shift = vary_delivery(request.seed)
        row = min(max(len(numbers) - 1 + shift, 0), MAX_SYMBOLS - 1)
        feed = {
            "tokens": np.array([[0, *numbers, 0]], np.int64),
            "style": self._styles.read_row(request.voice, row)[None],
            "speed": np.array([self._config.speed * speed], np.float32),
        }
        try:
            (samples,) = self._session.run(["audio"], feed)
        except Exception as exc:  # onnxruntime raises types of its own
            raise EngineError(f"Kokoro failed on {request.text[:40]!r}: {str(exc).splitlines()[0][:160]}") from exc
        return SpeechReply(np.clip(samples.reshape(-1), -1, 1).astype(np.float32), SAMPLING_RATE)

    def _phonemise(self, text: str, voice: str) -> str:
        # The rules keep a cache and load one of their tables on demand; they are fast enough to take turns.
        with self._lock:
            accent = voice[0]
            if accent not in self._phonemisers:
                self._phonemisers[accent] = _open_phonemiser(british=accent == "b")
            phonemes: str = self._phonemisers[accent](cut_ellipsis(text))
        return phonemes


class VoiceStyles:
    """The style tensors of the voices, as factors."""

    def __init__(self, voices: tuple[str, ...], rows: Any, columns: Any, digest: str) -> None:
        self.voices = voices
        self.digest = digest
        self._index = {voice: i for i, voice in enumerate(voices)}
        self._rows = rows
        self._columns = columns

    def read_row(self, voice: str, row: int) -> npt.NDArray[np.float32]:
        """Return a style row, shape (256,), float32; `row` is in [0, 510)."""
        i = self._index[voice]
        style: npt.NDArray[np.float32] = self._rows[i, row].astype(np.float32) @ self._columns[i].astype(np.float32)
        return style


@cache
def load_styles() -> VoiceStyles:
    """Return the voices that ship with the package, made by `scripts/make_kokoro_voices.py`."""
    source = resources.files("bystander.tasks.engines").joinpath("data/kokoro_voices.npz")
    with source.open("rb") as handle:
        digest = hashlib.sha256(handle.read()).hexdigest()
        handle.seek(0)
        with np.load(handle) as data:
            return VoiceStyles(tuple(map(str, data["voices"])), data["rows"], data["columns"], digest)


@cache
def load_symbols() -> dict[str, int]:
    """Return Kokoro's phoneme symbols and their numbers."""
    source = resources.files("bystander.tasks.engines").joinpath("data/kokoro_symbols.json")
    symbols: dict[str, int] = json.loads(source.read_text("utf-8"))
    return symbols


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


def _open_phonemiser(british: bool) -> Any:
    try:
        from hibari.g2p import G2P
    except ImportError as exc:
        raise EngineSetupError("the package hibari-tts is missing; run: pip install hibari-tts") from exc
    return G2P(british=british)


def _find_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise EngineSetupError(f"the package {package} is missing; run: pip install {package}") from None
