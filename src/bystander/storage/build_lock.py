"""Keeps two processes from making the same build at once, and anyone from cleaning a store in which one is made."""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import socket
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from functools import partial

from bystander.schemas.errors import BuildError, StorageError
from bystander.storage.filesystem import Store
from bystander.storage.leases import Lease, find_holder, hold_lease, is_let_go, list_holders

LOCKS_FOLDER = "cache/locks"
_RELEASE = "/.release"
"""Stands for a build's name in the lock of a dataset's releases; no build is called so."""
_STORE_LOCK = "cache/store.lock"
"""Held by every build, shared; by whoever cleans the store, alone."""
_LEASES_FOLDER = "cache/leases"
_BUILD_LEASES = f"{_LEASES_FOLDER}/builds"
_RELEASE_LEASES = f"{_LEASES_FOLDER}/releases"
_CLEANING_LEASE = f"{_LEASES_FOLDER}/cleaning"


class BuildLock:
    """A build's lock while it is held. A local one cannot be lost; a lease can, see `leases`."""

    def __init__(self, lease: Lease | None = None) -> None:
        self._lease = lease

    def assert_held(self) -> None:
        """Do nothing if it is still held. To be called before a build is published.

        Raises:
            BuildError: another process has taken over, since this one was silent for too long.
        """
        if self._lease is not None:
            self._lease.assert_held()


@contextlib.contextmanager
def lock_build(store: Store, dataset: str, build: str) -> Iterator[BuildLock]:
    """Hold the lock of a build while the block runs.

    In a local store the lock is the operating system's (`flock`): it ends with the process that holds it, however that
    dies, so there are no stale locks. In a remote store it is a lease, see `leases`; one that a dead process left is
    taken over. Systems without `flock`, and remote stores without conditional puts, have none; there, whoever
    publishes last wins.

    Raises:
        BuildError: another process holds it, or cleans the store; the message names the process.
        StorageError: the lock cannot be written.
    """

    def refuse(holder: str) -> str:
        return (
            f"build {dataset}/{build} in {store.uri} is being made by {holder}; wait for it, or give this build "
            "another name"
        )

    lease, file = f"{_BUILD_LEASES}/{dataset}/{build}", store.path(LOCKS_FOLDER, dataset, f"{build}.lock")
    with _lock_beside_cleaning(store, lease, file, refuse) as lock:
        yield lock


@contextlib.contextmanager
def lock_dataset(store: Store, dataset: str) -> Iterator[BuildLock]:
    """Hold the lock of a dataset's releases while the block runs: one process at a time makes and points to one.

    Builds have their own lock besides. It is kept as `lock_build` keeps its own.

    Raises:
        BuildError: another process holds it, or cleans the store; the message names the process.
        StorageError: the lock cannot be written.
    """

    def refuse(holder: str) -> str:
        return f"a release of {dataset} in {store.uri} is being made by {holder}; wait for it"

    lease, file = f"{_RELEASE_LEASES}/{dataset}", store.path(LOCKS_FOLDER, f"{dataset}{_RELEASE}.lock")
    with _lock_beside_cleaning(store, lease, file, refuse) as lock:
        yield lock


@contextlib.contextmanager
def _lock_beside_cleaning(
    store: Store, lease_name: str, file: str, refuse: Callable[[str], str]
) -> Iterator[BuildLock]:
    """Hold a lock, the lease of this name in a remote store, this file in a local one, while nobody cleans the store.

    `refuse` makes the message from who holds it already.
    """

    def refuse_cleaning(holder: str) -> str:
        return f"store {store.uri} is being cleaned by {holder}; wait for it"

    if not store.is_local:
        # Each first says that it is there and then looks for the other, so a build and a cleaning cannot both go on.
        with hold_lease(store, lease_name, refuse) as lease:
            if (holder := find_holder(store, _CLEANING_LEASE)) is not None:
                raise BuildError(refuse_cleaning(holder))
            yield BuildLock(lease)
        return
    with _hold(store, _STORE_LOCK, refuse_cleaning, True), _hold(store, file, refuse):
        yield BuildLock()


@contextlib.contextmanager
def lock_store(store: Store) -> Iterator[None]:
    """Keep every build from running in a store while the block runs; where there are no locks, do nothing.

    Raises:
        BuildError: a build runs, or another process cleans the store; the message names the process.
        StorageError: the lock cannot be written.
    """
    if not store.is_local:
        with hold_lease(store, _CLEANING_LEASE, lambda holder: f"store {store.uri} is being cleaned by {holder}"):
            for build, holder in list_holders(store, _BUILD_LEASES):
                raise BuildError(f"build {build} is being made by {holder}; wait for it")
            for dataset, holder in list_holders(store, _RELEASE_LEASES):
                raise BuildError(f"a release of {dataset} is being made by {holder}; wait for it")
            yield
        return

    def refuse(holder: str) -> str:
        for path in store.list(LOCKS_FOLDER):
            name = path.removeprefix(f"{LOCKS_FOLDER}/").removesuffix(".lock")
            made = f"a release of {name.removesuffix(_RELEASE)}" if name.endswith(_RELEASE) else f"build {name}"
            # Raises what names the process, if this is what is being made.
            with _hold(store, path, partial("{} is being made by {}; wait for it".format, made), shared=True):
                pass
        return f"store {store.uri} is being cleaned by {holder}; wait for it"

    with _hold(store, _STORE_LOCK, refuse):
        yield


def list_running_builds(store: Store) -> set[str]:
    """Return the builds, `<dataset>/<build>`, that some process makes now; none where there are no locks."""
    if not store.is_local:
        return {build for build, _ in list_holders(store, _BUILD_LEASES)}
    return {build for path, build in _list_lock_files(store) if _is_held(store, path)}


def list_known_locks(store: Store) -> list[str]:
    """Return every build, `<dataset>/<build>`, that was ever locked here, and whose lock was not removed."""
    if store.is_local:
        return [build for _, build in _list_lock_files(store)]
    return [folder.removeprefix(f"{_BUILD_LEASES}/") for folder in _list_lease_folders(store)]


def find_stale_locks(store: Store, builds: AbstractSet[str]) -> dict[str, int]:
    """Return the lock files of builds that are none of these, with their sizes in bytes.

    To be removed by who holds the lock of the store, see `lock_store`. In a remote store these are the notes of leases
    that were let go: of another its holder may still come back, and must not find its number free.
    """
    if store.is_local:
        sizes = store.list_sizes(LOCKS_FOLDER)
        gone = [path for path, build in _list_lock_files(store) if build not in builds]
        return {path: sizes[path] for path in gone if not _is_held(store, path)}
    sizes = store.list_sizes(_BUILD_LEASES)
    folders = [one for one in _list_lease_folders(store) if one.removeprefix(f"{_BUILD_LEASES}/") not in builds]
    let_go = [folder for folder in folders if is_let_go(store, folder)]
    return {path: size for path, size in sizes.items() if posixpath.dirname(path) in let_go}


def _list_lock_files(store: Store) -> list[tuple[str, str]]:
    """Return the lock files of builds, each with the build's dataset and name."""
    paths = [path for path in store.list(LOCKS_FOLDER) if path.endswith(".lock")]
    named = [(path, path.removeprefix(f"{LOCKS_FOLDER}/").removesuffix(".lock")) for path in paths]
    return [(path, build) for path, build in named if not build.endswith("/.release")]


def _list_lease_folders(store: Store) -> list[str]:
    return sorted({posixpath.dirname(path) for path in store.list(_BUILD_LEASES)})


def _is_held(store: Store, path: str) -> bool:
    try:
        with _hold(store, path, lambda holder: holder, shared=True):
            return False
    except BuildError:
        return True


@contextlib.contextmanager
def _hold(store: Store, name: str, refuse: Callable[[str], str], shared: bool = False) -> Iterator[None]:
    """Hold a lock file while the block runs; `refuse` makes the message from who holds it."""
    path = store.local_path(name)
    try:
        import fcntl
    except ImportError:
        path = None
    if path is None:
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("a+")
    except OSError as exc:
        raise StorageError(f"{path}: cannot be written ({exc.strerror})") from exc
    with handle:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            raise BuildError(refuse(_name_holder(handle.read()))) from None
        except OSError:
            pass  # a filesystem without locks
        if not shared:
            handle.truncate(0)
            handle.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
            handle.flush()
        yield


def _name_holder(text: str) -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        holder = json.loads(text)
        return f"process {holder['pid']} on {holder['host']}"
    return "another process"
