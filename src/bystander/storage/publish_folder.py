"""Publishes a build to a folder, local or remote: `<folder>/<dataset>/<build>`, and `latest.json` beside it.

Files that are there already, of the right size and checksum, stay; so what was interrupted goes on. The manifest is
written last: until then there is no finished build at the place, and `latest` is moved after it. There is no link named
`latest`: it would look like one more build, and object stores have none; `open_build` and whoever reads `latest.json`
find it.
"""

from __future__ import annotations

import hashlib
import posixpath
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

from bystander.schemas.errors import BuildError, InputError
from bystander.storage.any_manifest import read_any_manifest
from bystander.storage.build_manifest import MANIFEST_NAME, digest_rows
from bystander.storage.filesystem import TEMPORARY_PREFIX, Store, open_store
from bystander.storage.published_files import (
    Part,
    Publication,
    PublishedBuild,
    PublishedFile,
    PublishStep,
    describe_published_build,
    is_of_a_build,
)
from bystander.storage.releases import POINTER_NAME, find_damage, move_latest, read_latest

_STRIDE = 1 << 20


def publish_to_folder(
    build: Store,
    folder: str,
    include: Sequence[Part] = (),
    dry_run: bool = False,
    on_file: Callable[[PublishStep], None] | None = None,
) -> Publication:
    """Copy a build, which the caller has verified, to a folder, and point `latest` there to it.

    Args:
        build: the build's folder.
        folder: folder or fsspec URL that gets `<dataset>/<build>`.
        include: parts that are otherwise left out.
        dry_run: only say what would be done.
        on_file: is told of each file before it is copied, kept or deleted.

    Raises:
        InputError: the folder cannot be opened or written to, or is the store that the build lies in.
        BuildError: it is no finished build, another one lies at its place, or a file is not what its manifest says.
        StorageError: a file cannot be read or written; the same call goes on from there.
    """
    published = describe_published_build(build, include)
    manifest = published.manifest
    check_folder(folder, (manifest.dataset, manifest.build), dry_run)
    target = open_store(folder)
    place = target.child(manifest.dataset, manifest.build)
    if place.uri == build.uri:
        raise InputError(f"{folder}: is the store that the build lies in; name another folder")
    _assert_free(place, published)
    steps = _plan(place, published)
    notes = [_tell_pointer(target, published, dry_run)]
    if not dry_run:
        if steps[-1].action == "put":
            place.remove(MANIFEST_NAME)
            place.remove_temporaries()
        files = {file.path: file for file in published.files}
        for step in steps:
            if on_file is not None:
                on_file(step)
            if step.action == "delete":
                place.remove(step.path)
            elif step.action == "put":
                _copy(build, place, files[step.path])
        move_latest(target, manifest.dataset, manifest.build, manifest.content_digest, mend=True)
    return Publication(place.uri, tuple(steps), tuple(notes))


def check_folder(folder: str, below: Sequence[str] = (), dry_run: bool = False, write: bool = False) -> None:
    """Do nothing if a folder can be published to, as far as it shows before there is a build.

    Of a local one, a folder is made and removed again where the first that is to be made belongs. Nothing stays.

    Args:
        folder: folder or fsspec URL.
        below: names of the folders in it that are to be written to.
        dry_run: write nothing, and only look whether there is a file in the way.
        write: write to a remote one too, a file that is removed again.

    Raises:
        InputError: it cannot be opened, is a file, or cannot be written to.
        StoreError: a remote store cannot be used.
    """
    target = open_store(folder)
    local = target.local_path(posixpath.join("", *below))
    if local is None:
        if write and not dry_run:
            probe = f"{TEMPORARY_PREFIX}probe-{uuid4().hex[:12]}"
            target.write_bytes(probe, b"")
            target.remove(probe)
        return
    try:
        there = next(path for path in (local, *local.parents) if path.exists())
        if not there.is_dir():
            named = folder if there == target.local_path() else there
            raise InputError(f"{named}: is a file; name a folder to publish to")
        if not dry_run:
            Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=there)).rmdir()
    except OSError as exc:
        raise InputError(f"{folder}: cannot be written to ({exc.strerror}); name another folder to publish to") from exc


def _assert_free(place: Store, published: PublishedBuild) -> None:
    try:
        there = read_any_manifest(place)
    except BuildError:
        return  # unfinished, or damaged
    if (there.content_digest, digest_rows(there)) != (
        published.manifest.content_digest,
        digest_rows(published.manifest),
    ):
        raise BuildError(
            f"{place.uri}: another build lies there, under the same name; remove it, or publish a build of another name"
        )


def _plan(place: Store, published: PublishedBuild) -> list[PublishStep]:
    """Return the steps as they are taken: the manifest is put last, and whenever anything changes."""
    there = place.list_sizes()
    known = {file.path for file in published.files}
    stale = [path for path in there if path not in known and is_of_a_build(path)]

    def is_there(file: PublishedFile) -> bool:
        return there.get(file.path) == file.size and place.sha256(file.path) == file.sha256

    kept = place.map(is_there, published.files)
    steps = [PublishStep(path, "delete", there[path]) for path in stale]
    for file, keep in zip(published.files, kept, strict=True):
        whole = not stale and all(kept) if file is published.manifest_file else keep
        steps.append(PublishStep(file.path, "keep" if whole else "put", file.size))
    return steps


def _copy(build: Store, place: Store, file: PublishedFile) -> None:
    if file.content is not None:
        place.write_bytes(file.path, file.content)
        return
    digest, size = hashlib.sha256(), 0
    with build.open_read(file.path) as source, place.open_write(file.path) as sink:
        while chunk := source.read(_STRIDE):
            digest.update(chunk)
            size += len(chunk)
            sink.write(chunk)
        if size != file.size or digest.hexdigest() != file.sha256:  # raised here, the copy never appears
            raise BuildError(f"{build.uri_of(file.path)}: is not what the manifest says; verify the build")


def _tell_pointer(target: Store, published: PublishedBuild, dry_run: bool) -> str:
    manifest = published.manifest
    says = f"{manifest.dataset}/latest {'would be' if dry_run else 'is'} {manifest.build}"
    if find_damage(target, manifest.dataset) is not None:
        return f"{says}; {POINTER_NAME}, which is damaged, {'would be' if dry_run else 'is'} written anew."
    before = read_latest(target, manifest.dataset)
    was = f", was {before.build}" if before is not None and before.build != manifest.build else ""
    return f"{says}{was}."
