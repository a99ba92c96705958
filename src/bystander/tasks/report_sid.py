"""Gathers what a SID build's report shows, from the files just written, and writes `report.html`."""

from __future__ import annotations

import pyarrow as pa

from bystander.pages.build_report import StageFunnel
from bystander.pages.sid_report import (
    Shortfall,
    SidReportData,
    choose_sid_samples,
    describe_sid_reject,
    render_sid_report,
)
from bystander.schemas.sid import SID_FINAL
from bystander.storage.build_manifest import REPORT_NAME
from bystander.storage.filesystem import Store
from bystander.storage.shard_rows import read_reject_examples, read_rows_by_id, read_without_audio
from bystander.storage.sid_manifest import SidManifest
from bystander.tasks.heard_rejects import gather_heard_rejects


def write_sid_report(store: Store, manifest: SidManifest, sample_rows: int) -> None:
    """Write the report of a build whose shards and rejects are in place; `sample_rows` can be listened to."""
    rows = pa.concat_tables(list(read_without_audio(store, manifest.shards)))
    samples = choose_sid_samples(rows, sample_rows)
    data = SidReportData(
        title=f"{manifest.dataset} / {manifest.build}",
        facts=[
            ("dataset", manifest.dataset),
            ("build", manifest.build),
            ("seed", str(manifest.seed)),
            ("prompts", manifest.prompts.name),
            *((role, f"{engine.name}: {engine.model}") for role, engine in manifest.engines.items()),
            ("code", manifest.code_version),
            *((f"disjoint from {other.dataset}/{other.build}", other.uri) for other in manifest.disjoint_from),
        ],
        stages=[StageFunnel(s.stage, s.rows_in, s.kept, s.reasons) for s in manifest.stages],
        rows=rows,
        samples=read_rows_by_id(store, manifest.shards, samples, SID_FINAL),
        annotation=manifest.annotation,
        missing=[Shortfall(quota.stratum, quota.asked, quota.got) for quota in manifest.shortfalls],
        left_out=manifest.left_out,
        rejects=[describe_sid_reject(row) for row in read_reject_examples(store, manifest.rejects)],
        heard_rejects=gather_heard_rejects(store, manifest, sample_rows),
    )
    store.write_bytes(REPORT_NAME, render_sid_report(data).encode())
