"""The voices that ship with the package, and the symbols that Kokoro reads."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib import resources
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_FILES: Final = {"en": "kokoro_voices.npz", "zh": "kokoro_voices_zh.npz"}
ACCENTS: Final = {"a": "American English", "b": "British English", "z": "Mandarin"}
"""By the first letter of a voice's name."""


class VoiceStyles:
    """The style tensors of voices, as factors."""

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
def load_styles(language: str = "en") -> VoiceStyles:
    """Return a language's voices that ship with the package, made by `scripts/make_kokoro_voices.py`.

    Raises:
        KeyError: no voice speaks the language.
    """
    source = resources.files("bystander.tasks.engines").joinpath(f"data/{_FILES[language]}")
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
