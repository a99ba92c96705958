"""Publishes an evaluation: answers, verdicts, scores, table and page, and the manifest last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.schemas.evaluation import ANSWERED, JUDGED
from bystander.schemas.evaluation_scores import EvaluationScores
from bystander.schemas.evaluation_table import TABLE_FILES
from bystander.storage.build_manifest import ModelFileInfo
from bystander.storage.evaluation_manifest import SCORES_NAME, EvaluationFile, EvaluationManifest
from bystander.storage.filesystem import Store
from bystander.tasks.evaluation_folder import clear_folder, finish_folder, write_answers, write_text, write_verdicts
from bystander.tasks.evaluation_tables import format_table
from bystander.tasks.report_evaluation import REPORT_NAME, write_evaluation_report

ANSWER_COLUMNS = pa.schema([column for column in ANSWERED if column.name not in ("audio", "segments")])
"""Columns of `answers/<system>.parquet`: the bench's own but for what is heard, and what the system said."""

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
    clear_folder(store)
    files = [*write_answers(store, ANSWER_COLUMNS, answers), *write_verdicts(store, VERDICT_COLUMNS, verdicts)]
    write_evaluation_report(store, scores, clips)
    files += [
        write_text(store, SCORES_NAME, scores.model_dump_json(indent=2) + "\n"),
        *(write_text(store, name, format_table(scores, style)) for name, style in TABLE_FILES.items()),
        EvaluationFile(file=REPORT_NAME, bytes=store.size(REPORT_NAME), sha256=store.sha256(REPORT_NAME)),
    ]
    return finish_folder(store, config, scores, models, files, content_digest)
