"""How fast is the pipeline itself? The whole flow with fake engines, beside a bare loop of FLAC and Parquet.

Usage: python benchmarks/pipeline_throughput.py [--rows 1000 20000] [--workers 1 2] [--repeats 3] [--out figures.json]

Each build runs in a process of its own: the real flow with the profile `fake` in a fresh store, from `reading queries`
to the manifest, so without the start of Prefect. So does the bare loop, which takes the clips of that build, decoded
aside, encodes them as FLAC and writes them, with the same other columns, to shards of the same settings, on as many
threads. A row counts when it is finished, whether it is published or goes to the rejects as surplus: its clip is mixed,
encoded and written in either case. The time that the fakes take to answer is measured too, as real engines would take
their own time instead.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

SAMPLE_EVERY_S = 0.1
QUARTERS = (25, 50, 75, 100)
ENCODED_AT_ONCE = 200  # clips that the bare loop holds decoded, 50 MB


class Sampler(threading.Thread):
    """Notes time, CPU seconds and resident memory of this process until it is stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[float, float, int]] = []
        self._stopped = threading.Event()
        self._process = psutil.Process()

    def run(self) -> None:
        while not self._stopped.wait(SAMPLE_EVERY_S):
            self.take()

    def take(self) -> None:
        self.samples.append((time.time(), time.process_time(), self._process.memory_info().rss))

    def stop(self) -> None:
        self._stopped.set()
        self.join()
        self.take()

    def find(self, moment: float) -> tuple[float, float, int]:
        """Return the last sample before a moment."""
        return max((s for s in self.samples if s[0] <= moment), default=self.samples[0])

    def list_quarters(self, start: float, end: float) -> dict[str, float]:
        """Return the memory in MiB when 25, 50, 75 and 100 % of the time from `start` to `end` were over."""
        return {str(q): self.find(start + (end - start) * q / 100)[2] / 2**20 for q in QUARTERS}


def write_queries(path: Path, count: int) -> None:
    """Write different requests of 7 to 13 words, as JSONL."""
    verbs = ("set", "start", "change", "cancel", "check", "move", "repeat", "save", "find", "share")
    things = ("timer", "alarm", "meeting", "playlist", "reminder", "recipe", "route", "message", "photo", "order")
    names = ("anna", "peter", "maria", "david", "lucy", "martin", "sofia", "oliver", "emma", "simon")
    places = ("kitchen", "garage", "office", "garden", "hallway", "bedroom", "station", "library", "cellar", "school")
    ends = ("", " before lunch", " after the news", " as soon as you can", " while the tea is brewing")
    with path.open("w", encoding="utf-8") as sink:
        for i in range(count):
            j = i // len(ends)
            digits = [j // 10**k % 10 for k in range(4)]
            tail = f" for the {('first', 'second', 'third')[j // 10**4 % 3]} time"
            text = (
                f"{verbs[digits[0]]} the {things[digits[1]]} of {names[digits[2]]} "
                f"in the {places[digits[3]]}{ends[i % len(ends)]}{tail if j >= 10**4 else ''}"
            )
            sink.write(json.dumps({"text": text}) + "\n")


# ---- the pipeline -------------------------------------------------------------------------------------------------


def time_engines() -> Callable[[], float]:
    """Have every engine's calls timed, and return what tells the CPU seconds spent in them so far."""
    from bystander.tasks.environment import StageEnvironment

    spent: list[float] = []
    real = StageEnvironment._open

    def timed(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            start = time.thread_time()
            try:
                return call(*args, **named)
            finally:
                spent.append(time.thread_time() - start)

        return run

    def open_timed(self: StageEnvironment, role: Any) -> Any:
        engine = real(self, role)
        for name in ("generate", "synthesise", "recognise", "embed"):
            if hasattr(engine, name):
                setattr(engine, name, timed(getattr(engine, name)))
        return engine

    StageEnvironment._open = open_timed  # type: ignore[method-assign]
    return lambda: sum(spent)


def measure_children() -> float:
    """Return the CPU seconds of this process's children so far: Prefect's temporary server."""
    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(used.user + used.system for used in times)


def run_pipeline(folder: Path, rows: int, workers: int, overrides: dict[str, Any]) -> dict[str, Any]:
    """Build `rows` rows in this process."""
    os.environ["PREFECT_HOME"] = str(folder / "prefect")
    from bystander.flows.prefect_settings import configure_prefect

    configure_prefect()
    from bystander.flows.build_tpi_train import run_build_tpi_train
    from bystander.flows.listeners import SilentListener, listening
    from bystander.schemas.config import load_config

    marks: list[tuple[str, float, float]] = []
    server_seconds: list[float] = []

    class Clock(SilentListener):
        def on_phase(self, phase: str) -> None:
            if not marks:
                server_seconds.append(measure_children())
            marks.append((phase, time.time(), time.process_time()))

    settings = {"queries.path": str(folder / "queries.jsonl"), "store": str(folder / "store"), "build": "b"}
    config = load_config("fake", (), {**settings, "workers": workers, **overrides})
    config = config.model_copy(update={"targets": config.targets.scaled_to(rows)})
    engine_seconds = time_engines()
    sampler = Sampler()
    sampler.start()
    with listening(Clock()):
        outcome = run_build_tpi_train(config)
    sampler.stop()
    server_seconds.append(measure_children())
    end = (Path(outcome.location) / "manifest.json").stat().st_mtime
    start, cpu_start = marks[0][1:]
    manifest = outcome.manifest
    return {
        "rows": next(s.kept for s in manifest.stages if s.stage == "verify_mixture"),
        "published": manifest.counts.rows,
        "speech_s": manifest.counts.speech_s,
        "wall_s": end - start,
        "cpu_s": sampler.find(end)[1] - cpu_start,
        "engine_cpu_s": engine_seconds(),
        "phases": [[phase, at - start, cpu - cpu_start] for phase, at, cpu in marks],
        "rss_mib": sampler.list_quarters(start, end),
        "server_cpu_s": server_seconds[-1] - server_seconds[0],
        "summary": outcome.summary,
    }


# ---- the bare loop ------------------------------------------------------------------------------------------------


def read_clips(folder: Path) -> Iterator[tuple[Any, list[Any]]]:
    """Yield the built rows in tables, and their clips as 16-bit values."""
    import numpy as np
    import pyarrow.parquet as pq

    from bystander.tasks.audio.coding import decode_audio, quantise

    for path in sorted((folder / "store/tpi-train/b/data").glob("*.parquet")):
        with pq.ParquetFile(path) as shard:
            for batch in shard.iter_batches(ENCODED_AT_ONCE):
                clips = [decode_audio(clip) for clip in batch.column("audio").field("bytes").to_pylist()]
                yield batch, [(np.ascontiguousarray(quantise(samples)), rate) for samples, rate in clips]


def run_bare_loop(folder: Path, workers: int) -> dict[str, Any]:
    """Encode and write the clips of a build; reading and decoding them is not counted."""
    import pyarrow as pa

    from bystander.schemas.config import load_config
    from bystander.schemas.tpi import AUDIO, FINAL
    from bystander.storage.filesystem import Store
    from bystander.storage.shards import ShardWriter
    from bystander.tasks.audio.coding import encode_flac

    config = load_config("fake")
    rate = config.stages.mix_speakers.sampling_rate
    wall = cpu = 0.0
    rows = 0
    sampler = Sampler()
    sampler.start()
    began = time.time()
    with ThreadPoolExecutor(workers) as pool:
        writer = ShardWriter(
            Store(folder / "bare"), "data", "train", FINAL, sampling_rate=rate, shard_mib=config.shard_mib
        )
        with writer:
            for batch, clips in read_clips(folder):
                start, cpu_start = time.perf_counter(), time.process_time()
                encoded = list(pool.map(lambda clip: encode_flac(*clip), clips))
                names = batch.column("audio").field("path")
                audio = pa.StructArray.from_arrays([pa.array(encoded, pa.binary()), names], fields=list(AUDIO))
                columns = [audio if f.name == "audio" else batch.column(f.name) for f in FINAL]
                writer.write(pa.Table.from_arrays(columns, schema=FINAL))
                rows += len(encoded)
                wall, cpu = wall + time.perf_counter() - start, cpu + time.process_time() - cpu_start
            start, cpu_start = time.perf_counter(), time.process_time()
        wall, cpu = wall + time.perf_counter() - start, cpu + time.process_time() - cpu_start
    sampler.stop()
    return {"rows": rows, "wall_s": wall, "cpu_s": cpu, "rss_mib": sampler.list_quarters(began, time.time())}


# ---- both, in processes of their own ------------------------------------------------------------------------------


def run_apart(what: str, folder: Path, rows: int, workers: int, overrides: list[str]) -> dict[str, Any]:
    """Run one of the two in a new process and return its figures."""
    command = [sys.executable, __file__, "--child", what, "--folder", str(folder), "--rows", str(rows)]
    command += ["--workers", str(workers), *(word for text in overrides for word in ("--set", text))]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    figures: dict[str, Any] = json.loads((folder / f"{what}.json").read_text())
    return figures


def run_child(arguments: argparse.Namespace) -> None:
    from bystander.schemas.config import parse_override

    folder, rows, workers = arguments.folder, arguments.rows[0], arguments.workers[0]
    if arguments.child == "pipeline":
        figures = run_pipeline(folder, rows, workers, dict(parse_override(text) for text in arguments.set))
    else:
        figures = run_bare_loop(folder, workers)
    figures["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (folder / f"{arguments.child}.json").write_text(json.dumps(figures))


def compare(rows: int, workers: int, overrides: list[str], scratch: str | None) -> dict[str, dict[str, Any]]:
    """Run the pipeline and then the bare loop over its clips."""
    folder = Path(tempfile.mkdtemp(prefix="bystander-bench-", dir=scratch))
    try:
        write_queries(folder / "queries.jsonl", round(1.3 * rows))
        return {what: run_apart(what, folder, rows, workers, overrides) for what in ("pipeline", "bare")}
    finally:
        shutil.rmtree(folder)


def take_medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the run whose CPU seconds are the median, with the medians of the other figures that vary."""
    middle = sorted(runs, key=lambda run: run["cpu_s"])[len(runs) // 2]
    varying = {name: statistics.median(run[name] for run in runs) for name in ("wall_s", "cpu_s", "peak_mib")}
    return {**middle, **varying}


def describe(rows: int, workers: int, figures: dict[str, dict[str, Any]]) -> list[str]:
    """Return a table row for each of the two."""
    lines = []
    for name, run in figures.items():
        count, bare = run["rows"], figures["bare"]
        cells = [rows, workers, name, count, f"{count / run['wall_s']:.0f}"]
        cells += [f"{1000 * run.get(key, 0) / count:.2f}" for key in ("cpu_s", "engine_cpu_s", "server_cpu_s")]
        cells += [f"{run['peak_mib']:.0f}", " / ".join(f"{mib:.0f}" for mib in run["rss_mib"].values())]
        if run is not bare:
            cells.append(f"{count / run['wall_s'] / (bare['rows'] / bare['wall_s']):.2f}")
            own = run["cpu_s"] - run["engine_cpu_s"]
            cells += [f"{bare['cpu_s'] / bare['rows'] * count / cpu:.2f}" for cpu in (run["cpu_s"], own)]
        else:
            cells += ["", "", ""]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


HEAD = (
    "| rows asked | workers | what | rows finished | rows/s | CPU s / 1k rows | of them fakes | and the server "
    "| peak MiB | MiB at 25/50/75/100 % | rate ratio | CPU ratio | CPU ratio without fakes |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 20000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--set", action="append", default=[], help="a field of the configuration, as in `bystander build`"
    )
    parser.add_argument("--scratch", help="folder for the builds, which are removed; default: the system's own")
    parser.add_argument("--out", type=Path, help="file for all figures as JSON")
    parser.add_argument("--child", choices=("pipeline", "bare"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_child(arguments)
        return
    # The process that runs below must not outlive this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found = []
    lines = list(HEAD)
    for rows in arguments.rows:
        for workers in arguments.workers:
            runs = [compare(rows, workers, arguments.set, arguments.scratch) for _ in range(arguments.repeats)]
            middle = {what: take_medians([run[what] for run in runs]) for what in ("pipeline", "bare")}
            lines += describe(rows, workers, middle)
            found.append({"rows": rows, "workers": workers, "median": middle, "runs": runs})
            print("\n".join(lines[-2:]), file=sys.stderr, flush=True)
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    print("\n".join(lines), f"\n{machine}; medians of {arguments.repeats}")
    if arguments.out:
        arguments.out.write_text(json.dumps({"machine": machine, "figures": found}, indent=1))


if __name__ == "__main__":
    main()
