"""Gathers what a dyadic build's report shows, from the files just written, and writes `report.html`."""

from __future__ import annotations

import pyarrow as pa

from bystander.pages.build_report import StageFunnel, describe_reject
from bystander.pages.dyadic_report import DyadicReportData, render_dyadic_report
from bystander.schemas.dyadic import DYADIC_FINAL
from bystander.storage.build_manifest import REPORT_NAME
from bystander.storage.dyadic_manifest import DyadicManifest
from bystander.storage.filesystem import Store
from bystander.storage.shard_rows import read_reject_examples, read_rows_by_id, read_without_audio
from bystander.tasks.heard_rejects import gather_heard_rejects


def write_dyadic_report(store: Store, manifest: DyadicManifest, sample_rows: int) -> None:
    """Write the report of a build whose shards and rejects are in place; `sample_rows` can be listened to."""
    rows = pa.concat_tables(list(read_without_audio(store, manifest.shards)))
    samples = sorted(rows["id"].to_pylist())[:sample_rows]
    data = DyadicReportData(
        title=f"{manifest.dataset} / {manifest.build}",
        facts=[
            ("dataset", manifest.dataset),
            ("build", manifest.build),
            ("made from", manifest.made_from.uri),
            ("seed", str(manifest.seed)),
            ("pack", manifest.pack.name),
            *((role, f"{engine.name}: {engine.model}") for role, engine in manifest.engines.items()),
            ("code", manifest.code_version),
        ],
        stages=[StageFunnel(s.stage, s.rows_in, s.kept, s.reasons) for s in manifest.stages],
        rows=rows,
        samples=read_rows_by_id(store, manifest.shards, samples, DYADIC_FINAL),
        missing=[(quota.asked, quota.got) for quota in manifest.shortfalls],
        rejects=[describe_reject(row) for row in read_reject_examples(store, manifest.rejects)],
        heard_rejects=gather_heard_rejects(store, manifest, sample_rows),
    )
    store.write_bytes(REPORT_NAME, render_dyadic_report(data).encode())
