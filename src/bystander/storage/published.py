"""Whether a build is published already, and whole."""

from __future__ import annotations

from typing import TypeVar

from bystander.schemas.errors import BuildError, StorageError
from bystander.storage.build_manifest import REPORT_NAME, ManifestBase, read_manifest_as
from bystander.storage.card_parts import CARD_NAME
from bystander.storage.filesystem import Store

_Manifest = TypeVar("_Manifest", bound=ManifestBase)


def find_published_build(store: Store, model: type[_Manifest], content_digest: str) -> _Manifest | None:
    """Return the manifest of a folder's build if it was made from the same content and its files are as it says."""
    try:
        manifest = read_manifest_as(model, store)
        if manifest.content_digest != content_digest:
            return None
        whole = store.exists(REPORT_NAME) and store.exists(CARD_NAME)
        for info in (*manifest.shards, *manifest.rejects):
            whole = whole and store.size(info.file) == info.bytes and store.sha256(info.file) == info.sha256
    except (BuildError, StorageError):
        return None
    return manifest if whole else None
