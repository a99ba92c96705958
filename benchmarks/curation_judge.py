"""How well a language model judges pairs of turns by the three criteria of real-world curation.

    python benchmarks/curation_judge.py --profile laptop

`benchmarks/data/real_pairs.jsonl` has pairs that were written and labelled by hand: half of them are there to set
thresholds on, the other half gives the figures.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.metrics import roc_auc_score

from bystander.schemas.engines import RowFault
from bystander.schemas.identity import make_id
from bystander.schemas.real_world_config import load_real_world_config
from bystander.schemas.stage_job import StageJob
from bystander.schemas.text_tasks import GRADE_ANSWERABLE, GRADE_INTERRUPTION, GRADE_REQUEST, TextTask
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.stages.score_pairs import grade_pairs

_PAIRS = Path(__file__).parent / "data" / "real_pairs.jsonl"
_CRITERIA: Sequence[tuple[TextTask, str, str]] = (
    (GRADE_REQUEST, "query", "min_query"),
    (GRADE_ANSWERABLE, "answerable", "min_answerable"),
    (GRADE_INTERRUPTION, "interruption", "min_interruption"),
)


def main() -> None:
    """Score all pairs, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="laptop")
    parser.add_argument("--config", action="append", default=[])
    parser.add_argument("--show", action="store_true", help="print each pair with its scores")
    options = parser.parse_args()
    config = load_real_world_config(options.profile, options.config, {"corpora": [{"path": "none"}]})
    pairs = [json.loads(line) for line in _PAIRS.read_text("utf-8").splitlines()]
    rows = [
        {
            "id": make_id("pair", pair["primary"], pair["third_party"]),
            "primary_text": pair["primary"],
            "third_party_text": pair["third_party"],
        }
        for pair in pairs
    ]
    environment = StageEnvironment(StageJob.of_real_world(config), keeps_calls=False)
    try:
        for task, label, setting in _CRITERIA:
            scores = grade_pairs(task, rows, environment.pack, environment.engine("judge"), 0)
            for pair, score in zip(pairs, scores, strict=True):
                assert not isinstance(score, RowFault), score
                pair[f"{label}_score"] = score
            _report(pairs, label, getattr(config.stages.score_pairs, setting))
        _report_all(pairs, config.stages.score_pairs)
    finally:
        environment.close()
    if options.show:
        for pair in pairs:
            print(json.dumps({k: round(v, 2) if isinstance(v, float) else v for k, v in pair.items()}))


def _report(pairs: list[dict[str, Any]], label: str, least: float) -> None:
    for part in ("set", "test"):
        own = [pair for pair in pairs if pair["part"] == part]
        truth = [pair[label] for pair in own]
        scores = [pair[f"{label}_score"] for pair in own]
        passed = [score >= least for score in scores]
        hit = sum(t and p for t, p in zip(truth, passed, strict=True))
        auc = roc_auc_score(truth, scores) if len(set(truth)) == 2 else float("nan")
        best = max((sum((s >= c) == t for s, t in zip(scores, truth, strict=True)), -c) for c in scores)
        print(
            f"{label:13s} {part:4s} AUC {auc:.2f}  at {least:g}: precision {hit}/{sum(passed)}, "
            f"recall {hit}/{sum(truth)}  best accuracy {best[0]}/{len(own)} at {-best[1]:.2f}"
        )


def _report_all(pairs: list[dict[str, Any]], params: Any) -> None:
    for part in ("set", "test"):
        own = [pair for pair in pairs if pair["part"] == part]
        passed = [
            all(pair[f"{label}_score"] >= getattr(params, setting) for _, label, setting in _CRITERIA) for pair in own
        ]
        truth = [all(pair[label] for _, label, _ in _CRITERIA) for pair in own]
        hit = sum(t and p for t, p in zip(truth, passed, strict=True))
        print(f"all three     {part:4s} precision {hit}/{sum(passed)}, recall {hit}/{sum(truth)}")


if __name__ == "__main__":
    main()
