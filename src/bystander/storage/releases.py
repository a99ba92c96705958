"""Which build of a dataset is its latest release.

`<dataset>/latest.json` names it. The pointer is moved only to a build that was verified, and written whole, so whoever
reads it finds a sound build or none. Wherever the address of a build is asked for, `<store>/<dataset>/latest` stands
for the build that it names.
"""

from __future__ import annotations

import os

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bystander.schemas.errors import BuildError, MissingFileError
from bystander.storage.filesystem import Store, open_store

LATEST = "latest"
POINTER_NAME = "latest.json"


class Release(BaseModel):
    """What `latest.json` holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    build: str = Field(min_length=1)
    """Name of the build's folder, beside the pointer."""
    content_digest: str = ""
    """That of its manifest."""
    previous: str | None = None
    """The release before it."""
    withdrawn: tuple[str, ...] = ()
    """Builds that were released and taken back: what is made of just the same is not released again by itself."""


def read_latest(store: Store, dataset: str) -> Release | None:
    """Return the latest release of a dataset, or None where nothing was released yet.

    Raises:
        BuildError: the pointer is damaged.
    """
    path = store.path(dataset, POINTER_NAME)
    try:
        return Release.model_validate_json(store.read_bytes(path))
    except MissingFileError:
        return None
    except ValidationError as exc:
        raise BuildError(
            f"{store.uri_of(path)}: is damaged; `bystander release set DATASET BUILD` writes it anew, "
            "for the latest sound build"
        ) from exc


def find_damage(store: Store, dataset: str) -> str | None:
    """Return what is wrong with the pointer of a dataset, or None if it can be read or there is none."""
    try:
        read_latest(store, dataset)
    except BuildError as exc:
        return str(exc)
    return None


def move_latest(
    store: Store, dataset: str, build: str, content_digest: str, withdraw: bool = False, mend: bool = False
) -> Release:
    """Point a dataset's `latest` to a build, which the caller has verified, and return what it says now.

    With `withdraw`, the release that it pointed to counts as taken back. With `mend`, a damaged pointer is written
    anew: what it said of the release before and of those withdrawn is lost.

    Raises:
        BuildError: the pointer is damaged, and is not to be mended.
    """
    before = None if mend and find_damage(store, dataset) is not None else read_latest(store, dataset)
    withdrawn = set(before.withdrawn if before is not None else ())
    previous = before.build if before is not None and before.build != build else before and before.previous
    if withdraw and before is not None and before.build != build:
        withdrawn.add(before.build)
        previous = None
    release = Release(
        build=build,
        content_digest=content_digest,
        previous=None if previous == build else previous,
        withdrawn=tuple(sorted(withdrawn - {build})),
    )
    store.write_bytes(store.path(dataset, POINTER_NAME), release.model_dump_json(indent=2).encode() + b"\n")
    return release


def pin_build(address: str) -> str:
    """Return the address of a build, that of the release in place of `latest`.

    Raises:
        BuildError: it is `latest`, and nothing was released yet, or the pointer is damaged.
        InputError: the address cannot be opened.
    """
    parent, _, name = address.rstrip("/").rpartition("/")
    if name != LATEST:
        return address
    release = read_latest(open_store(parent or "."), "")
    if release is None:
        raise BuildError(f"{address}: nothing was released there yet; name a build, or release one first")
    return f"{parent}/{release.build}" if parent else release.build


def open_build(address: str | os.PathLike[str]) -> Store:
    """Open the folder of a build; `latest` as its name is followed to the release that it stands for.

    Raises:
        BuildError: it is `latest`, and nothing was released yet, or the pointer is damaged.
        InputError: the address cannot be opened.
    """
    return open_store(pin_build(os.fspath(address)))
