"""How well a tagger finds the word with new intent: against authored turns whose break is marked.

    python benchmarks/tagger_quality.py --engine rule_tagger
    python benchmarks/tagger_quality.py --engine llama_cpp --method options --half measure

Runs the product's own stage over one half of `data/tagger_turns.yaml`: prompts, lexicon and threshold were made with
`tune`, so that figures come from `measure`. Reported a language: exact (the very word, or none where there is none),
break-or-none (whether the turn is taken for an interruption), and exact by kind.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter
from tagger_turns import MarkedTurn, read_turns

from bystander.prompts.load_rubrics import load_rubrics
from bystander.schemas.config import parse_override
from bystander.schemas.sid import TURN
from bystander.schemas.sid_engine_configs import TaggerConfig
from bystander.schemas.sid_params import TagBreaks
from bystander.schemas.stages import StageContext
from bystander.schemas.taxonomy import load_taxonomy
from bystander.storage.call_cache import SqliteCallCache
from bystander.storage.model_store import ModelStore
from bystander.tasks.engines.cached import CachedTextEngine
from bystander.tasks.engines.registry import open_tagger
from bystander.tasks.stages.tag_breaks import STAGE


def make_rows(turns: list[MarkedTurn]) -> pa.Table:
    """Return the columns of TURN that the stage uses."""
    given = {
        "id": [turn.id for turn in turns],
        "language": [turn.language for turn in turns],
        "text": [turn.text for turn in turns],
        "context_text": [turn.context for turn in turns],
    }
    schema = pa.schema([TURN.field(name) for name in STAGE.needed])
    return pa.table({name: given[name] for name in schema.names}, schema=schema)


def summarise(turns: list[MarkedTurn], found: dict[str, int | None]) -> dict[str, Any]:
    """Return the shares of right tags; a rejected turn is wrong."""

    def share(chosen: list[MarkedTurn], right: Any) -> str:
        good = sum(turn.id in found and right(turn, found[turn.id]) for turn in chosen)
        return f"{good}/{len(chosen)} = {good / len(chosen):.2f}"

    by_kind: dict[str, list[MarkedTurn]] = defaultdict(list)
    for turn in turns:
        by_kind[turn.kind].append(turn)
    return {
        "exact": share(turns, lambda turn, index: turn.break_word_index == index),
        "break or none": share(turns, lambda turn, index: (turn.break_word_index is None) == (index is None)),
        "by kind": {
            kind: share(group, lambda turn, index: turn.break_word_index == index) for kind, group in by_kind.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="rule_tagger", help="engine name, or its configuration as JSON")
    parser.add_argument("--method", choices=["json", "options"], default="json")
    parser.add_argument("--half", choices=["tune", "measure"], default="measure")
    parser.add_argument("--languages", nargs="*", default=["en", "zh"])
    parser.add_argument("--prompts", default="sid", help="built-in prompts, or a folder of them")
    parser.add_argument("--set", action="append", default=[], help="field=value of the stage's settings")
    parser.add_argument("--cache", help="SQLite file that keeps the tagger's answers from run to run")
    parser.add_argument("--show", action="store_true", help="list the turns whose tag is wrong")
    arguments = parser.parse_args()
    config = json.loads(arguments.engine) if arguments.engine.startswith("{") else {"engine": arguments.engine}
    engine = open_tagger(TypeAdapter(TaggerConfig).validate_python(config), ModelStore().resolve)
    if arguments.cache:
        engine = CachedTextEngine(engine, SqliteCallCache(arguments.cache))
    params = TagBreaks(method=arguments.method, **dict(parse_override(text) for text in arguments.set))
    context = StageContext(0, params, load_taxonomy(None), load_rubrics(arguments.prompts), {"tagger": engine})
    for language in arguments.languages:
        turns = [turn for turn in read_turns() if turn.half == arguments.half and turn.language == language]
        began = time.perf_counter()
        output = STAGE(make_rows(turns), context)
        seconds = time.perf_counter() - began
        found = {row["id"]: row["break_word_index"] for row in output.kept.to_pylist()}
        report = {
            **summarise(turns, found),
            "rejected": dict(Counter(output.rejected["reject_reason"].to_pylist())),
            "seconds a turn": round(seconds / len(turns), 2),
        }
        print(json.dumps({f"{config['engine']}, {arguments.method}, {language}": report}, indent=1), flush=True)
        if arguments.show:
            for turn in turns:
                if found.get(turn.id, -1) != turn.break_word_index:
                    print(
                        f"  {turn.id}: {turn.text!r} marked {turn.break_word_index}, tagged {found.get(turn.id, '-')}"
                    )
    engine.close()


if __name__ == "__main__":
    main()
