"""Remembers which published files were seen to match their checksums, so that an unchanged rebuild need not read them.

What is remembered is a stamp of the file as the filesystem has it (size, times, ETag), like the index of a version
control system. A file that was written again is read and checked; bits that flip in a file whose times stay are for
`bystander verify`, which reads everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from bystander.schemas.errors import StorageError
from bystander.storage.build_manifest import FileInfo
from bystander.storage.filesystem import Store

STAMPS_FOLDER = "cache/published"


def stamp_files(store: Store, dataset: str, build: str, files: Iterable[FileInfo]) -> None:
    """Remember that files of a build were just written, or read, and match their checksums."""
    folder = store.child(dataset, build)
    stamps = {info.file: [folder.stamp(info.file), info.sha256] for info in files}
    data = json.dumps(stamps, sort_keys=True).encode()
    store.write_bytes(stamps_path(store, dataset, build), data, durable=False)


def are_whole(store: Store, dataset: str, build: str, files: Iterable[FileInfo]) -> bool:
    """Return whether all files of a build match their checksums, reading only those written since they were stamped.

    Raises:
        StorageError: a file is missing, or cannot be read.
    """
    folder = store.child(dataset, build)
    known = _read_stamps(store, dataset, build)
    listed = list(files)
    unseen = [info for info in listed if known.get(info.file) != [folder.stamp(info.file), info.sha256]]
    for info in unseen:
        if folder.size(info.file) != info.bytes or folder.sha256(info.file) != info.sha256:
            return False
    if unseen:
        stamp_files(store, dataset, build, listed)
    return True


def _read_stamps(store: Store, dataset: str, build: str) -> dict[str, list[str]]:
    try:
        stamps = json.loads(store.read_bytes(stamps_path(store, dataset, build)))
    except (StorageError, ValueError):
        return {}
    return stamps if isinstance(stamps, dict) else {}


def forget_stamps(store: Store, dataset: str, build: str) -> None:
    """Have all files of a build read the next time that it is asked whether they are whole."""
    store.remove(stamps_path(store, dataset, build))


def stamps_path(store: Store, dataset: str, build: str) -> str:
    """Return where the stamps of a build lie."""
    return store.path(STAMPS_FOLDER, dataset, f"{build}.json")
