"""Publishes an evaluation on VoiceBench: answers, verdicts, rejects, scores, tables, and the manifest last."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from pydantic import ValidationError

from bystander.schemas.errors import StorageError
from bystander.schemas.evaluate_voicebench_config import EvaluateVoiceBenchConfig
from bystander.schemas.voicebench import VOICEBENCH_ANSWERED, VOICEBENCH_JUDGED, VOICEBENCH_REJECT
from bystander.schemas.voicebench_scores import VoiceBenchScores
from bystander.storage.build_manifest import MANIFEST_NAME, FileInfo, ModelFileInfo
from bystander.storage.evaluation_manifest import (
    SCORES_NAME,
    EvaluationFile,
    EvaluationManifest,
    write_evaluation_manifest,
)
from bystander.storage.filesystem import Store
from bystander.storage.shards import write_table
from bystander.tasks.metrics.voicebench.published import load_published_voicebench
from bystander.tasks.voicebench_table import TableFormat, format_voicebench_table

ANSWER_COLUMNS = pa.schema([column for column in VOICEBENCH_ANSWERED if column.name != "audio"])
"""Columns of `answers/<system>.parquet`: the rows without their audio, and what the system said."""

VERDICT_COLUMNS = pa.schema(
    [
        VOICEBENCH_JUDGED.field(name)
        for name in ("id", "part", "split", "prompt", "reference", "answer", "answer_fault", "verdict")
    ]
)
"""Columns of `verdicts/<system>.<judge>.parquet`: rows of the judged parts."""

PACKAGES = ("nltk", "numpy", "openai", "py3langid", "pyarrow", "scipy", "soxr", "transformers", "xllamacpp")
"""Packages whose version can change an answer, a verdict or a figure."""

_TABLES: Mapping[str, TableFormat] = {"table.md": "markdown", "table.csv": "csv", "table.json": "json"}


def publish_voicebench(
    store: Store,
    config: EvaluateVoiceBenchConfig,
    scores: VoiceBenchScores,
    answers: Mapping[str, Iterable[pa.Table]],
    verdicts: Mapping[tuple[str, str], Iterable[pa.Table]],
    rejects: Iterable[pa.Table],
    models: Sequence[ModelFileInfo],
    content_digest: str,
) -> EvaluationManifest:
    """Write an evaluation's folder and return its manifest; without one, it is unfinished.

    Args:
        store: the evaluation's folder.
        config: what was asked for.
        scores: what was found.
        answers: system to tables of ANSWER_COLUMNS.
        verdicts: system and judge to tables of VERDICT_COLUMNS.
        rejects: tables of VOICEBENCH_REJECT.
        models: files of the model store that engines loaded.
        content_digest: of all that went into the scores.
    """
    store.remove(MANIFEST_NAME)
    store.remove_temporaries()  # of a run that was killed here
    for folder in ("answers", "verdicts"):
        store.remove(folder, recursive=True)
    files = [
        _list_table(write_table(store, f"answers/{system}.parquet", ANSWER_COLUMNS, tables), system)
        for system, tables in answers.items()
    ]
    files += [
        _list_table(write_table(store, f"verdicts/{system}.{judge}.parquet", VERDICT_COLUMNS, tables), system, judge)
        for (system, judge), tables in verdicts.items()
    ]
    files.append(_list_table(write_table(store, "rejects.parquet", VOICEBENCH_REJECT, rejects)))
    published = load_published_voicebench() if config.published else None
    texts = {name: format_voicebench_table(scores, form, published) for name, form in _TABLES.items()}
    texts[SCORES_NAME] = scores.model_dump_json(indent=2) + "\n"
    files += [_write_text(store, name, text) for name, text in sorted(texts.items())]
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


def find_published_voicebench(store: Store, content_digest: str) -> VoiceBenchScores | None:
    """Return the scores that were published from the same content, if all files are whole, else None."""
    try:
        manifest = EvaluationManifest.model_validate_json(store.read_bytes(MANIFEST_NAME))
        whole = all(
            store.size(info.file) == info.bytes and store.sha256(info.file) == info.sha256 for info in manifest.files
        )
        if manifest.content_digest != content_digest or not whole:
            return None
        return VoiceBenchScores.model_validate_json(store.read_bytes(SCORES_NAME))
    except (StorageError, ValidationError):
        return None


def _list_table(info: FileInfo, system: str | None = None, judge: str | None = None) -> EvaluationFile:
    return EvaluationFile(**info.model_dump(), system=system, judge=judge)


def _write_text(store: Store, name: str, text: str) -> EvaluationFile:
    data = text.encode()
    store.write_bytes(name, data)
    return EvaluationFile(file=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
