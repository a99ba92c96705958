"""`manifest.json` of a training run: what was trained on what, how it went, and the checksums of its files.

It is written last: a run without one is unfinished. Like that of a build, it says nothing of when or where.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bystander.schemas.errors import BuildError, MissingFileError, StorageError
from bystander.schemas.identity import digest_json
from bystander.schemas.training_config import TRAINED, TrainingConfig
from bystander.schemas.training_data import DataRecord
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.filesystem import Store

TRAINING_FORMAT: Literal["bystander-training"] = "bystander-training"
TRAINING_VERSION = 1
"""To be raised when the same configuration and data would give other weights."""

PACKAGES = (
    "accelerate",
    "numpy",
    "peft",
    "pyarrow",
    "safetensors",
    "scipy",
    "soundfile",
    "soxr",
    "torch",
    "transformers",
)
"""Packages whose version can change a weight or a figure."""

_WORK_FOLDER = "cache/training"

TrainingKind = Literal["tpi", "sid"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrainedFile(_Section):
    """A file of the run: its path in the run's folder, and what it must hold."""

    file: str
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class BaseModelInfo(_Section):
    """The model that training began with. `digest` is of its weights' files, where these are at hand."""

    name: str
    revision: str | None = None
    digest: str | None = None
    is_local: bool = False
    """Whether it was a folder of the machine that trained, and no name on the hub."""


class PhaseRecord(_Section):
    """How one run of the trainer went. Losses are as in its history; None where they were not measured."""

    phase: str
    optimisation: dict[str, Any]
    """As run."""
    examples: int = Field(ge=0)
    """Of an epoch."""
    held_out: int = Field(ge=0)
    steps: int = Field(ge=0)
    resumed_from: tuple[int, ...] = ()
    """Steps at which it was taken up again after it had been stopped; this changes no weight."""
    history: str
    """File of its records, JSON lines."""
    first_loss: float | None = None
    last_loss: float | None = None
    first_held_out_loss: float | None = None
    last_held_out_loss: float | None = None
    best_held_out_loss: float | None = None
    best_step: int | None = None
    """Step of the lowest held-out loss."""


class TrainingManifest(_Section):
    """Everything about a training run."""

    format: Literal["bystander-training"] = TRAINING_FORMAT
    format_version: Literal[1] = 1
    name: str
    kind: TrainingKind
    architecture: str
    content_digest: str
    """Digest of all that decides the weights, but for the versions of code and packages: training takes long."""
    config: dict[str, Any]
    data: DataRecord
    base_model: BaseModelInfo | None = None
    phases: tuple[PhaseRecord, ...]
    figures: dict[str, Any] = Field(default_factory=dict)
    """What was measured of the trained model, by name."""
    notes: tuple[str, ...] = ()
    files: tuple[TrainedFile, ...]
    code_version: str
    packages: dict[str, str]


def digest_training(
    kind: TrainingKind, config: TrainingConfig, data: DataRecord, base_model: BaseModelInfo | None
) -> str:
    """Return the `content_digest` of a run that is to be made."""
    base = base_model.model_dump(mode="json", exclude={"is_local"}) if base_model is not None else None
    return digest_json([TRAINING_VERSION, kind, config.content_digest(), data.model_dump(mode="json"), base])


def open_training(store: Store, name: str) -> Store:
    """Return the folder of a run in its store."""
    return store.child(TRAINED, name)


def write_training_manifest(folder: Store, manifest: TrainingManifest) -> None:
    """Write the manifest into the run's folder; call it after every other file is in place."""
    folder.write_bytes(MANIFEST_NAME, manifest.model_dump_json(indent=2).encode() + b"\n")


def read_training(folder: Store) -> TrainingManifest:
    """Return the manifest of a finished run.

    Raises:
        BuildError: the run is unfinished, or the manifest is damaged, of another version, or of no run.
        StorageError: it cannot be read.
    """
    uri = folder.uri_of(MANIFEST_NAME)
    try:
        text = folder.read_bytes(MANIFEST_NAME)
    except MissingFileError as exc:
        raise BuildError(f"{uri}: is missing, so this is not a finished training run") from exc
    if not is_training(text):
        raise BuildError(f"{uri}: is not the manifest of a training run")
    try:
        return TrainingManifest.model_validate_json(text)
    except ValidationError as exc:
        fault = exc.errors()[0]
        field = ".".join(str(part) for part in fault["loc"])
        raise BuildError(f"{uri}: is damaged or of another version ({field}: {fault['msg']})") from exc


def is_training(manifest: bytes) -> bool:
    """Return whether a manifest is that of a training run, whole or not."""
    return has_format(manifest, TRAINING_FORMAT)


def has_format(manifest: bytes, name: str) -> bool:
    """Return whether a manifest says that it is of a format."""
    try:
        value = json.loads(manifest)
    except ValueError:
        return False
    return isinstance(value, dict) and value.get("format") == name


def find_training(store: Store, name: str, content_digest: str) -> TrainingManifest | None:
    """Return the manifest of a run of this content, if it is finished and all files are there in their size, else None.

    Checksums are for `bystander verify`: files may be large, and far away.
    """
    folder = open_training(store, name)
    try:
        manifest = read_training(folder)
        if manifest.content_digest != content_digest:
            return None
        whole = all(folder.map(lambda info: folder.holds(info.file, info.bytes), manifest.files))
    except (BuildError, StorageError):
        return None
    return manifest if whole else None


def locate_work_folder(store: Store, name: str) -> Path:
    """Return the folder of this machine in which a run is made: for checkpoints, and for files before they are whole.

    It lies in the caches of the store or, where the store is remote, in the user's cache folder. So it is the same one
    when the run is taken up again on this machine.
    """
    local = store.local_path(f"{_WORK_FOLDER}/{name}")
    if local is not None:
        return local
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "bystander" / "training" / digest_json(store.uri)[:16] / name


def measure_checkpoints(store: Store) -> dict[str, int]:
    """Return the sizes of what unfinished runs have left in the caches of a local store, in bytes by the run's name."""
    sizes: dict[str, int] = {}
    for path, size in store.list_sizes(_WORK_FOLDER).items():
        name = path.split("/")[2]
        sizes[name] = sizes.get(name, 0) + size
    return sizes
