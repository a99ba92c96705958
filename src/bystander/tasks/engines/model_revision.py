"""What an engine's identity says of the weights and packages that it opened."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from bystander.schemas.errors import EngineSetupError
from bystander.schemas.identity import digest_json
from bystander.schemas.model_manifest import load_manifest

ResolveModel = Callable[[str], Path]
"""From a name in the model store's manifest, or a user's path, to a path that may be opened.

`bystander.storage.model_store.ModelStore.resolve` is one.
"""

_CHUNK_BYTES = 1 << 20


def read_revision(model: str, path: Path) -> str:
    """Return a digest of the weights: from the manifest for a model of the store, from the bytes for a user's path."""
    models = load_manifest().models
    if model in models:
        return models[model].revision
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return digest_json([[p.name, _hash_file(p)] for p in files])


def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while chunk := handle.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def find_package_version(package: str) -> str:
    """Return the version of an installed package, which is part of what identifies an engine.

    Raises:
        EngineSetupError: it is not installed.
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise EngineSetupError(f"the package {package} is missing; run: pip install {package}") from None
