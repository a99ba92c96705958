"""From words as they are written to the phones of a language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.kaldi_gmm.path_search import Variants


@dataclass(frozen=True, slots=True)
class PronouncedWord:
    """The pronunciations of a word, the most likely first; not `in_vocabulary` where they were guessed."""

    variants: Variants
    in_vocabulary: bool = True


class Pronouncer(Protocol):
    """Pronounces the words of a language."""

    @property
    def version(self) -> str:
        """Packages and rules that decide the pronunciations."""
        ...

    @property
    def phones(self) -> tuple[str, ...]:
        """All phones that a pronunciation may hold, in a fixed order."""
        ...

    def pronounce(self, words: Sequence[str]) -> list[PronouncedWord | None]:
        """Return an entry a word of a text; None where nothing of it can be pronounced. Safe from several threads."""
        ...


PRONOUNCED_LANGUAGES = ("en", "zh")


def open_pronouncer(language: str) -> Pronouncer:
    """Return the pronouncer of `en` or `zh`.

    Raises:
        EngineSetupError: there is none of that language, or a package is missing.
    """
    if language == "en":
        from bystander.tasks.engines.kaldi_gmm.english import EnglishPronouncer

        return EnglishPronouncer()
    if language == "zh":
        from bystander.tasks.engines.kaldi_gmm.mandarin import MandarinPronouncer

        return MandarinPronouncer()
    raise EngineSetupError(f"kaldi_gmm: no pronunciations of language {language!r}; there are those of en and zh")
