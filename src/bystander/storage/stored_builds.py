"""Which builds, evaluations and training runs lie in a store, which files are ours, and what they refer to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal

from bystander.schemas.errors import MissingFileError
from bystander.schemas.training_config import TRAINED
from bystander.storage.build_lock import list_known_locks, list_running_builds
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.card_parts import CARD_NAME
from bystander.storage.evaluation_manifest import EVALUATIONS
from bystander.storage.filesystem import Store
from bystander.storage.mixture_files import MIXTURES_FORMAT
from bystander.storage.part_use import RECORDS_FOLDER
from bystander.storage.published_files import is_of_a_build
from bystander.storage.release_folders import MARK_NAME, ReleaseState, read_mark
from bystander.storage.review_files import REVIEWS_FOLDER
from bystander.storage.study_files import STUDIES
from bystander.storage.training_manifest import TRAINING_FORMAT

BuildCondition = Literal["finished", "evaluation", "training", "unfinished", "running", "strange"]
"""`running`: a process makes it. `strange`: there is no sign that it is ours, or its manifest is none that we write."""

_FORMATS: Mapping[str, BuildCondition] = {
    "bystander-build": "finished",
    "bystander-evaluation-manifest": "evaluation",
    TRAINING_FORMAT: "training",
    MIXTURES_FORMAT: "training",
}
_NO_DATASETS = frozenset({"cache", REVIEWS_FOLDER, STUDIES})
"""Folders of a store that hold no builds."""
_OWN_NAMES = frozenset({MANIFEST_NAME, CARD_NAME, MARK_NAME})


@dataclass(frozen=True, slots=True)
class StoredBuild:
    """A folder `<dataset>/<build>` of a store. Paths are relative to the store, sizes in bytes."""

    dataset: str
    build: str
    condition: BuildCondition
    files: Mapping[str, int]
    """Files that we write, and what killed writers left."""
    foreign: tuple[str, ...] = ()
    """Other files."""
    mentions: frozenset[str] = frozenset()
    """Every text in its manifest that may be the address of a build, but that of one whose rows it has all itself."""
    mark: ReleaseState | None = None
    """What its `release.json` says."""

    @property
    def name(self) -> str:
        """Dataset and build."""
        return f"{self.dataset}/{self.build}"

    @property
    def bytes(self) -> int:
        """Size of the files that are ours."""
        return sum(self.files.values())

    def refers_to(self, other: StoredBuild) -> bool:
        """Return whether its manifest has an address of another build, in this store or wherever that lay before."""
        return other.name != self.name and any(
            text == other.name or text.endswith(f"/{other.name}") for text in self.mentions
        )


def list_stored_builds(store: Store) -> list[StoredBuild]:
    """Return the builds, evaluations and training runs of a store, sorted by name.

    Raises:
        StorageError: it cannot be listed.
    """
    running = list_running_builds(store)
    known = {*list_known_locks(store), *_list_recorded(store)}
    names = [
        (dataset, build)
        for dataset in store.list_folders()
        if dataset not in _NO_DATASETS
        for build in store.list_folders(dataset)
    ]

    def inspect(name: tuple[str, str]) -> StoredBuild:
        return _inspect(store, *name, running, known)

    return list(store.map(inspect, names))


def _inspect(store: Store, dataset: str, build: str, running: AbstractSet[str], known: AbstractSet[str]) -> StoredBuild:
    folder = f"{dataset}/{build}"
    listed = store.list_sizes(folder)
    left = store.list_sizes(folder, temporary=True)
    manifest = _read_json(store, f"{folder}/{MANIFEST_NAME}") if f"{folder}/{MANIFEST_NAME}" in listed else None
    mark = read_mark(store.child(dataset, build)) if f"{folder}/{MARK_NAME}" in listed else None
    condition: BuildCondition
    if folder in running:
        condition = "running"
    elif manifest is not None:
        condition = _FORMATS.get(str(manifest.get("format")), "strange")
    else:
        condition = "unfinished" if folder in known or mark is not None else "strange"
    if condition in ("evaluation", "training") or (condition == "unfinished" and dataset in (EVALUATIONS, TRAINED)):
        own = set(listed)
    else:
        own = {path for path in listed if _is_own(path.removeprefix(f"{folder}/"))}
    return StoredBuild(
        dataset,
        build,
        condition,
        {path: size for path, size in listed.items() if path in own} | left,
        tuple(path for path in listed if path not in own),
        frozenset(_list_texts(_leave_out_grown(manifest))) if manifest is not None else frozenset(),
        mark.state if mark is not None else None,
    )


def _is_own(path: str) -> bool:
    return path in _OWN_NAMES or is_of_a_build(path)


def _list_recorded(store: Store) -> Iterator[str]:
    """Yield the builds of which it was recorded what they use: that is done before they are published."""
    for path in store.list(RECORDS_FOLDER):
        yield path.removeprefix(f"{RECORDS_FOLDER}/").removesuffix(".json")


def _read_json(store: Store, path: str) -> dict[str, Any]:
    """Return a manifest as it stands; an empty one where it is damaged."""
    try:
        value = json.loads(store.read_bytes(path))
    except (MissingFileError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _leave_out_grown(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest without the address of the build that it was grown from: it has all rows of that one."""
    base, config = manifest.get("on_top_of"), manifest.get("config")
    if not isinstance(base, Mapping) or base.get("rows") != "first":
        return manifest
    left = {**config, "on_top_of": None} if isinstance(config, Mapping) else config
    return {**manifest, "on_top_of": None, "config": left}


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if "/" in value:
            yield value.rstrip("/")
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _list_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _list_texts(item)
