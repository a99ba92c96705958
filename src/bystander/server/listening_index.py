"""The state behind the listening page: every row and reject of a build, what it is filtered by, and its sounds."""

from __future__ import annotations

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
from bystander.schemas.row_sounds import Sound, list_sounds
from bystander.storage.placed_rows import PlacedRows, RowPlace

PAGE_ITEMS = 20
FindSounds = Callable[[Mapping[str, Any]], tuple[Sequence[Sound], str]]
"""From a rejected row to what can be heard of it, or to nothing and why."""
_NO_CLIP = "The row has no clip."


@dataclass(frozen=True, slots=True)
class IndexedItem:
    """A row or reject: its key in addresses, where it lies, and what it is found by."""

    key: str
    place: RowPlace
    facets: Mapping[str, str]
    find: str


class ListeningIndex:
    """Looks items up by their keys: the id of a row, `~<step>.<number>` of a reject. Threads may share it."""

    def __init__(self, rows: PlacedRows, find_sounds: FindSounds) -> None:
        self.rows = rows
        self.family: BuildFamily = _find_family(rows.manifest.kind)
        self._find_sounds = find_sounds
        items = []
        for place, row in rows.list():
            rejected = bool(row.get("reject_stage"))
            key = f"~{row['reject_stage']}.{place.number}" if rejected else str(row["id"])
            items.append(IndexedItem(key, place, list_facets(self.family, row), join_texts(row)))
        self.items = tuple(items)
        self._by_key = {item.key: item for item in items}
        self.menus: Sequence[FacetMenu] = list_menus(self.family, (item.facets for item in items))
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
        """Return an item in words and pictures; its sounds' addresses are `audio/<key>/<number>`."""
        row, sounds, silence = self._hear(item.key)
        placed = [(sound, f"/audio/{item.key}/{number}") for number, sound in enumerate(sounds)]
        return describe_item(self.family, row, item.key, placed, silence)

    def read_sound(self, key: str, number: int) -> bytes | None:
        """Return an encoded clip; None where there is no such item, or it has fewer sounds."""
        if key not in self._by_key:
            return None
        _, sounds, _ = self._hear(key)
        return sounds[number].audio if number < len(sounds) else None

    def _hear_anew(self, key: str) -> tuple[Mapping[str, Any], Sequence[Sound], str]:
        row = self.rows.read(self._by_key[key].place)
        if row.get("reject_stage"):
            sounds, silence = self._find_sounds(row)
        else:
            sounds, silence = list_sounds(row), _NO_CLIP
        return row, sounds, silence


def _find_family(kind: str) -> BuildFamily:
    if kind.startswith("sid"):
        return "sid"
    return "dyadic" if kind.startswith("dyadic") else "tpi"
