"""Speech of many speakers in folders or tables: who there is, and which clips each has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bystander.schemas.identity import digest_json


@dataclass(frozen=True, slots=True)
class SourceClip:
    """A clip: its name within the source, a local path or fsspec URL, and its size in bytes."""

    name: str
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class SourceSpeaker:
    """A speaker of a source; what is large, the clips, is listed when it is the speaker's turn.

    `places` are folders, or files where each is a voice of its own, as addresses, and `subsets` the sub-set of each (""
    for none); a table has neither: its rows are known to its reader.
    """

    voice: str
    speaker: str
    subsets: tuple[str, ...] = ()
    gender: Literal["female", "male"] | None = None
    language: str | None = None
    places: tuple[str, ...] = ()


@dataclass(slots=True)
class SourceListing:
    """The speakers of a source, ordered by voice, and what is in it besides.

    `rejects` are files and rows of no speaker, a `BANK_REJECT` row each; `ignored` counts files that are no audio by
    their endings.
    """

    layout: str
    language: str
    licence: str
    name: str
    speakers: list[SourceSpeaker] = field(default_factory=list)
    rejects: list[dict[str, Any]] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)


def order_clips(clips: Sequence[SourceClip]) -> list[SourceClip]:
    """Return clips in an order that depends on their names alone and scatters them over books and sessions."""
    return sorted(clips, key=lambda clip: digest_json(["voices", clip.name]))


def name_voice(prefix: str, speaker: str, subset: str | None) -> str:
    """Return a voice's id. The sub-set is a part of its own, so that `a/b` of one and `b` of another never meet."""
    return f"{prefix}{subset}/{speaker}" if subset else f"{prefix}{speaker}"


def read_gender(value: Any) -> Literal["female", "male"] | None:
    """Return the gender that a corpus states, whatever it calls it; None where it is unknown or neither."""
    word = str(value).strip().casefold() if value is not None else ""
    if word in ("f", "female", "woman", "female_feminine", "w"):
        return "female"
    return "male" if word in ("m", "male", "man", "male_masculine") else None
