"""The state behind the listening page: every row and reject of a build, what it is filtered by, and its sounds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bystander.pages.listening_items import (
    BuildFamily,
    FacetMenu,
    ListeningItem,
    describe_item,
    join_texts,
    list_facets,
    list_menus,
)
from bystander.schemas.errors import BystanderError
from bystander.schemas.identity import digest_json
from bystander.schemas.row_sounds import Sound, list_sounds
from bystander.storage.placed_rows import PlacedRows, RowPlace

PAGE_ITEMS = 20
FindSounds = Callable[[Mapping[str, Any]], tuple[Sequence[Sound], str]]
"""From a rejected row to what can be heard of it, or to nothing and why."""
_NO_CLIP = "The row has no clip."


@dataclass(frozen=True, slots=True)
class IndexedItem:
    """A row or reject: its position in the build, where it lies, and what it is found by."""

    position: int
    place: RowPlace
    facets: Mapping[str, str]
    find: str


class ListeningIndex:
    """Rows and rejects of a build by their positions: rows first, in the order of the shards. Threads may share it.

    Ids stand in no address: they may be of any letters, and rejects of early stages have none.
    """

    def __init__(self, rows: PlacedRows, find_sounds: FindSounds) -> None:
        """Read all columns of the build but those with audio.

        Raises:
            StorageError: a file of it is missing or damaged.
        """
        self.rows = rows
        self.family: BuildFamily = _find_family(rows.manifest.kind)
        self.version: str = digest_json(rows.manifest.model_dump(mode="json"))[:12]
        """Stands in the addresses of sounds: browsers keep them, and the next build may be served at the same port."""
        self._find_sounds = find_sounds
        self.items: Sequence[IndexedItem] = tuple(
            IndexedItem(position, place, _share(list_facets(self.family, row)), join_texts(row))
            for position, (place, row) in enumerate(rows.list())
        )
        self.menus: Sequence[FacetMenu] = list_menus(self.family, (item.facets for item in self.items))
        self._hear = lru_cache(2 * PAGE_ITEMS)(self._hear_anew)

    def select(self, facets: Mapping[str, str], text: str = "") -> list[IndexedItem]:
        """Return the items with these values that hold every word of a text, in the build's order, rejects last."""
        words = text.casefold().split()
        return [
            item
            for item in self.items
            if all(item.facets.get(name) == value for name, value in facets.items())
            and all(word in item.find for word in words)
        ]

    def describe(self, item: IndexedItem) -> ListeningItem:
        """Return an item in words and pictures; its sounds' addresses are `/audio/<version>/<position>/<number>`.

        Of an item that cannot be read no more than why: the others on its page can be heard all the same.
        """
        key = f"{item.facets['state']}-{item.position + 1}"
        try:
            row, sounds, silence = self._hear(item.position)
        except BystanderError as exc:
            return describe_item(self.family, {}, key, (), str(exc))
        base = f"/audio/{self.version}/{item.position}"
        placed = [(sound, f"{base}/{number}") for number, sound in enumerate(sounds)]
        return describe_item(self.family, row, key, placed, silence)

    def read_sound(self, version: str, position: int, number: int) -> bytes | None:
        """Return an encoded clip; None where this build has no such item, or it has fewer sounds.

        Raises:
            StorageError: the item cannot be read.
        """
        if version != self.version or not 0 <= position < len(self.items):
            return None
        _, sounds, _ = self._hear(position)
        return sounds[number].audio if 0 <= number < len(sounds) else None

    def _hear_anew(self, position: int) -> tuple[Mapping[str, Any], Sequence[Sound], str]:
        row = self.rows.read(self.items[position].place)
        if row.get("reject_stage"):
            sounds, silence = self._find_sounds(row)
        else:
            sounds, silence = list_sounds(row), _NO_CLIP
        return row, sounds, silence


def _share(facets: Mapping[str, str]) -> dict[str, str]:
    """Return facets whose equal values are one string in memory, of all items of a build together."""
    return {name: sys.intern(value) for name, value in facets.items()}


def _find_family(kind: str) -> BuildFamily:
    if kind.startswith("sid"):
        return "sid"
    return "dyadic" if kind.startswith("dyadic") else "tpi"
