"""Keeps two processes from making the same build at once, and anyone from cleaning a store in which one is made."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from functools import partial

from bystander.schemas.errors import BuildError, StorageError
from bystander.storage.filesystem import Store
from bystander.storage.leases import Lease, find_holder, hold_lease, list_holders

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

    def refuse_cleaning(holder: str) -> str:
        return f"store {store.uri} is being cleaned by {holder}; wait for it"

    if not store.is_local:
        # Each first says that it is there and then looks for the other, so a build and a cleaning cannot both go on.
        with hold_lease(store, f"{_BUILD_LEASES}/{dataset}/{build}", refuse) as lease:
            if (holder := find_holder(store, _CLEANING_LEASE)) is not None:
                raise BuildError(refuse_cleaning(holder))
            yield BuildLock(lease)
        return
    with (
        _hold(store, _STORE_LOCK, refuse_cleaning, True),
        _hold(store, store.path(LOCKS_FOLDER, dataset, f"{build}.lock"), refuse),
    ):
        yield BuildLock()


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

    def refuse_cleaning(holder: str) -> str:
        return f"store {store.uri} is being cleaned by {holder}; wait for it"

    if not store.is_local:
        with hold_lease(store, f"{_RELEASE_LEASES}/{dataset}", refuse) as lease:
            if (holder := find_holder(store, _CLEANING_LEASE)) is not None:
                raise BuildError(refuse_cleaning(holder))
            yield BuildLock(lease)
        return
    with (
        _hold(store, _STORE_LOCK, refuse_cleaning, True),
        _hold(store, store.path(LOCKS_FOLDER, f"{dataset}{_RELEASE}.lock"), refuse),
    ):
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
