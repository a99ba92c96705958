"""What releases a store has, and what became of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bystander.schemas.errors import BuildError, InputError, StorageError
from bystander.schemas.training_config import TRAINED
from bystander.storage.any_manifest import read_any_manifest
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.evaluation_manifest import EVALUATIONS
from bystander.storage.filesystem import Store
from bystander.storage.release_folders import ReleaseMark, order_builds, read_mark
from bystander.storage.releases import Release, find_damage, read_latest

BuildState = Literal["latest", "released", "withdrawn", "refused", "unfinished", "not released"]


@dataclass(frozen=True, slots=True)
class ListedBuild:
    """A build of a store. `rows` and `made` (a date) are None where it is unfinished or cannot be read."""

    dataset: str
    build: str
    state: BuildState
    rows: int | None
    made: str | None
    is_whole: bool
    """Whether all files of its manifest are there in their size; whether they are sound is for `bystander verify`."""
    findings: tuple[str, ...] = ()
    """What was wrong when it was refused."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a store."""

    builds: tuple[ListedBuild, ...]
    """Of all datasets, releases in the order in which they were made."""
    damage: tuple[str, ...]
    """What is wrong with the pointers of datasets; their builds are listed, and none of them is the latest."""


def list_builds(store: Store) -> Listing:
    """Return the builds of all datasets of a store.

    Raises:
        InputError: there is no such folder, or it is that of a dataset or a build.
    """
    if not store.exists(""):
        raise InputError(f"{store.uri}: there is no such folder; name the store that builds were written to (--out)")
    datasets = [name for name in store.list_folders() if name not in ("cache", EVALUATIONS, TRAINED)]
    damage = {dataset: found for dataset in datasets if (found := find_damage(store, dataset)) is not None}
    builds = [build for dataset in datasets for build in _list_dataset(store, dataset, dataset in damage)]
    return Listing(tuple(builds), tuple(damage.values()))


def _list_dataset(store: Store, dataset: str, is_damaged: bool) -> Iterator[ListedBuild]:
    latest = None if is_damaged else read_latest(store, dataset)
    for name in sorted(store.list_folders(dataset), key=order_builds):
        folder = store.child(dataset, name)
        mark = read_mark(folder)
        finished = folder.exists(MANIFEST_NAME)
        if mark is None and not finished:
            continue  # of an unfinished build that is to be no release, or of no build at all
        state = _tell_state(name, latest, mark, finished)
        yield _describe(store, dataset, name, state, mark.findings if mark is not None else ())


def _tell_state(name: str, latest: Release | None, mark: ReleaseMark | None, finished: bool) -> BuildState:
    if not finished:
        return "unfinished"
    if latest is not None and name == latest.build:
        return "latest"
    if latest is not None and name in latest.withdrawn:
        return "withdrawn"
    if mark is None or mark.state == "begun":
        return "not released"
    return mark.state


def _describe(store: Store, dataset: str, name: str, state: BuildState, findings: tuple[str, ...]) -> ListedBuild:
    folder = store.child(dataset, name)
    rows, made, whole = None, None, False
    try:
        manifest = read_any_manifest(folder)
        rows, made = manifest.counts.rows, folder.modified(MANIFEST_NAME).date().isoformat()
        whole = all(folder.holds(info.file, info.bytes) for info in (*manifest.shards, *manifest.rejects))
    except (BuildError, StorageError):
        whole = False
    return ListedBuild(dataset, name, state, rows, made, whole, findings)
