"""A bank of reference voices: real speakers whose recordings a zero-shot speech engine imitates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from bystander.schemas.engines import Samples, Voice


@runtime_checkable
class VoiceBank(Protocol):
    """Reference voices, one a speaker, each with the clip that stands for it."""

    @property
    def digest(self) -> str:
        """Digest of everything that decides how the voices sound: ids and reference clips."""
        ...

    @property
    def voices(self) -> Sequence[Voice]:
        """All voices, ordered by id."""
        ...

    def read_reference(self, voice: str) -> tuple[Samples, int]:
        """Return a voice's reference clip and its sampling rate in Hz.

        Raises:
            InputError: the bank has no such voice, or its clip cannot be read.
        """
        ...
