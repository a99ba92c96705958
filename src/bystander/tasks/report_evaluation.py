"""Gathers what the report of an evaluation shows, from the scores and the verdicts just written, and writes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bystander.pages.evaluation_report import EvaluationReport, JudgedExample, render_evaluation_report
from bystander.schemas.errors import StorageError
from bystander.schemas.evaluation import BENCH_ROW
from bystander.schemas.evaluation_scores import EvaluationScores, Example
from bystander.storage.evaluation_manifest import name_verdicts
from bystander.storage.filesystem import Store
from bystander.tasks.evaluation_tables import adjust_comparisons, build_table

REPORT_NAME = "report.html"
_VERDICT_COLUMNS = ["id", "answer", "answer_fault", "rsf", "oh"]


def write_evaluation_report(
    store: Store, scores: EvaluationScores, bench_rows: pa.Table, published: bool = False
) -> None:
    """Write `report.html` of an evaluation whose verdicts are in place.

    Args:
        store: the evaluation's folder; answers and rationales of the examples are read from its verdicts.
        scores: what the evaluation found.
        bench_rows: `BENCH_ROW` rows with audio; those of the examples are enough.
        published: show the systems of the TPI paper in the table, marked.

    Raises:
        StorageError: verdicts are missing or cannot be read, or an example is in no verdict or bench row.
    """
    examples = _read_examples(store, scores.examples)
    report = EvaluationReport(
        scores=scores,
        table=build_table(scores, published=published),
        comparisons=adjust_comparisons(scores.comparisons),
        examples=examples,
        rows=_take_rows(bench_rows, list(dict.fromkeys(one.id for one in scores.examples))),
    )
    store.write_bytes(REPORT_NAME, render_evaluation_report(report).encode())


def _read_examples(store: Store, examples: Sequence[Example]) -> list[JudgedExample]:
    """Return the examples in their order, reading each file of verdicts once."""
    wanted: defaultdict[str, list[str]] = defaultdict(list)
    for example in examples:
        wanted[name_verdicts(example.system, example.judge)].append(example.id)
    found = {file: _read_verdicts(store, file, ids) for file, ids in wanted.items()}
    return [_join_verdict(e, found[name_verdicts(e.system, e.judge)][e.id]) for e in examples]


def _read_verdicts(store: Store, file: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    try:
        with store.open_read(file) as source:
            table = pq.read_table(source, columns=_VERDICT_COLUMNS)
    except pa.ArrowException as exc:
        raise StorageError(f"{store.uri_of(file)}: cannot be read ({exc}); judge again") from exc
    rows = {row["id"]: row for row in table.filter(pc.is_in(table["id"], pa.array(ids, pa.string()))).to_pylist()}
    lost = [row_id for row_id in ids if row_id not in rows]
    if lost:
        raise StorageError(f"{store.uri_of(file)}: has no row {', '.join(lost)}, which the scores show; judge again")
    return rows


def _join_verdict(example: Example, row: Mapping[str, Any]) -> JudgedExample:
    return JudgedExample(
        example=example,
        answer=row["answer"],
        answer_fault=row["answer_fault"],
        rsf_rationale=row["rsf"]["rationale"],
        oh_rationale=row["oh"]["rationale"],
    )


def _take_rows(bench_rows: pa.Table, ids: Sequence[str]) -> pa.Table:
    places = {row_id: at for at, row_id in enumerate(bench_rows["id"].to_pylist())}
    lost = [row_id for row_id in ids if row_id not in places]
    if lost:
        raise StorageError(f"the bench has no row {', '.join(lost)}, which the scores show; evaluate it again")
    return bench_rows.select(BENCH_ROW.names).take(pa.array([places[row_id] for row_id in ids], pa.int64()))
