"""How well a judge labels: actionability, ambiguity and realism against the playbook's truth.

    python benchmarks/labeller_quality.py --profile laptop --items 240

Runs the product's own stages (prompts, thresholds, scoring) over exchanges whose truth is authored, and prints
accuracy, AUC and the confusion matrix of each. Items are drawn by seed, in equal numbers from each truth.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import mannwhitneyu, spearmanr

from bystander.prompts.load import load_pack
from bystander.schemas.config import load_config, parse_override
from bystander.schemas.identity import derive_seed
from bystander.schemas.stages import StageContext
from bystander.schemas.taxonomy import load_taxonomy
from bystander.storage.call_cache import SqliteCallCache
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.cached import CachedTextEngine
from bystander.tasks.engines.playbook_dialogues import list_dialogues, list_realism_items
from bystander.tasks.engines.registry import open_text_engine
from bystander.tasks.stages import get_stage


def draw_evenly(items: Sequence[Any], truths: Sequence[Any], count: int, name: str) -> list[int]:
    """Return indices of `count` items, as evenly over the truths as there are items."""
    by_truth: dict[Any, list[int]] = defaultdict(list)
    for i, truth in enumerate(truths):
        by_truth[truth].append(i)
    for group in by_truth.values():
        group.sort(key=lambda i: derive_seed(0, str(items[i]), name))
    share = count // len(by_truth)
    return sorted(i for group in by_truth.values() for i in group[:share])


def make_rows(stage: str, exchanges: Iterable[tuple[str, str, str, str]]) -> pa.Table:
    """Return a table that a stage reads: what it uses from the exchanges, stand-ins for the rest."""
    texts = list(exchanges)
    given = {
        "id": [f"item-{i}" for i in range(len(texts))],
        "primary_complete": [primary for primary, *_ in texts],
        "primary_text": [primary for primary, *_ in texts],
        "third_party_text": [third_party for _, third_party, *_ in texts],
        "scenario": [scenario for *_, scenario, _ in texts],
        "timing": [timing for *_, timing in texts],
    }
    columns = []
    for field in get_stage(stage).reads:
        blank: Any = "" if pa.types.is_string(field.type) else 0
        columns.append(pa.array(given.get(field.name, [blank] * len(texts)), field.type))
    return pa.Table.from_arrays(columns, schema=get_stage(stage).reads)


def measure_auc(scores: Sequence[float], truths: Sequence[bool]) -> float:
    """Return the area under the ROC curve."""
    values, positive = np.array(scores), np.array(truths)
    statistic = mannwhitneyu(values[positive], values[~positive]).statistic
    return float(statistic / positive.sum() / (~positive).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="laptop")
    parser.add_argument("--items", type=int, default=240, help="exchanges a task")
    parser.add_argument("--set", action="append", default=[], help="field=value, as for `bystander build`")
    parser.add_argument("--cache", help="SQLite file that keeps the judge's answers from run to run")
    parser.add_argument("--tasks", nargs="*", default=["actionability", "ambiguity", "realism"])
    arguments = parser.parse_args()
    config = load_config(arguments.profile, overrides=dict(parse_override(text) for text in arguments.set))
    engine = open_text_engine(config.engines.judge or config.engines.writer, ModelStore().resolve)
    if arguments.cache:
        engine = CachedTextEngine(engine, SqliteCallCache(arguments.cache))
    taxonomy, pack = load_taxonomy(config.taxonomy), load_pack(config.pack)

    def run(name: str, exchanges: Iterable[tuple[str, str, str, str]], **changes: Any) -> dict[str, dict[str, Any]]:
        params = getattr(config.stages, name).model_copy(update=changes)
        context = StageContext(0, params, taxonomy, pack, {"judge": engine})
        output = get_stage(name)(make_rows(name, exchanges), context)
        if len(output.rejected):
            print(f"{name}: {Counter(output.rejected['reject_reason'].to_pylist())}")
        return {row["id"]: row for row in output.kept.to_pylist()}

    report: dict[str, Any] = {}

    def show(name: str) -> None:
        print(json.dumps({name: report[name]}, indent=1), flush=True)

    dialogues = list({(d.primary, d.third_party): d for d in list_dialogues()}.values())
    if "actionability" in arguments.tasks:
        truths = [(d.label, d.scenario) for d in dialogues]
        chosen = [dialogues[i] for i in draw_evenly(dialogues, truths, arguments.items, "actionability")]
        rows = run("label_actionability", [(d.primary, d.third_party, d.scenario, d.timing) for d in chosen])
        pairs = [(d.label, rows[f"item-{i}"]) for i, d in enumerate(chosen) if f"item-{i}" in rows]
        scores = [r["label_score"] if r["label"] == "actionable" else 1 - r["label_score"] for _, r in pairs]
        kinds = [
            (d.kind, rows[f"item-{i}"]["kind"])
            for i, d in enumerate(chosen)
            if d.kind and rows.get(f"item-{i}", {}).get("kind")
        ]
        report["actionability"] = {
            "items": len(pairs),
            "accuracy": float(np.mean([truth == row["label"] for truth, row in pairs])),
            "auc": measure_auc(scores, [truth == "actionable" for truth, _ in pairs]),
            "confusion (truth, label)": count(((truth, row["label"]) for truth, row in pairs)),
            "kinds right of those both call actionable": f"{sum(a == b for a, b in kinds)} of {len(kinds)}",
        }
        show("actionability")
    if "ambiguity" in arguments.tasks:
        truths = [d.ambiguity for d in dialogues]
        chosen = [dialogues[i] for i in draw_evenly(dialogues, truths, arguments.items, "ambiguity")]
        rows = run("score_ambiguity", [(d.primary, d.third_party, d.scenario, d.timing) for d in chosen])
        found = [
            (d.ambiguity, rows[f"item-{i}"]["ambiguity_score"]) for i, d in enumerate(chosen) if f"item-{i}" in rows
        ]
        floor = config.stages.build_hard_negatives.min_ambiguity
        report["ambiguity"] = {
            "items": len(found),
            "accuracy of score >= min_ambiguity against truth >= 4": float(
                np.mean([(s >= floor) == (t >= 4) for t, s in found])
            ),
            "auc of truth >= 4": measure_auc([s for _, s in found], [t >= 4 for t, _ in found]),
            "spearman": float(spearmanr(*zip(*found, strict=True)).statistic),
            "confusion (truth >= 4, score >= min_ambiguity)": count((str(t >= 4), str(s >= floor)) for t, s in found),
            "mean score by truth": {t: round(float(np.mean([s for u, s in found if u == t])), 2) for t in range(1, 6)},
        }
        show("ambiguity")
    if "realism" in arguments.tasks:
        items = list(list_realism_items())
        chosen = [items[i] for i in draw_evenly(items, [item.realistic for item in items], arguments.items, "realism")]
        rows = run("check_realism", [(i.primary, i.third_party, i.scenario, i.timing) for i in chosen], min_score=0.0)
        floor = config.stages.check_realism.min_score
        found = [
            (item.realistic, rows[f"item-{i}"]["realism_score"], item.fault)
            for i, item in enumerate(chosen)
            if f"item-{i}" in rows
        ]
        caught: dict[str, list[bool]] = defaultdict(list)
        for realistic, score, fault in found:
            if not realistic:
                caught[fault or "?"].append(score < floor)
        report["realism"] = {
            "items": len(found),
            "accuracy": float(np.mean([(score >= floor) == truth for truth, score, _ in found])),
            "auc": measure_auc([score for _, score, _ in found], [truth for truth, _, _ in found]),
            "confusion (realistic, kept)": count((str(truth), str(score >= floor)) for truth, score, _ in found),
            "caught by fault": {fault: f"{sum(hits)} of {len(hits)}" for fault, hits in sorted(caught.items())},
        }
        show("realism")
    engine.close()


def count(pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Count pairs under readable keys."""
    return {f"{a} -> {b}": n for (a, b), n in sorted(Counter(pairs).items())}


if __name__ == "__main__":
    main()
