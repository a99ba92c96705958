"""Writes what the folders of all evaluations hold: answers, verdicts, text files, and the manifest last."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from bystander.schemas.evaluation_scores import EvaluationScores
from bystander.schemas.evaluation_settings import EvaluationSettings
from bystander.schemas.sid_evaluation_scores import SidScores
from bystander.schemas.voicebench_scores import VoiceBenchScores
from bystander.storage.build_manifest import MANIFEST_NAME, ModelFileInfo
from bystander.storage.evaluation_manifest import (
    EvaluationFile,
    EvaluationManifest,
    name_verdicts,
    write_evaluation_manifest,
)
from bystander.storage.filesystem import Store
from bystander.storage.shards import write_table


def clear_folder(store: Store, *folders: str) -> None:
    """Make an evaluation unfinished: take away its manifest, its answers and verdicts, or what else is in `folders`."""
    store.remove(MANIFEST_NAME)
    store.remove_temporaries()  # of a run that was killed here
    for folder in folders or ("answers", "verdicts"):
        store.remove(folder, recursive=True)


def write_rows(
    store: Store,
    file: str,
    columns: pa.Schema,
    tables: Iterable[pa.Table],
    system: str | None = None,
    judge: str | None = None,
) -> EvaluationFile:
    """Write tables of these columns as one Parquet file, whose answers or verdicts it holds being noted."""
    info = write_table(store, file, columns, tables)
    return EvaluationFile(**info.model_dump(), system=system, judge=judge)


def write_answers(store: Store, columns: pa.Schema, answers: Mapping[str, Iterable[pa.Table]]) -> list[EvaluationFile]:
    """Write `answers/<system>.parquet` for each system."""
    return [
        write_rows(store, f"answers/{system}.parquet", columns, tables, system) for system, tables in answers.items()
    ]


def write_verdicts(
    store: Store, columns: pa.Schema, verdicts: Mapping[tuple[str, str], Iterable[pa.Table]]
) -> list[EvaluationFile]:
    """Write `verdicts/<system>.<judge>.parquet` for each system and judge."""
    return [
        write_rows(store, name_verdicts(system, judge), columns, tables, system, judge)
        for (system, judge), tables in verdicts.items()
    ]


def write_text(store: Store, name: str, text: str) -> EvaluationFile:
    """Write a text file in UTF-8."""
    data = text.encode()
    store.write_bytes(name, data)
    return EvaluationFile(file=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def finish_folder(
    store: Store,
    config: EvaluationSettings,
    scores: EvaluationScores | VoiceBenchScores | SidScores,
    models: Sequence[ModelFileInfo],
    files: Sequence[EvaluationFile],
    content_digest: str,
) -> EvaluationManifest:
    """Write the manifest and return it; call it after every file is in place."""
    manifest = EvaluationManifest(
        name=scores.name,
        content_digest=content_digest,
        config=config.model_dump(mode="json"),
        models=tuple(models),
        files=tuple(files),
        code_version=scores.code_version,
        packages=scores.packages,
    )
    write_evaluation_manifest(store, manifest)
    return manifest
