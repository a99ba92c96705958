"""Gathers what the report of a build of real recordings shows, from the files just written, and writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from bystander.pages.build_report import RejectExample, StageFunnel, describe_reject, make_reject_example
from bystander.pages.real_world_report import RealWorldReportData, render_real_world_report
from bystander.schemas.real_world import REAL_FINAL
from bystander.storage.build_manifest import REPORT_NAME, BuildManifest
from bystander.storage.filesystem import Store
from bystander.storage.shard_rows import read_reject_examples, read_rows_by_id, read_without_audio
from bystander.tasks.heard_rejects import gather_heard_rejects

_MOST_CANDIDATES = 200


def write_real_world_report(
    store: Store, manifest: BuildManifest, sample_rows: int, candidates: Sequence[Mapping[str, Any]]
) -> None:
    """Write the report of a build whose shards and rejects are in place; `sample_rows` can be listened to."""
    none = pa.schema([column.with_nullable(True) for column in REAL_FINAL if column.name != "audio"]).empty_table()
    rows = pa.concat_tables([none, *read_without_audio(store, manifest.shards)])
    samples = sorted(rows["id"].to_pylist())[:sample_rows]
    data = RealWorldReportData(
        title=f"{manifest.dataset} / {manifest.build}",
        facts=[
            ("dataset", manifest.dataset),
            ("build", manifest.build),
            ("seed", str(manifest.seed)),
            ("pack", manifest.pack.name),
            *((f"corpus {corpus.name}", f"{corpus.path} ({corpus.licence})") for corpus in manifest.corpora),
            ("decisions", manifest.decisions[:12] if manifest.decisions else "none: nobody has looked at the rows"),
            *((role, f"{engine.name}: {engine.model}") for role, engine in manifest.engines.items()),
            ("code", manifest.code_version),
        ],
        stages=[StageFunnel(s.stage, s.rows_in, s.kept, s.reasons) for s in manifest.stages],
        rows=rows,
        samples=read_rows_by_id(store, manifest.shards, samples, REAL_FINAL),
        candidates=candidates[:_MOST_CANDIDATES],
        candidates_in_all=len(candidates),
        rejects=[_describe_reject(row) for row in read_reject_examples(store, manifest.rejects)],
        heard_rejects=gather_heard_rejects(store, manifest, sample_rows),
    )
    store.write_bytes(REPORT_NAME, render_real_world_report(data).encode())


def _describe_reject(row: Mapping[str, Any]) -> RejectExample:
    """Return a rejected utterance or pair in words."""
    if "source_text" in row:  # an utterance, which has no other
        return make_reject_example(row, f"{row['speaker'] or 'nobody'}: {row['source_text']}")
    return describe_reject(row)
