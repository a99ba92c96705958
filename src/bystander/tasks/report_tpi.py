"""Gathers what a TPI build's report shows, from the files just written, and writes `report.html`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from bystander.pages.build_report import (
    ReportData,
    StageFunnel,
    Stratum,
    choose_samples,
    describe_reject,
    render_build_report,
)
from bystander.schemas.tpi import FINAL
from bystander.storage.build_manifest import REPORT_NAME, BuildManifest
from bystander.storage.filesystem import Store
from bystander.storage.shard_rows import read_reject_examples, read_rows_by_id, read_without_audio
from bystander.tasks.heard_rejects import gather_heard_rejects


def write_report(
    store: Store, manifest: BuildManifest, sample_rows: int, controls: Sequence[tuple[str, str]] = ()
) -> None:
    """Write the report of a build whose shards and rejects are in place; `sample_rows` can be listened to.

    `controls` are names and figures of how well a bench is solved without listening, where they were measured.
    """
    rows = pa.concat_tables(list(read_without_audio(store, manifest.shards)))
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
    if manifest.on_top_of is not None:
        facts.append(("on top of", f"{manifest.on_top_of.uri}: {manifest.on_top_of.sentence}"))
    if manifest.parts_of is not None:
        facts.append(("cut from", manifest.parts_of.of.uri))
    data = ReportData(
        title=f"{manifest.dataset} / {manifest.build}",
        facts=facts,
        stages=[StageFunnel(s.stage, s.rows_in, s.kept, s.reasons) for s in manifest.stages],
        rows=rows,
        samples=read_rows_by_id(store, manifest.shards, samples, FINAL),
        strata=[Stratum(q.label or "all labels", q.scenario, q.asked, q.got) for q in manifest.quotas],
        rejects=[describe_reject(row) for row in read_reject_examples(store, manifest.rejects)],
        heard_rejects=gather_heard_rejects(store, manifest, sample_rows),
        controls=controls,
    )
    store.write_bytes(REPORT_NAME, render_build_report(data).encode())
