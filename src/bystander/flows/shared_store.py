"""Sees whether the machines of a cluster write to the same store as this one."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from uuid import uuid4

from bystander.schemas.errors import BystanderError, ConfigError, StorageError
from bystander.storage.filesystem import open_store


def look_for_part(uri: str, path: str) -> tuple[str, bool]:
    """Return this machine's name and whether a path is there in a store, as this machine sees it."""
    try:
        return socket.gethostname(), open_store(uri).exists(path)
    except (BystanderError, OSError):
        return socket.gethostname(), False


def require_shared_store(uri: str, ask_machines: Callable[[str, str], Iterable[tuple[str, bool]]]) -> None:
    """Raise a `ConfigError` where a machine does not see what this one writes; `ask_machines` has each look for it."""
    store = open_store(uri)
    probe = f"cache/probe-{uuid4().hex[:12]}"
    store.write_bytes(probe, b"")
    try:
        blind = sorted({machine for machine, sees in ask_machines(uri, probe) if not sees})
    finally:
        with suppress(StorageError):
            store.remove(probe)
    if blind:
        raise ConfigError(
            f"store {uri}: {', '.join(blind)} of the cluster cannot see what this machine writes there; name a folder "
            "that all machines share under the same path, or an object store (s3://...)"
        )
