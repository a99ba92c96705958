"""Points a dataset's `latest` to a build that is there, once that was verified: by its name, or back to one before."""

from __future__ import annotations

from collections.abc import Callable

from bystander.schemas.errors import BuildError, InputError
from bystander.storage.any_manifest import read_any_manifest
from bystander.storage.build_lock import lock_dataset
from bystander.storage.dataset_folders import assert_is_dataset
from bystander.storage.filesystem import Store, open_store
from bystander.storage.release_folders import order_builds, read_mark, write_mark
from bystander.storage.releases import POINTER_NAME, Release, find_damage, move_latest, read_latest
from bystander.tasks.check_build import assert_sound


def set_release(
    folder: str, build: str, quick: bool = False, on_notice: Callable[[str], None] | None = None
) -> Release:
    """Point `latest` to a build, and return what it says now. A damaged pointer is written anew.

    Args:
        folder: the dataset's folder or fsspec URL, `<store>/<dataset>`.
        build: name of the build in it.
        quick: decode only a sample of the clips when it is verified.
        on_notice: is told what was lost of a damaged pointer.

    Raises:
        InputError: there is no such folder.
        BuildError: the build is not sound, or a release of the dataset is being made.
    """
    store, dataset = _open_dataset(folder)
    with lock_dataset(store, dataset) as lock:
        digest = _verify(store, dataset, build, quick)
        lock.assert_held()
        is_damaged = find_damage(store, dataset) is not None
        release = _move(store, dataset, build, digest, withdraw=False)
        if is_damaged and on_notice is not None:
            pointer = store.uri_of(store.path(dataset, POINTER_NAME))
            on_notice(
                f"{pointer}: was damaged and is written anew; which releases were withdrawn is lost, so a run may "
                "make one of them again"
            )
        return release


def roll_back(folder: str, to: str | None = None, quick: bool = False) -> Release:
    """Point `latest` back to the release before, or to one that is named, and return what it says now.

    What it pointed to counts as withdrawn: a release that would be just the same is not made again by itself.

    Raises:
        InputError: there is no such folder.
        BuildError: nothing was released, nothing was before, the build is not sound, or a release is being made.
    """
    store, dataset = _open_dataset(folder)
    with lock_dataset(store, dataset) as lock:
        latest = read_latest(store, dataset)
        if latest is None:
            raise BuildError(f"{store.uri_of(dataset)}: nothing was released there yet")
        build = to or _find_before(store, dataset, latest)
        if build == latest.build:
            raise BuildError(f"{store.uri_of(dataset)}: {build} is the latest release already")
        digest = _verify(store, dataset, build, quick)
        lock.assert_held()
        return _move(store, dataset, build, digest, withdraw=True)


def _open_dataset(folder: str) -> tuple[Store, str]:
    parent, slash, dataset = folder.rstrip("/").rpartition("/")
    store = open_store(parent or slash or ".")
    if dataset in ("", ".", "..") or not store.exists(dataset):
        raise InputError(f"{folder}: there is no such folder; name a dataset's, as STORE/tpi-train")
    assert_is_dataset(store, dataset, folder)
    return store, dataset


def _find_before(store: Store, dataset: str, latest: Release) -> str:
    if latest.previous is not None:
        return latest.previous
    released = [
        name
        for name in store.list_folders(dataset)
        if name not in latest.withdrawn
        and order_builds(name) < order_builds(latest.build)
        and (mark := read_mark(store.child(dataset, name))) is not None
        and mark.state == "released"
    ]
    if not released:
        raise BuildError(f"{store.uri_of(dataset)}: {latest.build} has no release before it; name a build with --to")
    return max(released, key=order_builds)


def _verify(store: Store, dataset: str, build: str, quick: bool) -> str:
    folder = store.child(dataset, build)
    assert_sound(folder, quick)
    return read_any_manifest(folder).content_digest


def _move(store: Store, dataset: str, build: str, digest: str, withdraw: bool) -> Release:
    release = move_latest(store, dataset, build, digest, withdraw, mend=not withdraw)
    write_mark(store.child(dataset, build), "released")
    return release
