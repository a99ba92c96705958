"""`manifest.json` of an evaluation: what it was made from, and the checksums of its files. It is written last."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bystander.schemas.errors import BuildError, StorageError
from bystander.storage.build_manifest import MANIFEST_NAME, ModelFileInfo
from bystander.storage.filesystem import Store

EVALUATIONS = "evaluations"
"""Folder of a store that holds its evaluations."""
SCORES_NAME = "scores.json"

PACKAGES = (
    "numpy",
    "onnxruntime",
    "openai",
    "pyarrow",
    "rouge-score",
    "sacrebleu",
    "scikit-learn",
    "scipy",
    "soxr",
    "statsmodels",
    "transformers",
    "xllamacpp",
)
"""Packages whose version can change an answer, a verdict or a figure."""


Scores = TypeVar("Scores", bound=BaseModel)


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EvaluationFile(_Section):
    """A file of the evaluation. `system` and `judge` say whose answers or verdicts a Parquet file holds."""

    file: str
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    rows: int | None = None
    system: str | None = None
    judge: str | None = None


class EvaluationManifest(_Section):
    """Everything about an evaluation but its figures, which are in `scores.json`."""

    format: Literal["bystander-evaluation-manifest"] = "bystander-evaluation-manifest"
    format_version: Literal[1] = 1
    name: str
    content_digest: str
    """Digest of all that the files were made from: an equal one means that a new run would write the same files."""
    config: dict[str, Any]
    models: tuple[ModelFileInfo, ...] = ()
    files: tuple[EvaluationFile, ...]
    code_version: str
    packages: dict[str, str]


def write_evaluation_manifest(store: Store, manifest: EvaluationManifest) -> None:
    """Write the manifest into the evaluation's folder; call it after every other file is in place."""
    store.write_bytes(MANIFEST_NAME, manifest.model_dump_json(indent=2).encode() + b"\n")


def name_verdicts(system: str, judge: str) -> str:
    """Return the file, in an evaluation's folder, of a judge's verdicts on a system's answers."""
    return f"verdicts/{system}.{judge}.parquet"


def read_evaluation(store: Store, kind: type[Scores]) -> tuple[EvaluationManifest, Scores]:
    """Return manifest and scores, of class `kind`, of a finished evaluation whose files are what the manifest says.

    Raises:
        BuildError: it is unfinished, damaged, or of another version.
        StorageError: it cannot be read.
    """
    if not store.exists(MANIFEST_NAME):
        raise BuildError(f"{store.uri_of(MANIFEST_NAME)}: is missing, so this is not a finished evaluation")
    try:
        manifest = EvaluationManifest.model_validate_json(store.read_bytes(MANIFEST_NAME))
        for info in manifest.files:
            if store.size(info.file) != info.bytes or store.sha256(info.file) != info.sha256:
                raise BuildError(f"{store.uri_of(info.file)}: is not what the manifest says; evaluate again")
        return manifest, kind.model_validate_json(store.read_bytes(SCORES_NAME))
    except ValidationError as exc:
        raise BuildError(f"{store.uri}: is no evaluation of this version ({exc.errors()[0]['msg']})") from exc


def find_scores(store: Store, content_digest: str, kind: type[Scores]) -> Scores | None:
    """Return the scores that were published from the same content, if all files are whole, else None."""
    try:
        manifest, scores = read_evaluation(store, kind)
    except (BuildError, StorageError):
        return None
    return scores if manifest.content_digest == content_digest else None
