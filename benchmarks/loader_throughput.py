"""How fast training rows come: our loader beside `datasets` and WebDataset, on the same rows, in one run.

All three read rows in random order, in micro-batches, in one process: the encoded sound and the reply alone, and with
the sound decoded and resampled by one function, so that what differs is the loader. `datasets` streams the same Parquet
files with a shuffle buffer; its own Audio decoding needs torchcodec and FFmpeg, so `decode=False` hands out the bytes.
WebDataset streams tar files of the same rows, which are written first, with a shuffle buffer of the same size.

Measured: rows a second (wall and CPU; the median of repeats in turn), what it takes to go on from the middle of an
epoch (until the first micro-batch is there: seconds, CPU seconds, bytes read), and the share of padding.
`datasets` goes on by `load_state_dict`, which leaves out what was in its shuffle buffer; WebDataset has no such thing,
so what was seen is read again and thrown away. Bytes are those that the process asks the system for. Files are in the
page cache: the disk is not measured.

    python benchmarks/loader_throughput.py --build bystander-store/tpi-train/build-1 --work /tmp/loader
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import statistics
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from bystander.schemas.train_tpi_config import TrainTpiConfig
from bystander.schemas.training_config import HeldOutSlice
from bystander.storage.build_manifest import read_manifest
from bystander.storage.filesystem import open_store
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.audio.resampling import resample
from bystander.tasks.training.epoch_plan import measure_padding, plan_epoch
from bystander.tasks.training.open_rows import open_tpi_rows
from bystander.tasks.training.row_index import index_tpi_builds
from bystander.tasks.training.shard_examples import ShardExamples

RATE = 16000
SEED = 0
COLUMNS = ["id", "audio", "reply", "duration_s"]
Batch = list[dict[str, Any]]
"""Rows with `id`, `reply`, `duration_s`, and `audio` (encoded) or `samples`."""


@dataclass(frozen=True)
class Cost:
    wall_s: float
    cpu_s: float
    read_mb: float


def decode(data: bytes) -> np.ndarray:
    samples, rate = decode_audio(data)
    return resample(samples, rate, RATE)


def keep_row(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    del rng
    return row


class OurLoader:
    name = "bystander"

    def __init__(self, build: Path, batch: int) -> None:
        self._build, self._batch = build, batch

    def _open(self, decoded: bool) -> ShardExamples:
        index = index_tpi_builds([str(self._build)])
        columns = ["reply"] if decoded else ["reply", "audio"]
        return ShardExamples(index, keep_row, columns, rate=RATE if decoded else None, seed=SEED)

    def iterate(self, epoch: int, decoded: bool) -> Iterator[Batch]:
        source = self._open(decoded)
        for numbers in plan_epoch(source.lengths, source.groups, self._batch, SEED, epoch):
            yield source.read(numbers.tolist(), epoch)

    def prepare_resume(self, batches: int) -> Callable[[], Batch]:
        def resume() -> Batch:
            source = self._open(False)
            plan = plan_epoch(source.lengths, source.groups, self._batch, SEED, 0)
            return source.read(plan[batches].tolist(), 0)

        return resume


class DatasetsLoader:
    name = "datasets"

    def __init__(self, build: Path, batch: int, buffer: int) -> None:
        store = open_store(build)
        self._files = [store.uri_of(shard.file) for shard in read_manifest(store).shards]
        self._batch, self._buffer = batch, buffer

    def _open(self, epoch: int, decoded: bool) -> Any:
        from datasets import Audio, load_dataset

        rows = load_dataset("parquet", data_files=self._files, split="train", streaming=True, columns=COLUMNS)
        rows = rows.cast_column("audio", Audio(decode=False)).shuffle(seed=SEED, buffer_size=self._buffer)
        rows.set_epoch(epoch)
        return rows.map(_decode_row, remove_columns=["audio"]) if decoded else rows

    def iterate(self, epoch: int, decoded: bool) -> Iterator[Batch]:
        yield from _cut(iter(self._open(epoch, decoded)), self._batch)

    def prepare_resume(self, batches: int) -> Callable[[], Batch]:
        rows = self._open(0, False)
        for _ in itertools.islice(rows, batches * self._batch):
            pass
        state = rows.state_dict()

        def resume() -> Batch:
            again = self._open(0, False)
            again.load_state_dict(state)
            return next(_cut(iter(again), self._batch))

        return resume


class WebLoader:
    name = "webdataset"

    def __init__(self, build: Path, batch: int, buffer: int, work: Path) -> None:
        self._batch, self._buffer = batch, buffer
        self._files = [str(path) for path in write_tars(build, work)]

    def iterate(self, epoch: int, decoded: bool) -> Iterator[Batch]:
        import webdataset  # type: ignore[import-untyped]

        rows = webdataset.WebDataset(self._files, shardshuffle=len(self._files), seed=SEED + epoch, empty_check=False)
        yield from _cut((_open_sample(row, decoded) for row in rows.shuffle(self._buffer)), self._batch)

    def prepare_resume(self, batches: int) -> Callable[[], Batch]:
        return lambda: next(itertools.islice(self.iterate(0, False), batches, None))


def write_tars(build: Path, work: Path) -> list[Path]:
    """Write a tar file for each shard, unless it is there."""
    work.mkdir(parents=True, exist_ok=True)
    store = open_store(build)
    paths = []
    for number, shard in enumerate(read_manifest(store).shards):
        path = work / f"rows-{number:05d}.tar"
        paths.append(path)
        if path.exists():
            continue
        aside = path.with_suffix(".writing")
        with tarfile.open(aside, "w") as tar:
            for batch in pq.ParquetFile(store.uri_of(shard.file)).iter_batches(100, columns=COLUMNS):
                for row in batch.to_pylist():
                    about = {"id": row["id"], "reply": row["reply"], "duration_s": row["duration_s"]}
                    for ending, data in (("flac", row["audio"]["bytes"]), ("json", json.dumps(about).encode())):
                        member = tarfile.TarInfo(f"{row['id']}.{ending}")
                        member.size = len(data)
                        tar.addfile(member, io.BytesIO(data))
        aside.rename(path)
    return paths


def _decode_row(row: dict[str, Any]) -> dict[str, Any]:
    return {"samples": decode(row["audio"]["bytes"])}


def _open_sample(sample: dict[str, Any], decoded: bool) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(sample["json"])
    return {**row, "samples": decode(sample["flac"])} if decoded else {**row, "audio": sample["flac"]}


def _cut(rows: Iterator[dict[str, Any]], batch: int) -> Iterator[Batch]:
    while taken := list(itertools.islice(rows, batch)):
        yield taken


def measure(call: Callable[[], Any]) -> tuple[Any, Cost]:
    wall, cpu, read = time.perf_counter(), time.process_time(), _count_read()
    result = call()
    return result, Cost(time.perf_counter() - wall, time.process_time() - cpu, (_count_read() - read) / 1e6)


def _count_read() -> int:
    """Return the bytes that this process has asked the system for."""
    return int(Path("/proc/self/io").read_text().split()[1])


def run_epoch(loader: Any, epoch: int, decoded: bool) -> tuple[list[str], float]:
    """Return the ids in the order seen, and the share of padding."""
    ids: list[str] = []
    lengths: list[float] = []
    batches: list[Any] = []
    for batch in loader.iterate(epoch, decoded):
        batches.append(np.arange(len(ids), len(ids) + len(batch)))
        ids += [row["id"] for row in batch]
        lengths += [row["duration_s"] for row in batch]
    return ids, measure_padding(np.array(lengths), batches)


def compare(loaders: list[Any], rows: int, batch: int, repeats: int) -> dict[str, Any]:
    costs: dict[tuple[str, str], list[Cost]] = {}
    padding: dict[str, list[float]] = {loader.name: [] for loader in loaders}
    resumes = {loader.name: loader.prepare_resume(rows // batch // 2) for loader in loaders}
    for repeat in range(repeats):
        for mode in ("bytes", "decoded", "resume"):
            for place in range(len(loaders)):
                loader = loaders[(place + repeat) % len(loaders)]
                if mode == "resume":
                    _, cost = measure(resumes[loader.name])
                else:
                    (ids, wasted), cost = measure(partial(run_epoch, loader, repeat, mode == "decoded"))
                    if sorted(ids) != sorted(set(ids)) or len(ids) != rows:
                        raise SystemExit(
                            f"{loader.name}: {len(ids)} rows, {len(set(ids))} of them different, not {rows}"
                        )
                    padding[loader.name].append(wasted)
                costs.setdefault((loader.name, mode), []).append(cost)
                print(f"{repeat} {mode:8} {loader.name:12} {cost}", flush=True)
    return {
        loader.name: {
            "padding": round(statistics.median(padding[loader.name]), 4),
            **{mode: _summarise(costs[loader.name, mode], 0 if mode == "resume" else rows) for mode in _MODES},
        }
        for loader in loaders
    }


_MODES = ("bytes", "decoded", "resume")


def _summarise(costs: list[Cost], rows: int) -> dict[str, float]:
    wall, cpu = (statistics.median(getattr(cost, name) for cost in costs) for name in ("wall_s", "cpu_s"))
    read = statistics.median(cost.read_mb for cost in costs)
    speed = {"rows_per_s": round(rows / wall, 1), "rows_per_cpu_s": round(rows / cpu, 1)} if rows else {}
    return {**speed, "wall_s": round(wall, 3), "cpu_s": round(cpu, 3), "read_mb": round(read, 1)}


def measure_plans(build: Path, batch: int) -> dict[str, float]:
    """Return the share of padding of our plan with and without bucketing, and the seconds that a plan takes."""
    config = TrainTpiConfig(data=(str(build),), mixture="base", held_out=HeldOutSlice(share=0.0))
    source = open_tpi_rows(config, keep_row, ["reply"], rate=None).train
    plans = {
        name: plan_epoch(source.lengths, source.groups, batch, SEED, 0, bucketed=name == "bucketed")
        for name in ("bucketed", "shuffled")
    }
    found = {name: round(measure_padding(source.lengths, plan), 4) for name, plan in plans.items()}
    many = np.random.default_rng(0).gamma(4.0, 2.0, 500_000)
    _, cost = measure(lambda: plan_epoch(many, np.arange(len(many)) // 100, batch, SEED, 0))
    return {**found, "plan_of_500k_rows_s": round(cost.wall_s, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="folder of a finished TPI build")
    parser.add_argument("--work", type=Path, required=True, help="folder for tar files of the same rows")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--buffer", type=int, default=1600, help="rows of the others' shuffle buffers")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    rows = len(index_tpi_builds([str(given.build)]))
    loaders = [
        OurLoader(given.build, given.batch),
        DatasetsLoader(given.build, given.batch, given.buffer),
        WebLoader(given.build, given.batch, given.buffer, given.work),
    ]
    for loader in loaders:  # the page cache, and what is imported late
        run_epoch(loader, 0, False)
    table = compare(loaders, rows, given.batch, given.repeats)
    result = {"rows": rows, "batch": given.batch, "loaders": table, "plans": measure_plans(given.build, given.batch)}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
