"""Whether a build is published already, and whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from bystander.schemas.errors import BuildError, StorageError
from bystander.storage.build_manifest import REPORT_NAME, ManifestBase, read_manifest_as
from bystander.storage.card_parts import CARD_NAME
from bystander.storage.file_stamps import are_whole
from bystander.storage.filesystem import Store

_Manifest = TypeVar("_Manifest", bound=ManifestBase)


def find_published_build(
    store: Store, dataset: str, builds: Iterable[str], model: type[_Manifest], content_digest: str
) -> _Manifest | None:
    """Return the manifest of the first of some builds that is made from the same content and whole, if there is one."""
    for build in builds:
        if (manifest := _read_whole(store, dataset, build, model, content_digest)) is not None:
            return manifest
    return None


def _read_whole(
    store: Store, dataset: str, build: str, model: type[_Manifest], content_digest: str
) -> _Manifest | None:
    folder = store.child(dataset, build)
    try:
        manifest = read_manifest_as(model, folder)
        if manifest.content_digest != content_digest:
            return None
        whole = folder.exists(REPORT_NAME) and folder.exists(CARD_NAME)
        whole = whole and are_whole(store, dataset, build, (*manifest.shards, *manifest.rejects))
    except (BuildError, StorageError):
        return None
    return manifest if whole else None
