"""The file that a command writes a page to: found to be writable before the work that the page shows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from bystander.schemas.errors import InputError, StorageError
from bystander.storage.filesystem import Store, open_file


@dataclass(frozen=True, slots=True)
class PageFile:
    """Where a page goes."""

    folder: Store
    name: str

    @property
    def address(self) -> str:
        """Path or URL of the page."""
        return self.folder.uri_of(self.name)

    def write(self, page: str) -> None:
        """Write the page."""
        self.folder.write_bytes(self.name, page.encode())


def prepare_page(out: str, usual_name: str) -> PageFile:
    """Return where a page goes that `--out` names: a file that ends in .html, or `usual_name` in a folder.

    Raises:
        InputError: it cannot be written there.
    """
    store, name = open_file(out if out.lower().endswith((".html", ".htm")) else f"{out.rstrip('/')}/{usual_name}")
    probe = f".probe-{uuid4().hex[:12]}"
    try:
        store.write_bytes(probe, b"")
    except (StorageError, OSError) as exc:
        raise InputError(f"--out {out}: cannot be written; name another file or folder") from exc
    with suppress(StorageError):
        store.remove(probe)
    return PageFile(store, name)
