"""Tells the folder of a dataset from a store and from a build, where one was named for another."""

from __future__ import annotations

import posixpath

from bystander.schemas.errors import InputError
from bystander.schemas.training_config import TRAINED
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.evaluation_manifest import EVALUATIONS
from bystander.storage.filesystem import Store
from bystander.storage.release_folders import MARK_NAME
from bystander.storage.releases import POINTER_NAME

_CACHE = "cache"


def assert_is_store(store: Store, named: str) -> None:
    """Do nothing if a folder may be a store.

    Args:
        store: the folder.
        named: how the user named it.

    Raises:
        InputError: it is the folder of a dataset or of a build.
    """
    if store.exists(_CACHE) or _list_datasets(store):
        return
    if _is_build(store):
        raise InputError(f"{named}: is a build's folder; name the store: {_name_above(_name_above(named))}")
    if _is_dataset(store):
        raise InputError(f"{named}: is a dataset's folder; name the store: {_name_above(named)}")


def assert_is_dataset(store: Store, dataset: str, named: str) -> None:
    """Do nothing if a folder of a store may be that of a dataset.

    Args:
        store: the store, or what was taken for it.
        dataset: name of the folder.
        named: how the user named it.

    Raises:
        InputError: it is a build, or a store: there are datasets in it.
    """
    folder = store.child(dataset)
    if _is_build(folder):
        raise InputError(f"{named}: is a build's folder; name the dataset's: {_name_above(named)}")
    if not _is_dataset(folder) and (datasets := _list_datasets(folder)):
        names = " or ".join(f"{named.rstrip('/')}/{name}" for name in datasets)
        raise InputError(f"{named}: is a store; name a dataset's folder: {names}")


def _list_datasets(store: Store) -> list[str]:
    return [
        name
        for name in store.list_folders()
        if name not in (_CACHE, EVALUATIONS, TRAINED)
        and not _is_build(store.child(name))
        and _is_dataset(store.child(name))
    ]


def _name_above(named: str) -> str:
    """Return how to name the folder above one, in the user's own terms."""
    name = named.rstrip("/")
    return posixpath.join(name, "..") if posixpath.basename(name) in ("", ".", "..") else posixpath.dirname(name) or "."


def _is_build(folder: Store) -> bool:
    return folder.exists(MANIFEST_NAME) or folder.exists(MARK_NAME)


def _is_dataset(folder: Store) -> bool:
    return folder.exists(POINTER_NAME) or any(_is_build(folder.child(name)) for name in folder.list_folders())
