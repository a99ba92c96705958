"""The folder of an experiment with mixtures, `trained/<name>`: results, tables, and the manifest last."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from bystander.schemas.errors import BuildError, StorageError
from bystander.schemas.mixture_results import RESULTS_NAME, MixtureResults
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.filesystem import Store
from bystander.storage.training_manifest import TrainedFile, has_format

MIXTURES_FORMAT: Literal["bystander-mixtures-manifest"] = "bystander-mixtures-manifest"
TABLES_NAME = "tables.md"
PACKAGES = ("numpy", "onnxruntime", "scikit-learn", "scipy", "statsmodels", "torch", "transformers")
"""Packages whose version can change a figure."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MixtureManifest(_Section):
    """Everything about an experiment but its figures, which are in `results.json`."""

    format: Literal["bystander-mixtures-manifest"] = MIXTURES_FORMAT
    format_version: Literal[1] = 1
    name: str
    content_digest: str
    """Of configuration and rows: an equal one means that a new run would find the same."""
    config: dict[str, Any]
    files: tuple[TrainedFile, ...]
    code_version: str
    packages: dict[str, str]


def write_results(
    folder: Store, results: MixtureResults, config: Mapping[str, Any], texts: Mapping[str, str]
) -> MixtureManifest:
    """Write results and text files by name, and the manifest when they are in place; return it."""
    folder.remove(MANIFEST_NAME)
    written = []
    for name, text in {RESULTS_NAME: results.model_dump_json(indent=1) + "\n", **texts}.items():
        data = text.encode()
        folder.write_bytes(name, data)
        written.append(TrainedFile(file=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest()))
    manifest = MixtureManifest(
        name=results.name,
        content_digest=results.content_digest,
        config=dict(config),
        files=tuple(written),
        code_version=results.code_version,
        packages=results.packages,
    )
    folder.write_bytes(MANIFEST_NAME, manifest.model_dump_json(indent=2).encode() + b"\n")
    return manifest


def is_mixtures(manifest: bytes) -> bool:
    """Return whether a manifest's bytes are those of an experiment with mixtures, whole or not."""
    return has_format(manifest, MIXTURES_FORMAT)


def read_mixtures(folder: Store) -> MixtureManifest:
    """Return the manifest of a finished experiment.

    Raises:
        BuildError: it is damaged or of another version.
        StorageError: it cannot be read.
    """
    try:
        return MixtureManifest.model_validate_json(folder.read_bytes(MANIFEST_NAME))
    except ValidationError as exc:
        raise BuildError(
            f"{folder.uri_of(MANIFEST_NAME)}: is not the manifest of an experiment with mixtures of this version "
            f"({exc.errors()[0]['msg']})"
        ) from exc


def find_results(folder: Store, content_digest: str) -> MixtureResults | None:
    """Return the results that lie in a folder, if they are whole and were found from the same content."""
    try:
        if not folder.exists(MANIFEST_NAME):
            return None
        manifest = read_mixtures(folder)
        whole = all(folder.sha256(info.file) == info.sha256 for info in manifest.files)
        if manifest.content_digest != content_digest or not whole:
            return None
        return MixtureResults.model_validate_json(folder.read_bytes(RESULTS_NAME))
    except (ValidationError, BuildError, StorageError):
        return None
