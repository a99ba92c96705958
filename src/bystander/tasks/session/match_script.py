"""Which take of a sheet a text is of."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from bystander.schemas.recording_session import SessionSheet, Take
from bystander.tasks.metrics.text_normaliser import normalise_text


class ScriptMatcher:
    """Compares texts with the scripts of some takes of a sheet, all if none are named."""

    def __init__(self, sheet: SessionSheet, takes: Sequence[Take] | None = None) -> None:
        self._sheet = sheet
        self.takes = tuple(sheet.takes if takes is None else takes)
        self._language = str(sheet.takes[0].row["language"])
        self._scripts = [normalise_text(take.transcript, self._language).split() for take in self.takes]

    def match(self, text: str) -> tuple[float, Take]:
        """Return the take whose lines a text is most like, and the share of words that they have in common, in order.

        The share is twice the common words over the words of both: in [0, 1]. Of equals, the first take.
        """
        words = normalise_text(text, self._language).split()
        scores = [
            (SequenceMatcher(None, words, script, autojunk=False).ratio(), -at)
            for at, script in enumerate(self._scripts)
        ]
        score, place = max(scores)
        return score, self.takes[-place]

    def only(self, take: Take) -> ScriptMatcher:
        """Return a matcher of one take alone."""
        return ScriptMatcher(self._sheet, [take])
