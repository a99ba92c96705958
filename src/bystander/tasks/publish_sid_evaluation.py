"""Publishes an evaluation of interruption detection: predictions, cases, scores, tables and page, the manifest last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from bystander.pages.sid_evaluation_report import SidEvaluationReport, render_sid_evaluation_report
from bystander.schemas.evaluate_sid_config import EvaluateSidConfig
from bystander.schemas.evaluation_table import TABLE_FILES
from bystander.schemas.sid_evaluation import SidCase, SidExample, Stops
from bystander.schemas.sid_evaluation_scores import SidScores
from bystander.storage.build_manifest import ModelFileInfo
from bystander.storage.evaluation_manifest import SCORES_NAME, EvaluationManifest
from bystander.storage.filesystem import Store
from bystander.storage.sid_jsonl import format_predictions, format_references
from bystander.tasks.evaluation_folder import clear_folder, finish_folder, write_rows, write_text
from bystander.tasks.score_sid import ScoreSettings, score_stops
from bystander.tasks.sid_tables import build_sid_tables, format_sid_table

REPORT_NAME = "report.html"
REFERENCES_NAME = "references.jsonl"

PACKAGES = ("numpy", "onnxruntime", "pyarrow", "scipy", "soundfile", "soxr", "ten-vad", "webrtcvad-wheels")
"""Packages whose version can change a stop or a figure."""

CASE_COLUMNS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("category", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("recording_id", pa.string()),
        pa.field("duration_s", pa.float64(), nullable=False),
        pa.field("break_time_s", pa.float64()),  # null where there is none
        pa.field("stop_time_s", pa.float64()),  # null where it never stopped
        pa.field("outcome", pa.string(), nullable=False),  # TP | FP | FN | TN
        pa.field("early", pa.bool_(), nullable=False),
        pa.field("exact", pa.bool_(), nullable=False),
        pa.field("latency_s", pa.float64()),  # of true positives
        pa.field("penalty_s", pa.float64(), nullable=False),
    ]
)
"""Columns of `cases/<system>.parquet`: what became of each clip."""


def publish_sid_evaluation(
    store: Store,
    config: EvaluateSidConfig,
    scores: SidScores,
    cases: Sequence[SidCase],
    stops: Mapping[str, Stops],
    heard: Mapping[str, SidExample],
    models: Sequence[ModelFileInfo],
    content_digest: str,
) -> EvaluationManifest:
    """Write an evaluation's folder and return its manifest; without one, it is unfinished.

    Args:
        store: the evaluation's folder.
        config: what was asked for.
        scores: what was found.
        cases: of the bench, in its order.
        stops: system to stops by case id.
        heard: what the scores' examples sound like, by case id, as far as the bench has it.
        models: files of the model store that detectors loaded.
        content_digest: of all that went into the scores.
    """
    clear_folder(store, "predictions", "cases")
    files = [
        write_rows(store, f"cases/{system}.parquet", CASE_COLUMNS, [_describe_cases(config, cases, found)], system)
        for system, found in stops.items()
    ]
    for system, found in stops.items():
        text = format_predictions({case.audio: found[case.id] for case in cases})
        files.append(write_text(store, f"predictions/{system}.jsonl", text).model_copy(update={"system": system}))
    texts = {name: format_sid_table(scores, style, config.published) for name, style in TABLE_FILES.items()}
    texts[REFERENCES_NAME] = format_references(cases, details=True)
    texts[SCORES_NAME] = scores.model_dump_json(indent=2) + "\n"
    tables = build_sid_tables(scores, config.published)
    texts[REPORT_NAME] = render_sid_evaluation_report(SidEvaluationReport(scores, tables, heard))
    files += [write_text(store, name, text) for name, text in sorted(texts.items())]
    return finish_folder(store, config, scores, models, files, content_digest)


def _describe_cases(config: EvaluateSidConfig, cases: Sequence[SidCase], stops: Stops) -> pa.Table:
    found = score_stops(cases, stops, ScoreSettings(config.tolerance_s, config.penalty_cap_s))
    columns = [
        [case.id for case in cases],
        [case.group for case in cases],
        [case.category for case in cases],
        [case.source for case in cases],
        [case.recording_id for case in cases],
        [case.duration_s for case in cases],
        [case.break_time_s for case in cases],
        [stops[case.id] for case in cases],
        found.outcome.tolist(),
        found.early.tolist(),
        (found.exact & found.has_break).tolist(),
        [float(late) if hit else None for late, hit in zip(found.latency_s, found.is_outcome("TP"), strict=True)],
        found.penalty_s.tolist(),
    ]
    arrays = [pa.array(values, column.type) for values, column in zip(columns, CASE_COLUMNS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=CASE_COLUMNS)
