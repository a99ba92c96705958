"""How fast transcripts of many hours are read, paired and sifted by rules, before a language model is asked anything.

    python benchmarks/curate_throughput.py --transcript ES2011a_sups.jsonl.gz --hours 100

Takes a transcript (lhotse supervisions, or whatever `bystander build real-world` reads), and copies it as recordings of
other names, with times and words a little changed, until there are so many hours. Each step runs on one core, over
partitions as a build has them; seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bystander.schemas.real_world import PAIR
from bystander.schemas.real_world_config import CorpusSource
from bystander.schemas.real_world_params import FilterPairs, PairUtterances
from bystander.schemas.stages import Params, StageContext
from bystander.storage.corpora.read_corpora import read_corpus
from bystander.tasks.stages import get_stage

_PARTITION_ROWS = 20_000


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transcript", required=True, help="what is copied")
    parser.add_argument("--hours", type=float, default=100.0)
    options = parser.parse_args()
    source = read_corpus(CorpusSource(path=options.transcript)).to_pylist()
    with tempfile.TemporaryDirectory() as folder:
        copies = _write_copies(source, options.hours, Path(folder))
        steps = []
        begun = time.process_time()
        rows = read_corpus(CorpusSource(path=folder))
        steps.append(("read", len(rows), time.process_time() - begun))
    begun = time.process_time()
    pairs, unpaired = _run("pair_utterances", PairUtterances(), _cut(rows))
    steps.append(("pair", len(rows), time.process_time() - begun))
    begun = time.process_time()
    kept, refused = _run("filter_pairs", FilterPairs(), [pairs])
    steps.append(("sift by rules", len(pairs), time.process_time() - begun))
    print(f"{copies} recordings, {options.hours:g} hours, {len(rows)} utterances")
    print(f"{'step':14s} {'rows':>8s} {'seconds':>8s} {'rows/s':>8s}")
    for name, count, seconds in steps:
        print(f"{name:14s} {count:8d} {seconds:8.1f} {count / seconds:8.0f}")
    total = sum(seconds for *_, seconds in steps)
    print(f"{'all':14s} {len(rows):8d} {total:8.1f} {len(rows) / total:8.0f}")
    print(f"{len(pairs)} pairs, {len(kept)} left for the judge ({100 * len(kept) / len(rows):.2f} % of the utterances)")
    print("no pair:", ", ".join(f"{reason} {count}" for reason, count in unpaired.most_common()))
    print("refused:", ", ".join(f"{reason} {count}" for reason, count in refused.most_common()))


def _write_copies(source: list[dict[str, Any]], hours: float, folder: Path) -> int:
    """Write copies of a transcript as supervisions, and return how many."""
    length_s = max(row["end_s"] for row in source if row["fault"] is None)
    rng = np.random.Generator(np.random.PCG64(0))
    copies = round(hours * 3600 / length_s)
    with (folder / "copies.jsonl").open("w", encoding="utf-8") as file:
        for copy in range(copies):
            for row in source:
                if row["fault"] is None:
                    file.write(json.dumps(_perturb(row, copy, rng)) + "\n")
    return copies


def _perturb(row: dict[str, Any], copy: int, rng: np.random.Generator) -> dict[str, Any]:
    words = row["source_text"].split()
    if len(words) > 3 and rng.random() < 0.3:
        words.pop(int(rng.integers(len(words))))
    return {
        "recording_id": f"{row['recording']}-{copy:04d}",
        "start": round(max(0.0, row["start_s"] + float(rng.normal(0, 0.1))), 3),
        "duration": round(row["end_s"] - row["start_s"], 3),
        "speaker": row["speaker"],
        "text": " ".join(words),
    }


def _cut(rows: pa.Table) -> Iterator[pa.Table]:
    recordings = rows["recording"].to_pylist()
    start = 0
    for at in range(1, len(recordings) + 1):
        if at == len(recordings) or (recordings[at] != recordings[at - 1] and at - start >= _PARTITION_ROWS):
            yield rows.slice(start, at - start)
            start = at


def _run(name: str, params: Params, tables: Any) -> tuple[pa.Table, Counter[str]]:
    context = StageContext(0, params, None, None)  # type: ignore[arg-type]
    kept, reasons = [PAIR.empty_table()], Counter[str]()
    for table in tables:
        output = get_stage(name)(table, context)
        kept.append(output.kept)
        reasons.update(output.rejected["reject_reason"].to_pylist())
    return pa.concat_tables(kept), reasons


if __name__ == "__main__":
    main()
