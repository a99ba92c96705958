"""Opens the fsspec filesystem that an address is of, and says what is wrong where that cannot be done."""

from __future__ import annotations

import fsspec

from bystander.schemas.errors import InputError, StoreAccessError, StoreUnavailableError
from bystander.storage.object_stores import explain_opening


def open_filesystem(uri: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the filesystem of a path or URL, and the path in it.

    Raises:
        InputError: the protocol is unknown, or its package is not installed.
        StoreAccessError: there is no such server, or it does not let us in.
        StoreUnavailableError: the server does not answer now.
    """
    try:
        filesystem, root = fsspec.core.url_to_fs(uri)
    except (ValueError, ImportError) as exc:
        raise InputError(f"store {uri}: {explain_opening(uri, exc)}") from exc
    except (ConnectionError, TimeoutError) as exc:  # of clients that connect at once, as that of FTP does
        raise StoreUnavailableError(
            f"store {uri}: cannot be reached ({exc}); check the address and the network"
        ) from exc
    except OSError as exc:
        reason = exc.strerror or exc
        raise StoreAccessError(f"store {uri}: cannot be reached ({reason}); check the address and the network") from exc
    except Exception as exc:  # each client has errors of its own
        raise StoreAccessError(f"store {uri}: {explain_opening(uri, exc)}") from exc
    # Others write to the store too, so what was listed once says nothing about now.
    if hasattr(filesystem, "dircache"):
        filesystem.dircache.use_listings_cache = False
    return filesystem, root
