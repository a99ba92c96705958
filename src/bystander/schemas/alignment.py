"""What a stage asks of a forced aligner: when each word of a known text is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from bystander.schemas.engines import EngineIdentity, RowFault, Samples


@dataclass(frozen=True, slots=True)
class AlignmentRequest:
    """Audio and the words said in it, as they are written: aligners fold case and strip punctuation themselves.

    `id` names the clip, for aligners that look their answer up in files of a run made elsewhere.
    """

    id: str
    samples: Samples
    sampling_rate: int
    words: tuple[str, ...]
    language: str = "en"


@dataclass(frozen=True, slots=True)
class AlignedPhone:
    """A phone in the aligner's own alphabet; times in seconds from the start of the clip."""

    phone: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """One word of the request. `phones` are in order, the first starts with the word; empty where none are known.

    `score` is the aligner's confidence, on a scale of its own where higher is better; None where it has none.
    `in_vocabulary` is False for a word whose pronunciation was guessed by rules.
    """

    word: str
    start_s: float
    end_s: float
    score: float | None = None
    phones: tuple[AlignedPhone, ...] = ()
    in_vocabulary: bool = True


@dataclass(frozen=True, slots=True)
class AlignmentReply:
    """Exactly one entry a word of the request, in order: starts do not fall, ends lie after starts, all in the clip.

    Times have the aligner's constant bias taken out. `is_fallback` says that the words were not force-aligned: they
    are the times that a recogniser gave, matched to the text. `aligner` names the aligner that was chosen for this
    request, where one stands for several; None means the one that was asked.
    """

    words: tuple[AlignedWord, ...]
    score: float | None = None
    is_fallback: bool = False
    aligner: str | None = None


ALIGNER_REASONS = frozenset(
    {
        "no_alignment",  # the aligner found no path: silence, noise, cut audio, or another text
        "low_alignment_score",  # it found one that it does not believe in
        "alignment_incomplete",  # words are missing, blank or out of order in what it returned
        "language_not_aligned",  # it has no model of this language
        "no_pronunciation",  # a word has no letter that can be pronounced
        "audio_too_short",  # fewer frames than the words need
    }
)
"""Reasons of the `RowFault`s that an aligner may answer with."""


@runtime_checkable
class Aligner(Protocol):
    """A forced aligner."""

    @property
    def identity(self) -> EngineIdentity: ...

    @property
    def languages(self) -> frozenset[str]:
        """Languages that it has models of, as primary subtags (`en`, `zh`)."""
        ...

    def align(self, requests: Sequence[AlignmentRequest]) -> list[AlignmentReply | RowFault]: ...

    def close(self) -> None: ...
