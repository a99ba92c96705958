"""Small builds of TPI-Train with the fake engines, and what was heard of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bystander.flows.listeners import SilentListener, listening
from bystander.flows.pack_targets import fit_to_pack
from bystander.schemas.config import TpiBenchConfig, TpiConfig, TpiTrainConfig, load_bench_config, load_config, resize
from bystander.schemas.rebuild import RebuildPlan
from bystander.schemas.starter_queries import load_starter_queries
from bystander.storage.stage_results import StageResult

if TYPE_CHECKING:
    from bystander.flows.tpi_build import TpiOutcome

ROWS = 30
GOOD_QUERIES = 60
BAD_QUERIES = {
    "   ": "empty",
    "See https://example.com for it": "url",
    "TURN OFF the bedroom lights please": "duplicate",
}
"""Queries that are rejected, and why. The last says what the first starter query says."""


class Recorder(SilentListener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.results: list[tuple[str, StageResult, bool]] = []
        self.accepted: list[tuple[dict[str, int], dict[str, int]]] = []
        self.plans: list[RebuildPlan] = []

    def on_phase(self, phase: str) -> None:
        self.phases.append(phase)

    def on_plan(self, plan: RebuildPlan) -> None:
        self.plans.append(plan)

    def on_result(self, stage: str, result: StageResult, reused: bool) -> None:
        self.results.append((stage, result, reused))

    def on_accepted(self, accepted: dict[str, int], wanted: dict[str, int]) -> None:
        self.accepted.append((accepted, wanted))

    @property
    def made(self) -> Counter[str]:
        """Stage runs that were really made, by stage."""
        return Counter(stage for stage, _, reused in self.results if not reused)


@dataclass
class Built:
    folder: Path
    outcome: Any
    heard: Recorder = field(default_factory=Recorder)

    @property
    def checksums(self) -> list[str]:
        return [shard.sha256 for shard in self.outcome.manifest.shards]

    def read_rows(self) -> pa.Table:
        return pa.concat_tables([pq.read_table(self.folder / shard.file) for shard in self.outcome.manifest.shards])

    def read_rejects(self, stage: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.folder / "rejects" / f"{stage}.parquet").to_pylist()
        return rows


def write_queries(path: Path, count: int = GOOD_QUERIES, extra: tuple[str, ...] = ()) -> Path:
    """Write the first `count` starter queries and some more as JSON lines."""
    texts = [query.text for query in load_starter_queries()[:count]]
    path.write_text("".join(json.dumps({"question": text}) + "\n" for text in (*texts, *extra)), "utf-8")
    return path


def make_config(store: Path, queries: Path, rows: int = ROWS, **fields: Any) -> TpiTrainConfig:
    """Return the `fake` profile's configuration; double underscores in field names stand for dots."""
    return resize(fit_to_pack(load_config("fake", overrides=_list_overrides(store, queries, fields))), rows)


def build(config: TpiTrainConfig) -> Built:
    """Run the flow in this process."""
    from bystander.flows.build_tpi_train import run_build_tpi_train

    return _run(run_build_tpi_train, config)


def make_bench_config(store: Path, queries: Path, rows: int = ROWS, **fields: Any) -> TpiBenchConfig:
    """Return the `fake` profile's configuration of a bench; double underscores in field names stand for dots."""
    return resize(fit_to_pack(load_bench_config("fake", overrides=_list_overrides(store, queries, fields))), rows)


def build_bench(config: TpiBenchConfig) -> Built:
    """Run the bench flow in this process."""
    from bystander.flows.build_tpi_bench import run_build_tpi_bench

    return _run(run_build_tpi_bench, config)


def _list_overrides(store: Path, queries: Path, fields: dict[str, Any]) -> dict[str, Any]:
    given = {name.replace("__", "."): value for name, value in fields.items()}
    return {"store": str(store), "queries.path": str(queries), "report_rows": 2, **given}


def _run(flow: Callable[[Any], TpiOutcome], config: TpiConfig) -> Built:
    heard = Recorder()
    with listening(heard):
        outcome = flow(config)
    return Built(Path(outcome.location), outcome, heard)
