"""How big the caches of a store are, what of them no finished build uses, and their removal.

Only what lies in the store's `cache` folder, and the call cache of a remote store, is ever removed: a cache can be made
again, at the price of time and calls. Finished builds are read, never touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from bystander.schemas.errors import BuildError, InputError, StorageError
from bystander.storage.build_lock import lock_store
from bystander.storage.call_cache import SqliteCallCache, locate_call_cache
from bystander.storage.cut_records import CUTS_FOLDER, read_cut_record
from bystander.storage.file_stamps import STAMPS_FOLDER, stamps_path
from bystander.storage.filesystem import Store
from bystander.storage.part_use import (
    BASES_FOLDER,
    RECORDS_FOLDER,
    PartUse,
    list_finished_builds,
    read_part_use,
    record_path,
)
from bystander.storage.stage_results import STAGES_FOLDER, read_input

_FOLDERS = (STAGES_FOLDER, BASES_FOLDER, RECORDS_FOLDER, STAMPS_FOLDER, CUTS_FOLDER)


@dataclass(slots=True)
class Amount:
    """Things of one kind, and their bytes in all."""

    count: int = 0
    bytes: int = 0

    def add(self, size: int, count: int = 1) -> None:
        """Count more."""
        self.count += count
        self.bytes += size


@dataclass(frozen=True, slots=True)
class CacheContent:
    """What a store's caches hold.

    A part is a stage's result or the rows that a partition starts with. `used` and `unused` count parts by stage (the
    latter kind as `bases`): those of finished builds, and the others; and as `records` what says so. `leftovers` are
    records of builds that are gone, notes on results that are, and what killed writers left behind. `calls` is None
    where there is no call cache.
    """

    builds: tuple[tuple[str, str], ...]
    unrecorded: tuple[str, ...]
    """Finished builds of which it is not known what they use."""
    used: dict[str, Amount]
    unused: dict[str, Amount]
    leftovers: Amount
    calls: Amount | None
    calls_path: Path
    unused_paths: tuple[str, ...]
    """Folders of results and single files."""

    @property
    def parts_bytes(self) -> int:
        return sum(amount.bytes for amount in (*self.used.values(), *self.unused.values(), self.leftovers))

    @property
    def unused_bytes(self) -> int:
        return sum(amount.bytes for amount in self.unused.values()) + self.leftovers.bytes


def inspect_cache(store: Store, without: AbstractSet[str] = frozenset()) -> CacheContent:
    """Look through a store's caches; nothing is changed.

    Args:
        store: whose caches.
        without: builds, `<dataset>/<build>`, that count as gone.

    Raises:
        InputError: there is no cache at this place.
        StorageError: it cannot be listed.
    """
    calls_path = locate_call_cache(store)
    if not has_cache(store):
        raise InputError(f"{store.uri}: holds no cache; name the store that builds were written to (--out)")
    builds = [build for build in list_finished_builds(store) if "/".join(build) not in without]
    uses = {build: read_part_use(store, *build) for build in builds}
    use = PartUse()
    for known in uses.values():
        use |= known or PartUse()
    used: dict[str, Amount] = {}
    unused: dict[str, Amount] = {}
    leftovers = Amount()
    paths: set[str] = set()

    def drop(path: str, size: int) -> None:
        leftovers.add(size)
        paths.add(path)

    results: dict[str, Amount] = {}
    stored = store.list_sizes(STAGES_FOLDER)
    notes = [path for path in stored if path.split("/")[-2] == "inputs"]
    inputs = dict(zip(notes, store.map(lambda path: read_input(store, path), notes), strict=True))
    for path, size in stored.items():
        stage, _, rest = path.removeprefix(f"{STAGES_FOLDER}/").partition("/")
        name, _, file = rest.partition("/")
        if not file:
            continue  # not of our making
        folder = f"{STAGES_FOLDER}/{stage}/{name}"
        if name != "inputs":
            results.setdefault(folder, Amount(1)).add(size, 0)
        elif f"{STAGES_FOLDER}/{stage}/{inputs[path]}" in use.results:
            used.setdefault(stage, Amount()).add(size, 0)
        else:
            drop(path, size)
    for folder, amount in results.items():
        stage = folder.split("/")[-2]
        (used if folder in use.results else unused).setdefault(stage, Amount()).add(amount.bytes)
        if folder not in use.results:
            paths.add(folder)
    for path, size in store.list_sizes(BASES_FOLDER).items():
        (used if path in use.bases else unused).setdefault("bases", Amount()).add(size)
        if path not in use.bases:
            paths.add(path)
    for path, size in store.list_sizes(CUTS_FOLDER).items():
        refs = read_cut_record(store, path)
        if refs is not None and all(ref.path in use.bases for ref in refs):
            used.setdefault("records", Amount()).add(size)
        else:
            drop(path, size)
    records = {path for build in builds for path in (record_path(store, *build), stamps_path(store, *build))}
    for folder in (RECORDS_FOLDER, STAMPS_FOLDER):
        for path, size in store.list_sizes(folder).items():
            if path in records:
                used.setdefault("records", Amount()).add(size)
            else:
                drop(path, size)
    for path, size in store.list_sizes("cache", temporary=True).items():
        drop(path, size)
    return CacheContent(
        builds=tuple(builds),
        unrecorded=tuple("/".join(build) for build, known in uses.items() if known is None),
        used=dict(sorted(used.items())),
        unused=dict(sorted(unused.items())),
        leftovers=leftovers,
        calls=_measure_calls(calls_path),
        calls_path=calls_path,
        unused_paths=tuple(sorted(paths)),
    )


def has_cache(store: Store) -> bool:
    """Return whether there is anything at all that builds keep for their next run."""
    return store.exists("cache") or locate_call_cache(store).exists()


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What to remove: parts that no finished build uses, all parts, the call cache."""

    unused_parts: bool = True
    all_parts: bool = False
    calls: bool = False

    def measure(self, content: CacheContent) -> int:
        """Return the bytes that it frees."""
        parts = content.parts_bytes if self.all_parts else content.unused_bytes if self.unused_parts else 0
        return parts + (content.calls.bytes if self.calls and content.calls else 0)


def clean_cache(store: Store, cleaning: Cleaning) -> int:
    """Remove what is asked for and return the bytes freed, while no build runs and none can start.

    A cleaning that is killed may be repeated, and a build makes again what it then misses.

    Raises:
        InputError: there is no cache at this place.
        BuildError: a build holds its lock, or it is not known what a finished build uses.
        StorageError: something cannot be removed.
    """
    inspect_cache(store)  # where there is no cache, no lock file is made either
    with lock_store(store):
        content = inspect_cache(store)
        freed = cleaning.measure(content)
        if cleaning.all_parts:
            for folder in _FOLDERS:
                store.remove(folder, recursive=True)
            store.remove_temporaries("cache")
        elif cleaning.unused_parts:
            if content.unrecorded:
                raise BuildError(
                    f"{store.uri}: it was not recorded which parts {', '.join(content.unrecorded)} was made from; run "
                    "the build again, which makes no calls, or remove all parts with --all-parts"
                )
            remove_unused_parts(store, content)
        if cleaning.calls:
            remove_calls(content)
    return freed


def remove_unused_parts(store: Store, content: CacheContent) -> None:
    """Remove the parts that no finished build uses; to be called under the lock of the store."""
    for path in content.unused_paths:
        store.remove(path, recursive=True)


def remove_calls(content: CacheContent) -> None:
    """Remove the call cache; to be called under the lock of the store."""
    try:
        for file in reversed(_list_call_files(content.calls_path)):
            file.unlink()
    except OSError as exc:
        raise StorageError(f"{exc.filename}: cannot be removed ({exc.strerror})") from exc


def _list_call_files(path: Path) -> list[Path]:
    return [file for ending in ("", "-wal", "-shm") if (file := path.with_name(path.name + ending)).exists()]


def _measure_calls(path: Path) -> Amount | None:
    if not path.exists():
        return None
    size = sum(file.stat().st_size for file in _list_call_files(path))
    with contextlib.suppress(StorageError), contextlib.closing(SqliteCallCache(path)) as cache:
        return Amount(len(cache), size)
    return Amount(0, size)  # damaged: still to be removed
