"""Leases: locks in an object store, which has no locks of its own.

A lease is a folder of numbered notes; the highest number is the one that counts. Whoever wants it writes the next
number with a conditional put, which only one of several can, and renews that note while it holds it. Numbers only grow
and the highest note is never removed, so nobody can come back to a number that another has passed; a note that is let
go says so. A lease that was not renewed for a while, by the clock of the store, counts as left behind, and so does one
of a process of this machine that is gone.

A holder that was asleep for longer than that may find that another has taken over: see `Lease.assert_held`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import posixpath
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from bystander.schemas.errors import BuildError, MissingFileError, StorageError, StoreError
from bystander.storage.filesystem import Store

RENEW_EVERY_S = 20.0
EXPIRES_AFTER_S = 120.0
_NOTE = re.compile(r"(\d{8})\.json")
_CLOCKS_FOLDER = "cache/leases/clocks"
_log = logging.getLogger(__name__)


class Lease:
    """A lease that this process holds, renewed by a thread of its own until it is released."""

    def __init__(self, store: Store, folder: str, number: int, note: dict[str, Any], renew_every_s: float) -> None:
        self._store = store
        self._folder = folder
        self._number = number
        self._note = note
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, args=(renew_every_s,), daemon=True)
        self._thread.start()

    def assert_held(self) -> None:
        """Do nothing if it is still held.

        Raises:
            BuildError: another process has taken it over.
        """
        numbers = _list_numbers(self._store, self._folder)
        if numbers[-1:] == [self._number]:
            return
        holder = _name_holder(_read_note(self._store, self._folder, numbers[-1])) if numbers else "another process"
        raise BuildError(
            f"{self._store.uri_of(self._folder)}: was taken over by {holder}, since this process was not heard of for "
            f"{self._note['expires_after_s']:g} s; nothing was published"
        )

    def release(self) -> None:
        """Let it go. What cannot be written then expires."""
        self._over.set()
        self._thread.join()
        with contextlib.suppress(StorageError, StoreError):
            _write_note(self._store, self._folder, self._number, {**self._note, "released": True})

    def _renew(self, every_s: float) -> None:
        while not self._over.wait(every_s):
            try:
                _write_note(self._store, self._folder, self._number, self._note)
            except (StorageError, StoreError) as exc:
                _log.warning("lease not renewed, trying again: %s", exc)


@contextlib.contextmanager
def hold_lease(
    store: Store,
    folder: str,
    refuse: Callable[[str], str],
    renew_every_s: float = RENEW_EVERY_S,
    expires_after_s: float = EXPIRES_AFTER_S,
) -> Iterator[Lease | None]:
    """Hold a lease while the block runs; `refuse` makes the message from who holds it.

    None is yielded where the server knows no conditional puts: then nobody is kept out, which is logged.

    Raises:
        BuildError: another process holds it.
        StorageError: it cannot be written.
    """
    note = {**_describe_process(), "token": uuid4().hex, "expires_after_s": expires_after_s, "released": False}
    number = _take(store, folder, refuse, note)
    if number is None:
        _log.warning("%s has no conditional puts: two builds of one name are not kept apart", store.uri)
        yield None
        return
    lease = Lease(store, folder, number, note, renew_every_s)
    try:
        yield lease
    finally:
        lease.release()


def find_holder(store: Store, folder: str) -> str | None:
    """Return who holds a lease, or None if nobody does."""
    numbers = _list_numbers(store, folder)
    if not numbers:
        return None
    note = _read_note(store, folder, numbers[-1])
    return _name_holder(note) if _is_live(store, folder, numbers[-1], note) else None


def is_let_go(store: Store, folder: str) -> bool:
    """Return whether the last holder of a lease let it go, so that it does not come back to it."""
    numbers = _list_numbers(store, folder)
    return bool(numbers) and bool(_read_note(store, folder, numbers[-1]).get("released"))


def list_holders(store: Store, folder: str) -> Iterator[tuple[str, str]]:
    """Yield each lease below a folder that somebody holds: its name relative to the folder, and who."""
    for name in sorted({posixpath.dirname(path) for path in store.list(folder)}):
        if (holder := find_holder(store, name)) is not None:
            yield name.removeprefix(f"{folder}/"), holder


def _take(store: Store, folder: str, refuse: Callable[[str], str], note: dict[str, Any]) -> int | None:
    """Return the number of the note written, or None where the server knows no conditional puts."""
    before = _list_numbers(store, folder)
    if before:
        latest = _read_note(store, folder, before[-1])
        if _is_live(store, folder, before[-1], latest):
            raise BuildError(refuse(_name_holder(latest)))
    number = (before[-1] if before else 0) + 1
    path, data = _path_of(folder, number), json.dumps(note).encode()
    try:
        # An answer that got lost on the way makes the client ask again, and find its own note.
        if not store.create(path, data) and _read_note(store, folder, number).get("token") != note["token"]:
            raise BuildError(refuse(_name_holder(_read_note(store, folder, number))))
        if store.create(path, data):
            return None  # a second one must be refused
    except StorageError:
        return None
    after = _list_numbers(store, folder)
    if after[-1] != number:  # while this process looked, others took the lease and let it go, more than once
        store.remove(path)
        raise BuildError(refuse(_name_holder(_read_note(store, folder, after[-1]))))
    for old in before:
        store.remove(_path_of(folder, old))
    return number


def _is_live(store: Store, folder: str, number: int, note: dict[str, Any]) -> bool:
    if note.get("released"):
        return False
    own = _describe_process()
    if note.get("machine") == own["machine"]:
        return _find_start(note.get("pid")) == note.get("started")
    clock = f"{_CLOCKS_FOLDER}/{uuid4().hex}"
    try:
        store.write_bytes(clock, b"now")
        age_s = (store.modified(clock) - store.modified(_path_of(folder, number))).total_seconds()
    except MissingFileError:
        return False  # the note: a later holder has cleared it away
    finally:
        with contextlib.suppress(StorageError, StoreError):
            store.remove(clock)
    return age_s <= float(note.get("expires_after_s", EXPIRES_AFTER_S))


def _list_numbers(store: Store, folder: str) -> list[int]:
    names = (posixpath.basename(path) for path in store.list(folder))
    return sorted(int(found[1]) for name in names if (found := _NOTE.fullmatch(name)))


def _path_of(folder: str, number: int) -> str:
    return f"{folder}/{number:08d}.json"


def _write_note(store: Store, folder: str, number: int, note: dict[str, Any]) -> None:
    store.write_bytes(_path_of(folder, number), json.dumps(note).encode())


def _read_note(store: Store, folder: str, number: int) -> dict[str, Any]:
    """Return a note; an empty one where it is gone or damaged."""
    try:
        note = json.loads(store.read_bytes(_path_of(folder, number)))
    except (StorageError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _name_holder(note: dict[str, Any]) -> str:
    return f"process {note['pid']} on {note['host']}" if "pid" in note and "host" in note else "another process"


def _describe_process() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "started": _find_start(os.getpid()),
        "host": socket.gethostname(),
        "machine": _describe_machine(),
    }


def _describe_machine() -> str:
    """Return what tells this start of this machine, and this container, from others of the same name."""
    told = [socket.gethostname()]
    with contextlib.suppress(OSError):
        told.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())
        told.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(told)


def _find_start(pid: Any) -> str | None:
    """Return when a process began, which tells it from a later one of the same number; None if there is none."""
    with contextlib.suppress(psutil.Error, TypeError, ValueError):
        return f"{psutil.Process(pid).create_time():.2f}"
    return None
