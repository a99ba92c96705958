"""Gathers what a TPI build's report shows, from the files just written, and writes `report.html`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bystander.pages.build_report import (
    RejectExample,
    ReportData,
    StageFunnel,
    Stratum,
    choose_samples,
    describe_reject,
    render_build_report,
)
from bystander.schemas.tpi import FINAL
from bystander.storage.build_manifest import BuildManifest, FileInfo
from bystander.storage.filesystem import Store

REPORT_NAME = "report.html"
_EXAMPLES_A_REASON = 5
_HEAVY = ("audio", "tracks")


def write_report(
    store: Store, manifest: BuildManifest, sample_rows: int, controls: Sequence[tuple[str, str]] = ()
) -> None:
    """Write the report of a build whose shards and rejects are in place; `sample_rows` can be listened to.

    `controls` are names and figures of how well a bench is solved without listening, where they were measured.
    """
    rows = pa.concat_tables(list(_read_without_audio(store, manifest.shards)))
    samples = choose_samples(rows, sample_rows)
    facts = [
        ("dataset", manifest.dataset),
        ("build", manifest.build),
        ("seed", str(manifest.seed)),
        ("pack", manifest.pack.name),
        *((role, f"{engine.name}: {engine.model}") for role, engine in manifest.engines.items()),
        ("code", manifest.code_version),
        *((f"disjoint from {other.dataset}/{other.build}", other.uri) for other in manifest.disjoint_from),
    ]
    if manifest.parts_of is not None:
        facts.append(("cut from", manifest.parts_of.of.uri))
    data = ReportData(
        title=f"{manifest.dataset} / {manifest.build}",
        facts=facts,
        stages=[StageFunnel(s.stage, s.rows_in, s.kept, s.reasons) for s in manifest.stages],
        rows=rows,
        samples=_read_rows(store, manifest.shards, samples),
        strata=[Stratum(q.label or "all labels", q.scenario, q.asked, q.got) for q in manifest.quotas],
        rejects=list(_read_reject_examples(store, manifest.rejects)),
        controls=controls,
    )
    store.write_bytes(REPORT_NAME, render_build_report(data).encode())


def _read_without_audio(store: Store, files: Iterable[FileInfo]) -> Iterator[pa.Table]:
    for info in files:
        with store.open_read(info.file) as source, pq.ParquetFile(source) as part:
            yield part.read(columns=[name for name in part.schema_arrow.names if name not in _HEAVY])


def _read_rows(store: Store, files: Iterable[FileInfo], ids: list[str]) -> pa.Table:
    """Return the rows of these ids in their order, a row group of audio at a time."""
    found: list[pa.Table] = []
    wanted = pa.array(ids, pa.string())
    for info in files:
        with store.open_read(info.file) as source, pq.ParquetFile(source) as part:
            for group in range(part.num_row_groups):
                if pc.any(pc.is_in(part.read_row_group(group, columns=["id"])["id"], wanted)).as_py():
                    table = part.read_row_group(group)
                    found.append(table.filter(pc.is_in(table["id"], wanted)))
    if not found:
        return FINAL.empty_table()
    table = pa.concat_tables(found)
    place = {row_id: i for i, row_id in enumerate(table["id"].to_pylist())}
    return table.take(pa.array([place[row_id] for row_id in ids], pa.int64()))


def _read_reject_examples(store: Store, files: Iterable[FileInfo]) -> Iterator[RejectExample]:
    for table in _read_without_audio(store, files):
        seen: Counter[str] = Counter()
        for batch in table.to_batches(max_chunksize=1000):
            for row in batch.to_pylist():
                seen[row["reject_reason"]] += 1
                if seen[row["reject_reason"]] <= _EXAMPLES_A_REASON:
                    yield describe_reject(row)
