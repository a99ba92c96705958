"""Publishes an evaluation on VoiceBench: answers, verdicts, rejects, scores, tables, and the manifest last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from bystander.schemas.evaluate_voicebench_config import EvaluateVoiceBenchConfig
from bystander.schemas.evaluation_table import TABLE_FILES
from bystander.schemas.voicebench import VOICEBENCH_ANSWERED, VOICEBENCH_JUDGED, VOICEBENCH_REJECT
from bystander.schemas.voicebench_scores import VoiceBenchScores
from bystander.storage.build_manifest import ModelFileInfo
from bystander.storage.evaluation_manifest import SCORES_NAME, EvaluationManifest
from bystander.storage.filesystem import Store
from bystander.tasks.evaluation_folder import (
    clear_folder,
    finish_folder,
    write_answers,
    write_rows,
    write_text,
    write_verdicts,
)
from bystander.tasks.metrics.voicebench.published import load_published_voicebench
from bystander.tasks.voicebench_table import format_voicebench_table

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
    clear_folder(store)
    files = [*write_answers(store, ANSWER_COLUMNS, answers), *write_verdicts(store, VERDICT_COLUMNS, verdicts)]
    files.append(write_rows(store, "rejects.parquet", VOICEBENCH_REJECT, rejects))
    published = load_published_voicebench() if config.published else None
    texts = {name: format_voicebench_table(scores, style, published) for name, style in TABLE_FILES.items()}
    texts[SCORES_NAME] = scores.model_dump_json(indent=2) + "\n"
    files += [write_text(store, name, text) for name, text in sorted(texts.items())]
    return finish_folder(store, config, scores, models, files, content_digest)
