"""What of a store no kept build refers to, and its removal: builds, what is left of stopped ones, parts, locks.

Nothing goes that is not known to be ours. A build loses its manifest first, so one that is half removed is unfinished,
which the next collection sees, and never looks like a build. Then go its files, what is recorded of it, and at last the
parts that nothing uses any more; so whoever kills a collection need only repeat it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bystander.schemas.errors import InputError
from bystander.storage.build_lock import LOCKS_FOLDER, find_stale_locks, list_running_builds, lock_store
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.clean_cache import (
    CacheContent,
    has_cache,
    inspect_cache,
    remove_calls,
    remove_unused_parts,
)
from bystander.storage.file_stamps import stamps_path
from bystander.storage.filesystem import Store
from bystander.storage.kept_builds import KEEP_ALL, KeepRules, Verdict, judge_builds
from bystander.storage.part_use import record_path
from bystander.storage.releases import read_latest
from bystander.storage.stored_builds import StoredBuild, list_stored_builds
from bystander.storage.training_manifest import measure_checkpoints


@dataclass(frozen=True, slots=True)
class Garbage:
    """What would go. Sizes are in bytes."""

    verdicts: tuple[Verdict, ...]
    """On every build of the store."""
    cache: CacheContent | None
    """The caches as they are without the builds that go; None where there are none."""
    locks: dict[str, int]
    """Lock files of builds that are not there, or go."""
    calls: bool
    """Whether the call cache goes too."""
    running: tuple[str, ...] = ()
    """Builds that processes make now. Which parts they use is not known yet, so none goes."""
    checkpoints: dict[str, int] = field(default_factory=dict)
    """Sizes of the checkpoints of unfinished training runs, by name. They stay."""

    @property
    def builds(self) -> list[Verdict]:
        """The builds that go."""
        return [verdict for verdict in self.verdicts if verdict.goes]

    @property
    def parts_are_known(self) -> bool:
        """Whether it is known of every kept build which parts it uses; else all parts stay."""
        return self.cache is not None and not self.cache.unrecorded and not self.running

    @property
    def parts_bytes(self) -> int:
        """Size of the parts that go."""
        return self.cache.unused_bytes if self.cache is not None and self.parts_are_known else 0

    @property
    def calls_bytes(self) -> int:
        """Size of the calls that go."""
        return self.cache.calls.bytes if self.calls and self.cache is not None and self.cache.calls is not None else 0

    @property
    def bytes(self) -> int:
        """Size of all that goes."""
        builds = sum(verdict.build.bytes for verdict in self.builds)
        return builds + self.parts_bytes + self.calls_bytes + sum(self.locks.values())

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to remove."""
        parts = self.cache is not None and self.parts_are_known and bool(self.cache.unused_paths)
        calls = self.calls and self.cache is not None and self.cache.calls is not None
        return not (self.builds or parts or calls or self.locks)


def find_garbage(store: Store, rules: KeepRules = KEEP_ALL, calls: bool = False) -> Garbage:
    """Look through a store; nothing is changed.

    Args:
        store: the store that builds were written to.
        rules: which builds to keep.
        calls: whether the call cache goes too.

    Raises:
        InputError: there is no store at this place, or a rule names what is not there or must stay.
        BuildError: the pointer to a dataset's latest release is damaged.
        StorageError: something cannot be listed.
    """
    if not store.exists("") and not has_cache(store):
        raise InputError(f"{store.uri}: there is no such store; name the one that builds were written to (--out)")
    builds = list_stored_builds(store)
    if not builds and not has_cache(store):
        raise InputError(f"{store.uri}: holds neither builds nor a cache; name the store that builds were written to")
    latest = {dataset: read_latest(store, dataset) for dataset in dict.fromkeys(one.dataset for one in builds)}
    verdicts = judge_builds(builds, latest, rules)
    going = {verdict.build.name for verdict in verdicts if verdict.goes}
    cache = inspect_cache(store, going) if has_cache(store) else None
    staying = {verdict.build.name for verdict in verdicts if not verdict.goes}
    running = tuple(sorted(list_running_builds(store)))
    return Garbage(verdicts, cache, find_stale_locks(store, staying), calls, running, measure_checkpoints(store))


def collect_garbage(store: Store, rules: KeepRules = KEEP_ALL, calls: bool = False) -> Garbage:
    """Remove what `find_garbage` finds, and return it, while no build runs and none can start.

    Raises:
        InputError: as `find_garbage`.
        BuildError: a build is being made; or a pointer is damaged.
        StorageError: something cannot be removed.
    """
    find_garbage(store, rules, calls)  # what is asked for wrongly leaves no lock file
    with lock_store(store):
        garbage = find_garbage(store, rules, calls)
        for verdict in garbage.builds:
            _remove_build(store, verdict.build)
        if garbage.cache is not None and garbage.parts_are_known:
            remove_unused_parts(store, garbage.cache)
        if garbage.calls_bytes and garbage.cache is not None:
            remove_calls(garbage.cache)
        for path in garbage.locks:
            store.remove(path)
        _remove_empty_lock_folders(store)
    return garbage


def _remove_build(store: Store, build: StoredBuild) -> None:
    """Remove a build: its manifest, its other files, and what is recorded of it."""
    store.remove(f"{build.name}/{MANIFEST_NAME}")
    if build.foreign:
        for path in build.files:
            store.remove(path)
    else:
        store.remove_temporaries(build.name)
        store.remove(build.name, recursive=True)
    for path in (record_path(store, build.dataset, build.build), stamps_path(store, build.dataset, build.build)):
        store.remove(path)


def _remove_empty_lock_folders(store: Store) -> None:
    """Remove the folders of datasets of which no lock is left; object stores have no folders."""
    for dataset in store.list_folders(LOCKS_FOLDER) if store.is_local else ():
        if not store.list(f"{LOCKS_FOLDER}/{dataset}"):
            store.remove(f"{LOCKS_FOLDER}/{dataset}", recursive=True)
