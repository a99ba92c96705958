"""Which finished build a new one is compared with, and what its manifest says of how it was made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bystander.schemas.errors import BuildError, MissingFileError, StorageError, UserError
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.filesystem import Store, open_store
from bystander.storage.part_use import RecordedJourney, read_journeys
from bystander.storage.releases import LATEST, open_build, read_latest


class _Pack(BaseModel):
    name: str
    digest: str


class _Base(BaseModel):
    uri: str
    dataset: str
    build: str
    rows_digest: str


class EarlierBuild(BaseModel):
    """What a manifest of any kind says of how its build was made."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    dataset: str
    build: str
    kind: str
    config: dict[str, Any]
    code_version: str
    content_digest: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
    fingerprints: dict[str, dict[str, Any]] = Field(default_factory=dict)
    pack: _Pack | None = None
    on_top_of: _Base | None = None
    """The build that it stands on, if any."""
    because: str = ""
    """Why it was chosen, as a phrase."""


def find_earlier_build(
    store: Store,
    dataset: str,
    build: str,
    kind: str,
    against: str | None,
    measure_likeness: Callable[[EarlierBuild], int],
) -> EarlierBuild | None:
    """Return the build to compare with: the one named, that of the same name, the latest release, the likest.

    Args:
        store: where builds of the dataset lie.
        dataset: name of the dataset.
        build: name of the build that is to be made.
        kind: what makes such builds; one of another kind is not chosen.
        against: name of a build of the dataset, or the address of any; `latest` is the dataset's latest release.
        measure_likeness: how like another build is; the first by name of those that are the most alike is chosen.

    Raises:
        BuildError: the build named is not there, is of another kind, or cannot be read.
    """
    if against is not None:
        folder = open_build(against if "/" in against else store.uri_of(f"{dataset}/{against}"))
        named = read_earlier(folder)
        if named.kind != kind:
            raise BuildError(f"{folder.uri}: is of another kind ({named.kind}) than what is planned ({kind})")
        return named.model_copy(update={"because": "as asked for"})
    same = _read_of_kind(store, dataset, build, kind)
    if same is not None:
        return same.model_copy(update={"because": "the build of this name"})
    latest = _read_release(store, dataset, kind)
    if latest is not None:
        return latest.model_copy(update={"because": f"the {LATEST} release"})
    others = [_read_of_kind(store, dataset, name, kind) for name in store.list_folders(dataset)]
    likest = max((other for other in others if other is not None), key=measure_likeness, default=None)
    return likest and likest.model_copy(update={"because": "the finished build that is most like it"})


def read_earlier(folder: Store) -> EarlierBuild:
    """Return what the manifest in a folder says.

    Raises:
        BuildError: there is none, or it is no manifest of a build.
    """
    where = folder.uri_of(MANIFEST_NAME)
    try:
        return EarlierBuild.model_validate_json(folder.read_bytes(MANIFEST_NAME))
    except MissingFileError as exc:
        raise BuildError(f"{where}: is missing, so this is not a finished build") from exc
    except ValidationError as exc:
        raise BuildError(f"{where}: is not a build manifest of this version") from exc


def read_past_journeys(store: Store, earlier: EarlierBuild) -> tuple[list[tuple[Store, RecordedJourney]], list[str]]:
    """Return the journeys of a build and of those that it stands on, the furthest down first, and whose are not known.

    A build that stands on another has recorded only what it made itself. The other is looked for by its address, and
    in the same store, where a store was moved.

    Args:
        store: where the build lies.
        earlier: the build.

    Returns:
        The journeys, each with the store that its parts lie in; the names of builds of which none are recorded.
    """
    found: list[tuple[Store, RecordedJourney]] = []
    unknown: list[str] = []
    seen: set[tuple[str, str]] = set()
    while (name := (earlier.dataset, earlier.build)) not in seen:
        seen.add(name)
        own = [(store, journey) for journey in read_journeys(store, *name)]
        found = own + found
        if not own:
            unknown.append(earlier.build)
        base = earlier.on_top_of
        if base is None:
            break
        read = _read_base(store, base)
        if read is None:
            unknown.append(base.build)
            break
        store, earlier = read
    return found, unknown


def _read_base(store: Store, base: _Base) -> tuple[Store, EarlierBuild] | None:
    root = base.uri.rstrip("/").removesuffix(f"/{base.dataset}/{base.build}")
    for place in (root, store):
        try:
            there = open_store(place) if isinstance(place, str) else place
            return there, read_earlier(there.child(base.dataset, base.build))
        except (UserError, StorageError):
            continue
    return None


def _read_release(store: Store, dataset: str, kind: str) -> EarlierBuild | None:
    try:
        release = read_latest(store, dataset)
    except (BuildError, StorageError):  # a damaged pointer is no reason not to build
        return None
    return _read_of_kind(store, dataset, release.build, kind) if release is not None else None


def _read_of_kind(store: Store, dataset: str, build: str, kind: str) -> EarlierBuild | None:
    try:
        found = read_earlier(store.child(dataset, build))
    except (BuildError, StorageError):
        return None
    return found if found.kind == kind else None
