"""How well a judge tells the classes of a pack apart, and what a writer makes of each: labels, AUC, replies to read.

    python benchmarks/pack_quality.py --pack household --half measured --replies replies.jsonl

Runs the product's own stages (prompts, thresholds, scoring, rules) over the remarks of `data/pack_remarks.yaml`, which
have the class that the pack wants, and prints accuracy, the confusion matrix, and of each class that is asked about the
AUC of its probability and the threshold at which it would have most labels right. Replies are written for the wanted
class.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml
from labeller_quality import count, make_rows, measure_auc

from bystander.flows.pack_targets import fit_to_pack
from bystander.prompts.load import load_pack
from bystander.schemas.config import load_config, parse_override
from bystander.schemas.stages import StageContext
from bystander.schemas.taxonomy import load_taxonomy
from bystander.storage.call_cache import SqliteCallCache
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.cached import CachedTextEngine
from bystander.tasks.engines.registry import open_text_engine
from bystander.tasks.stages import get_stage
from bystander.tasks.stages.label_actionability import make_class_request
from bystander.tasks.stages.option_scores import score_first_option

REMARKS = Path(__file__).parent / "data" / "pack_remarks.yaml"


def find_threshold(scores: list[float], truths: list[bool]) -> float:
    """Return the middle of the thresholds at which most items fall on the right side."""
    values, positive = np.array(scores), np.array(truths)
    grid = np.linspace(0.02, 0.98, 97)
    right = [np.mean((values >= threshold) == positive) for threshold in grid]
    return float(np.median(grid[np.isclose(right, max(right))]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="laptop")
    parser.add_argument("--pack", default="household")
    parser.add_argument("--half", choices=("tuned", "measured"), default="measured")
    parser.add_argument("--set", action="append", default=[], help="field=value, as for `bystander build`")
    parser.add_argument("--cache", help="SQLite file that keeps the models' answers from run to run")
    parser.add_argument("--replies", help="JSONL file to write replies to, for people to read")
    arguments = parser.parse_args()
    overrides = dict(parse_override(text) for text in arguments.set) | {"pack": arguments.pack}
    config = fit_to_pack(load_config(arguments.profile, overrides=overrides))
    pack = load_pack(config.pack)
    items = yaml.safe_load(REMARKS.read_text("utf-8"))[arguments.half]
    truths = [item[pack.name] for item in items]
    texts = [(item["primary"], item["third_party"], "", "") for item in items]
    opened = open_text_engine(config.engines.judge or config.engines.writer, ModelStore().resolve)
    folder = TemporaryDirectory()
    # The stage asks again what was asked for the scores: from the cache.
    engine = CachedTextEngine(opened, SqliteCallCache(arguments.cache or str(Path(folder.name) / "calls.sqlite")))

    def make_context(stage: str) -> StageContext:
        params = getattr(config.stages, stage)
        return StageContext(0, params, load_taxonomy(), pack, {"judge": engine, "writer": engine})

    def run(stage: str, rows: Any) -> list[dict[str, Any]]:
        output = get_stage(stage)(rows, make_context(stage))
        return [*output.kept.to_pylist(), *output.rejected.to_pylist()]

    context = make_context("label_actionability")
    report: dict[str, Any] = {"pack": pack.name, "half": arguments.half, "items": len(items)}
    for item in pack.classes[:-1]:
        requests = [
            make_class_request(row, item, context) for row in make_rows("label_actionability", texts).to_pylist()
        ]
        scores = [float(score) for score in score_first_option(engine, requests)]  # type: ignore[arg-type]
        is_it = [truth == item.key for truth in truths]
        report[item.key] = {
            "auc": round(measure_auc(scores, is_it), 3),
            "best threshold": round(find_threshold(scores, is_it), 2),
        }
    labelled = {row["id"]: row for row in run("label_actionability", make_rows("label_actionability", texts))}
    labels = [labelled[f"item-{i}"]["label"] for i in range(len(items))]
    report["accuracy"] = float(np.mean([a == b for a, b in zip(truths, labels, strict=True)]))
    report["recall"] = {
        item.key: f"{sum(a == b == item.key for a, b in zip(truths, labels, strict=True))} of {truths.count(item.key)}"
        for item in pack.classes
    }
    report["confusion (wanted, given)"] = count(zip(truths, labels, strict=True))
    report["kinds"] = dict(Counter(f"{row['label']}: {row['kind']}" for row in labelled.values()))
    print(json.dumps(report, indent=1), flush=True)
    if arguments.replies:
        rows = make_rows("write_replies", texts)
        rows = rows.set_column(rows.schema.get_field_index("label"), "label", [truths])
        written = run("write_replies", rows.cast(get_stage("write_replies").reads))
        with Path(arguments.replies).open("w", encoding="utf-8") as stream:
            for row in sorted(written, key=lambda row: int(row["id"][5:])):
                kept = {name: row.get(name) for name in ("label", "primary_text", "third_party_text", "reply")}
                kept |= {name: row[name] for name in ("reject_reason", "raw_output") if row.get(name)}
                stream.write(json.dumps(kept, ensure_ascii=False) + "\n")
        faults = Counter((row["label"], row.get("reject_reason") or "kept") for row in written)
        print(json.dumps({"replies": {" ".join(key): n for key, n in sorted(faults.items())}}, indent=1))
    engine.close()
    folder.cleanup()


if __name__ == "__main__":
    main()
