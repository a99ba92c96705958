"""What a build must not share with others: queries, recordings, texts, pairs of voices and voices that they use."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

VoicePair = tuple[str, str]
"""Two voices in alphabetical order: who of them is the primary does not matter."""


def order_pair(one: str, other: str) -> VoicePair:
    """Return the pair of two voices."""
    return (one, other) if one <= other else (other, one)


class Exclusions(Protocol):
    """What other builds use. `digest` stands for all of it in fingerprints."""

    @property
    def digest(self) -> str: ...

    @property
    def pairs(self) -> AbstractSet[VoicePair]:
        """Pairs of voices that speak a row together."""
        ...

    @property
    def voices(self) -> AbstractSet[str]:
        """Voices that speak in a row, in whatever role."""
        ...

    def has_query(self, query_id: str) -> bool:
        """Whether a row was made of this query."""
        ...

    def has_text(self, text: str, language: str) -> bool:
        """Whether a text of the same words, as the text normaliser has them, is said in a row."""
        ...

    def has_recording(self, recording_id: str) -> bool:
        """Whether a row was made of this recording."""
        ...


@dataclass(frozen=True, slots=True)
class NoExclusions:
    """Nothing is taken."""

    digest: str = ""
    pairs: AbstractSet[VoicePair] = frozenset()
    voices: AbstractSet[str] = frozenset()

    def has_query(self, query_id: str) -> bool:  # noqa: ARG002
        return False

    def has_text(self, text: str, language: str) -> bool:  # noqa: ARG002
        return False

    def has_recording(self, recording_id: str) -> bool:  # noqa: ARG002
        return False


NO_EXCLUSIONS = NoExclusions()
