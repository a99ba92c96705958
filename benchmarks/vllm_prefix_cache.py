"""How much of a build's prompts vLLM takes from its prefix cache, how long it starts and how many requests it answers.

    python benchmarks/vllm_prefix_cache.py --command path/to/vllm --model FOLDER [--rows 200] [--replicas 1] [--cpu]

Sends the prompts of the reference pack for starter requests, a batch a task as its stage does, through the engine
`vllm`, and reads the server's own counters. With `--cpu` the server gets the settings of the tests with a random model
(`scripts/make_tiny_qwen3.py --context 8192`); then the rate is that of vLLM's own work, not of a model, and the shares
are those of its tokenizer, which splits words into more tokens than a real one.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator
from urllib.request import urlopen

from bystander.prompts.load import load_pack
from bystander.schemas.engines import TextReply, TextRequest
from bystander.schemas.starter_queries import load_starter_queries, normalise_text
from bystander.schemas.taxonomy import load_taxonomy
from bystander.schemas.text_engine_configs import VllmTextConfig
from bystander.tasks.engines.vllm_text import VllmTextEngine

ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}


def list_batches(rows: int) -> Iterator[tuple[str, list[TextRequest]]]:
    """Yield the requests of each task, for rows that have a scenario each in turn."""
    pack, taxonomy = load_pack("reference"), load_taxonomy()
    scenarios = list(taxonomy.scenarios)
    queries = load_starter_queries()
    texts = []
    for number in range(rows):
        query, scenario = queries[number % len(queries)], scenarios[number % len(scenarios)]
        example = scenario.examples[number // len(scenarios) % len(scenario.examples)]
        texts.append(
            {
                "request": normalise_text(query.text),
                "primary": query.text,
                "third_party": example.third_party,
                "answer": query.answer,
                "scenario": scenario,
                "class": pack.classes[number % 2],
                "timing": "after_completion",
                "kind": "",
            }
        )
    options = {"check_realism": ("A", "B"), "label_class": ("A", "B"), "score_ambiguity": tuple("12345")}
    for task in (
        "write_interruption",
        "check_realism",
        "label_class",
        "write_reply",
        "score_ambiguity",
        "judge_strategy",
    ):
        yield (
            task,
            [
                TextRequest(
                    task,
                    pack.messages(task, text),
                    seed=number,
                    options=options.get(task, ()),
                    reply_schema=None if task in options else pack.reply_schema(task),
                    max_tokens=64,
                )
                for number, text in enumerate(texts)
            ],
        )


def count_cached(engine: VllmTextEngine) -> tuple[float, float]:
    """Return prompt tokens, and those of them taken from the cache, over all replicas since their start."""
    asked = hits = 0.0
    for address in engine.servers.addresses:
        with urlopen(f"{address.removesuffix('/v1')}/metrics") as answer:
            text = answer.read().decode()
        asked += sum(map(float, re.findall(r"^vllm:prefix_cache_queries_total\S* (\S+)$", text, re.MULTILINE)))
        hits += sum(map(float, re.findall(r"^vllm:prefix_cache_hits_total\S* (\S+)$", text, re.MULTILINE)))
    return asked, hits


def main() -> None:
    """Start, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    on_cpu = {"environment": ON_CPU, "extra_args": ("--enforce-eager",), "dtype": "bfloat16", "max_num_seqs": 16}
    config = VllmTextConfig(
        model=given.model, command=given.command, replicas=given.replicas, **(on_cpu if given.cpu else {})
    )
    engine = VllmTextEngine(config)
    try:
        began = time.perf_counter()
        engine.generate([next(list_batches(1))[1][0]])
        print(f"start and first answer: {time.perf_counter() - began:.0f} s, {given.replicas} replicas")
        print(f"{'task':20}{'answered':>9}{'requests/s':>11}{'prompt tokens':>14}{'from cache':>11}")
        for task, requests in list_batches(given.rows):
            before, began = count_cached(engine), time.perf_counter()
            replies = engine.generate(requests)
            seconds, after = time.perf_counter() - began, count_cached(engine)
            asked, hits = after[0] - before[0], after[1] - before[1]
            answered = sum(isinstance(reply, TextReply) for reply in replies)
            print(f"{task:20}{answered:>9}{len(replies) / seconds:>11.1f}{asked:>14.0f}{hits / asked:>11.0%}")
        asked, hits = count_cached(engine)
        print(f"{'all':20}{'':>20}{asked:>14.0f}{hits / asked:>11.0%}")
    finally:
        engine.close()


if __name__ == "__main__":
    main()
