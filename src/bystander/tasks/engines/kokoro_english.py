"""English pronounced by hibari-tts' rules, in Kokoro's symbols."""

from __future__ import annotations

from typing import Any

from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.kokoro_words import Pronunciation, locate_words


class EnglishPronouncer:
    """American or British English. Not for several threads at once: the rules load tables on demand."""

    def __init__(self, british: bool) -> None:
        """Load the rules.

        Raises:
            EngineSetupError: hibari-tts is missing.
        """
        try:
            from hibari.g2p import G2P
            from hibari.g2p.normalize import normalize
        except ImportError as exc:
            raise EngineSetupError("the package hibari-tts is missing; run: pip install hibari-tts") from exc
        self._rules: Any = G2P(british=british)
        self._normalise: Any = normalize

    def transcribe(self, text: str) -> str:
        """Return the symbols of a text."""
        symbols: str = self._rules(text)
        return symbols

    def pronounce(self, text: str) -> Pronunciation:
        """Return the symbols of a text, those of `transcribe`, and which of them are whose."""
        symbols = self.transcribe(text)
        tokens = self._rules.phonemize_tokens(self._rules.tokenize(self._normalise(text)))
        spans: list[tuple[int, int, int, int]] = []
        spoken_text, joined = "", ""
        for token in tokens:
            start, first = len(spoken_text), len(joined)
            spoken_text += token.text
            joined += token.phonemes or ""
            spans.append((start, len(spoken_text), first, len(joined)))
            if token.whitespace:
                spoken_text += " "
                joined += " "
        if joined.rstrip() != symbols:
            return Pronunciation(symbols, None)
        return Pronunciation(symbols, locate_words(text, spoken_text, symbols, spans))
