"""Remembers which base parts the rows cut from a partition lie in, so that an unchanged rebuild cuts nothing anew.

Cutting makes many rows of one, which no stage does. A record is found by what the rows were cut from and how; it holds
while every one of its parts is there in full size.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from bystander.schemas.errors import StorageError
from bystander.storage.filesystem import Store
from bystander.storage.parts import PartRef

CUTS_FOLDER = "cache/cuts"


def find_cuts(store: Store, key: str) -> list[PartRef] | None:
    """Return the parts that were remembered under a key, or None if there is no record or a part is gone."""
    refs = read_cut_record(store, f"{CUTS_FOLDER}/{key}.json")
    if refs is None or not all(store.holds(ref.path, ref.bytes) for ref in refs):
        return None
    return refs


def remember_cuts(store: Store, key: str, refs: Sequence[PartRef]) -> None:
    """Remember parts under a key."""
    store.write_bytes(f"{CUTS_FOLDER}/{key}.json", json.dumps([asdict(ref) for ref in refs]).encode(), durable=False)


def read_cut_record(store: Store, path: str) -> list[PartRef] | None:
    """Return the parts that a record names, or None if it is missing or damaged."""
    try:
        return [PartRef(**ref) for ref in json.loads(store.read_bytes(path))]
    except (StorageError, ValueError, TypeError):
        return None
