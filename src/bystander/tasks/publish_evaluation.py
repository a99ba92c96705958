"""Publishes an evaluation: answers, verdicts, scores, table and page, and the manifest last."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.schemas.evaluation import ANSWERED, JUDGED
from bystander.schemas.evaluation_scores import EvaluationScores
from bystander.storage.build_manifest import MANIFEST_NAME, FileInfo, ModelFileInfo
from bystander.storage.evaluation_manifest import (
    SCORES_NAME,
    EvaluationFile,
    EvaluationManifest,
    write_evaluation_manifest,
)
from bystander.storage.filesystem import Store
from bystander.storage.shards import write_table
from bystander.tasks.evaluation_tables import TableStyle, format_table
from bystander.tasks.report_evaluation import REPORT_NAME, name_verdicts, write_evaluation_report

ANSWER_COLUMNS = pa.schema([column for column in ANSWERED if column.name not in ("audio", "segments")])
"""Columns of `answers/<system>.parquet`: the bench's own but for what is heard, and what the system said."""

_TABLES: Mapping[str, TableStyle] = {"table.md": "markdown", "table.csv": "csv", "table.json": "json"}

VERDICT_COLUMNS = pa.schema(
    [
        JUDGED.field(name)
        for name in ("id", "test", "label", "primary_text", "third_party_text", "answer", "answer_fault", "rsf", "oh")
    ]
)
"""Columns of `verdicts/<system>.<judge>.parquet`."""


def publish_evaluation(
    store: Store,
    config: EvaluateTpiConfig,
    scores: EvaluationScores,
    answers: Mapping[str, Iterable[pa.Table]],
    verdicts: Mapping[tuple[str, str], Iterable[pa.Table]],
    clips: pa.Table,
    models: Sequence[ModelFileInfo],
    content_digest: str,
) -> EvaluationManifest:
    """Write an evaluation's folder and return its manifest; without one, it is unfinished.

    Args:
        store: the evaluation's folder.
        config: what was asked for.
        scores: what was found.
        answers: system to tables of ANSWER_COLUMNS, in the bench's order.
        verdicts: system and judge to tables of VERDICT_COLUMNS.
        clips: BENCH_ROW rows of the scores' examples.
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
        _list_table(write_table(store, name_verdicts(system, judge), VERDICT_COLUMNS, tables), system, judge)
        for (system, judge), tables in verdicts.items()
    ]
    write_evaluation_report(store, scores, clips)
    files += [
        _write_file(store, SCORES_NAME, scores.model_dump_json(indent=2) + "\n"),
        *(_write_file(store, name, format_table(scores, style)) for name, style in _TABLES.items()),
        EvaluationFile(file=REPORT_NAME, bytes=store.size(REPORT_NAME), sha256=store.sha256(REPORT_NAME)),
    ]
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


def _list_table(info: FileInfo, system: str, judge: str | None = None) -> EvaluationFile:
    return EvaluationFile(**info.model_dump(), system=system, judge=judge)


def _write_file(store: Store, name: str, text: str) -> EvaluationFile:
    data = text.encode()
    store.write_bytes(name, data)
    return EvaluationFile(file=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
