"""The marks that a build's files have in an object store, noted so that an unchanged rebuild need not fetch them all.

An object store gives each content of a file a mark of its own (an entity tag or a generation), which a listing tells. A
file with the size and mark that it had when it was put is still what was put. Files on a local disk have no such mark;
they are read and digested.
"""

from __future__ import annotations

import json

from bystander.schemas.errors import StorageError
from bystander.storage.filesystem import Store

VERSIONS_NAME = ".versions.json"
_FOLDERS = ("data", "rejects")

Versions = dict[str, tuple[int, str]]
"""Size in bytes and mark of each file."""


def note_versions(store: Store) -> None:
    """Note what a build's files are now, where they lie in an object store; to be called when all were just put."""
    if not store.is_local:
        store.write_bytes(VERSIONS_NAME, json.dumps(list_versions(store), sort_keys=True).encode())


def list_versions(store: Store) -> Versions:
    """Return what a build's files are now; nothing of a local store."""
    if store.is_local:
        return {}
    return {path: found for folder in _FOLDERS for path, found in store.list_versions(folder).items()}


def list_unchanged(store: Store) -> set[str]:
    """Return the files of a build that are certainly what was put when it was published."""
    if store.is_local:
        return set()
    try:
        noted = json.loads(store.read_bytes(VERSIONS_NAME))
        now = list_versions(store)
        return {path for path, (size, mark) in now.items() if mark and noted.get(path) == [size, mark]}
    except (StorageError, ValueError, AttributeError):
        return set()
