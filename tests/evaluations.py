"""Small evaluations: a bench of synthetic rows whose replies follow the strategy, and what was heard of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bystander.flows.listeners import listening
from bystander.prompts.load import load_pack
from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.schemas.evaluate_profiles import load_evaluate_config
from bystander.storage.build_manifest import PackInfo
from final_rows import CLASSES, make_rows, write_build
from tpi_builds import Recorder

PAIRS, TWINS = 8, 3
WRITER = {"engine": "fake_text"}
STAND_INS = {
    "policy": {"engine": "stand_in", "kind": "policy"},
    "transcript": {"engine": "stand_in", "kind": "transcript", "writer": WRITER},
    "ignore_second": {"engine": "stand_in", "kind": "ignore_second", "writer": WRITER},
}
_REPLIES = {
    "actionable": "Someone with you would be late. Shall I make it eight?",
    "ignorable": "A table for {index} is booked.",
    "hard_negative": "A table for {index} at eight, since you will be late.",
}


def make_bench_rows(pairs: int = PAIRS, twins: int = TWINS) -> list[dict[str, Any]]:
    """Rows of `final_rows` with replies that the rules judge right."""
    rows = make_rows(pairs, twins)
    for row in rows:
        row["reply"] = _REPLIES[row["label"]].format(index=int(row["id"][-4:]))
    return rows


def write_bench(folder: Path, rows: list[dict[str, Any]] | None = None, pack: Any = None) -> Path:
    """Write a bench that was built with the reference pack of today."""
    digest = load_pack("reference").digest
    write_build(
        folder, rows or make_bench_rows(), pack=pack or PackInfo(name="reference", digest=digest, classes=CLASSES)
    )
    return folder


def configure(bench: Path, store: Path, **fields: Any) -> EvaluateTpiConfig:
    """Return the `fake` profile's configuration; systems are the stand-ins unless given."""
    systems = fields.pop("systems", STAND_INS)
    judges = fields.pop("judges", None)
    given = {"bench": str(bench), "store": str(store), "name": "same", "resamples": 100, "partition_rows": 4}
    overrides = {**given, **{name.replace("__", "."): value for name, value in fields.items()}}
    return load_evaluate_config("fake", (), overrides, systems, judges)


@dataclass
class Evaluated:
    folder: Path
    outcome: Any
    heard: Recorder = field(default_factory=Recorder)

    @property
    def files(self) -> dict[str, bytes]:
        """All files but the manifest, which names the store."""
        found = sorted(path for path in self.folder.rglob("*") if path.is_file() and path.name != "manifest.json")
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}

    def score(self, system: str, test: str, metric: str, judge: str = "rules") -> Any:
        """Return a `MetricScore`."""
        [found] = [s for s in self.outcome.scores.scores if (s.system, s.judge) == (system, judge)]
        [on_test] = [one for one in found.tests if one.test == test]
        return on_test.metrics[metric]


def evaluate(config: EvaluateTpiConfig) -> Evaluated:
    """Run the flow in this process."""
    from bystander.flows.evaluate_tpi import run_evaluate_tpi

    heard = Recorder()
    with listening(heard):
        outcome = run_evaluate_tpi(config)
    return Evaluated(Path(outcome.location), outcome, heard)
