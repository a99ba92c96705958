"""Rows and rejects that a report plays, within its budget of bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from bystander.pages import clips
from bystander.pages.listening_items import BuildFamily, FacetMenu, ListeningItem, describe_item, list_menus
from bystander.schemas.row_sounds import Sound, list_sounds

_LEFT_OUT = "The clip is in the shards; it was left out to keep this file small."


@dataclass(frozen=True, slots=True)
class HeardReject:
    """A rejected row and what can be heard of it."""

    row: Mapping[str, Any]
    sounds: Sequence[Sound]
    silence: str = ""
    """Why nothing can be heard, where that is so."""


@dataclass(frozen=True, slots=True)
class ListeningSamples:
    """What the section to listen to shows."""

    items: Sequence[ListeningItem]
    menus: Sequence[FacetMenu]
    rows: int
    """Items that are rows of the build; the others were refused."""
    command: str
    """What plays all rows and rejects."""
    budget: str = field(default_factory=lambda: _say_budget())


def choose_listening_samples(
    family: BuildFamily, rows: pa.Table, rejects: Sequence[HeardReject], build: str
) -> ListeningSamples:
    """Return what a report plays.

    Args:
        family: of the build.
        rows: some of its rows with `audio`. Those beyond `clips.MOST_AUDIO_BYTES` are shown without their clip.
        rejects: some of its rejects, within `clips.MOST_REJECT_AUDIO_BYTES`.
        build: dataset and name of the build, for the command that plays all.
    """
    items = _embed(family, [(row, list_sounds(row), "") for row in rows.to_pylist()], "row", clips.MOST_AUDIO_BYTES)
    refused = [(one.row, one.sounds, one.silence) for one in rejects]
    items += _embed(family, refused, "reject", clips.MOST_REJECT_AUDIO_BYTES)
    menus = list_menus(family, [item.facets for item in items])
    return ListeningSamples(items, menus, len(rows), f"bystander listen STORE/{build.replace(' ', '')}")


def _embed(
    family: BuildFamily, rows: Sequence[tuple[Mapping[str, Any], Sequence[Sound], str]], name: str, most_bytes: int
) -> list[ListeningItem]:
    items, spent = [], 0
    for number, (row, sounds, silence) in enumerate(rows, 1):
        embedded = []
        for sound in sounds:
            spent += len(sound.audio)
            embedded.append((sound, clips.make_player(sound.audio) if spent <= most_bytes else ""))
        items.append(describe_item(family, row, f"{name}-{number}", embedded, silence or _LEFT_OUT))
    return items


def _say_budget() -> str:
    rows, rejects = (most // 1_000_000 for most in (clips.MOST_AUDIO_BYTES, clips.MOST_REJECT_AUDIO_BYTES))
    return f"{rows} MB of clips of rows and {rejects} MB of clips of rejects at most"
