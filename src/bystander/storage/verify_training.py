"""Verifies a finished training run, or an experiment with mixtures: its files against its manifest."""

from __future__ import annotations

from collections.abc import Iterator

from bystander.schemas.errors import BuildError, MissingFileError, StorageError
from bystander.storage.build_checks import Finding
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.filesystem import Store
from bystander.storage.mixture_files import is_mixtures, read_mixtures
from bystander.storage.training_manifest import TrainingManifest, is_training, read_training


def holds_training(folder: Store) -> bool:
    """Return whether a folder has the manifest of a training run or of an experiment, whole or not."""
    try:
        manifest = folder.read_bytes(MANIFEST_NAME)
        return is_training(manifest) or is_mixtures(manifest)
    except (MissingFileError, StorageError):
        return False


def verify_training(folder: Store) -> list[Finding]:
    """Return everything wrong with a run or an experiment; nothing if it is sound."""
    return list(_check(folder))


def _check(folder: Store) -> Iterator[Finding]:
    try:
        manifest = read_mixtures(folder) if is_mixtures(folder.read_bytes(MANIFEST_NAME)) else read_training(folder)
    except (BuildError, StorageError) as exc:
        yield Finding(MANIFEST_NAME, str(exc).removeprefix(f"{folder.uri_of(MANIFEST_NAME)}: ").rstrip("."))
        return
    sizes = folder.list_sizes()
    for info in manifest.files:
        size = sizes.get(info.file)
        if size is None:
            yield Finding(info.file, "is missing")
        elif size != info.bytes:
            yield Finding(info.file, f"has {size} bytes, the manifest says {info.bytes}")
        elif (found := folder.sha256(info.file)) != info.sha256:
            yield Finding(info.file, f"has checksum {found[:12]}…, the manifest says {info.sha256[:12]}…")
    known = {info.file for info in manifest.files}
    for name in sizes:
        if name not in known and name != MANIFEST_NAME:
            yield Finding(name, "is not in the manifest")
    for phase in manifest.phases if isinstance(manifest, TrainingManifest) else ():
        if phase.history not in known:
            yield Finding(MANIFEST_NAME, f"names {phase.history}, which is none of its files", field="phases")
