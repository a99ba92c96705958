"""APT of an evaluation by category, and as a bench of SID-Bench's composition would have it, whatever this one's is.

Usage: python benchmarks/weigh_categories.py EVALUATION

EVALUATION is a folder that `bystander evaluate sid` wrote. Each category's mean APT is weighted by its clips in
SID-Bench (SID paper, III-C): 1000 begin at once, 1200 break in the middle, 1000 have no break, 300 are silent, 200
noise. Intervals are 95 % of a bootstrap over recordings, each drawn whole.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

COMPOSITION: Mapping[str, int] = {
    "beginning": 1000,
    "middle": 1200,
    "uninterrupted": 1000,
    "silence": 300,
    "noise": 200,
}
RESAMPLES, LEVEL = 2000, 0.95


def weigh(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the weighted mean of categories' means; NaN where one has no case.

    Args:
        sums: of penalties, in seconds, shape (..., categories) in the order of COMPOSITION.
        counts: of cases, the same shape.
    """
    weights = np.array(list(COMPOSITION.values()), float)
    with np.errstate(invalid="ignore"):
        means: np.ndarray = (sums / counts * weights).sum(axis=-1) / weights.sum()
    return means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evaluation", type=Path)
    files = sorted((parser.parse_args().evaluation / "cases").glob("*.parquet"))
    print(f"| detector | {' | '.join(COMPOSITION)} | bench as it is | as SID-Bench is composed | FIR | IRL | missed |")
    print("|---" * (len(COMPOSITION) + 6) + "|")
    for file in files:
        rows = pq.read_table(file).to_pylist()
        clusters = sorted({row["recording_id"] or row["id"] for row in rows})
        at = {name: number for number, name in enumerate(clusters)}
        sums, counts = (np.zeros((len(clusters), len(COMPOSITION))) for _ in range(2))
        for row in rows:
            place = at[row["recording_id"] or row["id"]], list(COMPOSITION).index(row["category"])
            sums[place] += row["penalty_s"]
            counts[place] += 1
        drawn = np.random.default_rng(0).integers(0, len(clusters), (RESAMPLES, len(clusters)))
        all_sums, all_counts = sums[drawn].sum(axis=1), counts[drawn].sum(axis=1)
        told = []
        for mean, resampled in (
            (sums.sum() / counts.sum(), all_sums.sum(axis=1) / all_counts.sum(axis=1)),
            (weigh(sums.sum(axis=0), counts.sum(axis=0)), weigh(all_sums, all_counts)),
        ):
            if np.isnan(mean):
                told.append("a category lacks")
                continue
            low, high = np.nanquantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            told.append(f"{mean:.3f} [{low:.3f}, {high:.3f}]")
        means = [f"{total:.3f}" for total in sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)]
        latencies = [row["latency_s"] for row in rows if row["latency_s"] and not row["exact"]]
        false, missed = (np.mean([row["outcome"] == outcome for row in rows]) for outcome in ("FP", "FN"))
        irl = f"{np.mean(latencies):.3f}" if latencies else ""
        print(f"| {file.stem} | {' | '.join(means)} | {told[0]} | {told[1]} | {false:.3f} | {irl} | {missed:.3f} |")


if __name__ == "__main__":
    main()
