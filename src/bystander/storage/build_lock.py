"""Keeps two processes from making the same build at once."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator

from bystander.schemas.errors import BuildError, StorageError
from bystander.storage.filesystem import Store

LOCKS_FOLDER = "cache/locks"


@contextlib.contextmanager
def lock_build(store: Store, dataset: str, build: str) -> Iterator[None]:
    """Hold the lock of a build while the block runs.

    The lock is the operating system's (`flock`): it ends with the process that holds it, however that dies, so there
    are no stale locks. Remote stores and systems without `flock` have none; there, whoever publishes last wins.

    Raises:
        BuildError: another process holds it; the message names the process.
        StorageError: the lock file cannot be written.
    """
    path = store.local_path(store.path(LOCKS_FOLDER, dataset, f"{build}.lock"))
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
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            raise BuildError(
                f"build {dataset}/{build} in {store.uri} is being made by {_name_holder(handle.read())}; "
                "wait for it, or give this build another name"
            ) from None
        except OSError:
            pass  # a filesystem without locks
        handle.truncate(0)
        handle.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        handle.flush()
        yield


def _name_holder(text: str) -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        holder = json.loads(text)
        return f"process {holder['pid']} on {holder['host']}"
    return "another process"
