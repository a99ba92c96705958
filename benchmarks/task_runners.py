"""What do threads, Ray and Dask cost? Start-up, overhead of a stage run, and a whole build with fake engines.

Usage: python benchmarks/task_runners.py [--runners threads ray dask] [--workers 1 2] [--rows 2000] [--out figures.json]

Each case runs in a process of its own with Prefect's temporary server, whose start is not counted. Overhead is that of
stage runs over one row whose result is stored already, sent one after another (latency) and all at once (throughput).
CPU seconds are those of all processes: this one, the workers, the cluster's own and Prefect's server.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

ONE_BY_ONE = 20
AT_ONCE = 60


def measure_cpu() -> float:
    """Return the CPU seconds of this process and of all below it that are alive."""
    seconds = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            used = process.cpu_times()
        except psutil.Error:
            continue
        seconds += used.user + used.system
    return seconds


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what `work` returns, and the seconds and CPU seconds that it took."""
    start, cpu = time.perf_counter(), measure_cpu()
    result = work()
    return result, time.perf_counter() - start, measure_cpu() - cpu


def run_case(folder: Path, runner: str, workers: int, rows: int) -> dict[str, Any]:
    """Measure one task runner in this process."""
    os.environ["PREFECT_HOME"] = str(folder / "prefect")
    from bystander.flows.prefect_settings import configure_prefect

    configure_prefect()
    import pyarrow as pa
    from prefect import flow
    from prefect.task_runners import ThreadPoolTaskRunner

    from bystander.flows.build_tpi_train import run_build_tpi_train
    from bystander.flows.prefect_housekeeping import mark_this_process, start_temporary_server
    from bystander.flows.stage_workers import current_workers, stage_workers
    from bystander.schemas.config import load_config
    from bystander.schemas.stage_job import StageJob
    from bystander.storage.part_use import BASES_FOLDER
    from bystander.storage.parts import Partition, write_part_by_content
    from bystander.storage.query_files import read_queries
    from bystander.tasks.environment import close_environments, open_environment

    mark_this_process()
    start_temporary_server()
    settings = {"runner.runner": runner, "workers": workers, "store": str(folder / "store"), "build": "b"}
    if rows > 250:
        settings["queries.path"] = str(write_queries(folder / "queries.jsonl", round(1.3 * rows)))
    config = load_config("fake", (), settings)
    config = config.model_copy(update={"targets": config.targets.scaled_to(rows)})
    job = StageJob.of(config)
    store = open_environment(job).store
    row = pa.concat_tables(read_queries(config.queries)).slice(0, 1).combine_chunks()
    partition = Partition(write_part_by_content(store, BASES_FOLDER, row))

    def run_stages(count: int, at_once: bool) -> None:
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        futures = []
        for number in range(count):
            future = current_workers().submit("normalise_queries", f"p{number}", partition, job)
            future.add_done_callback(done.put)
            futures.append(future)
            if not at_once:
                done.get(timeout=300)
        for _ in range(count if at_once else 0):
            done.get(timeout=300)
        for future in futures:
            future.result(raise_on_failure=True)

    @flow(task_runner=ThreadPoolTaskRunner(max_workers=workers))
    def measure_overhead() -> dict[str, float]:
        with stage_workers(config):
            _, start_s, start_cpu_s = timed(lambda: run_stages(workers, True))
            run_stages(2 * workers, True)
            _, one_s, _ = timed(lambda: run_stages(ONE_BY_ONE, False))
            _, all_s, all_cpu_s = timed(lambda: run_stages(AT_ONCE, True))
        return {
            "start_s": start_s,
            "start_cpu_s": start_cpu_s,
            "latency_ms": 1000 * one_s / ONE_BY_ONE,
            "at_once_ms": 1000 * all_s / AT_ONCE,
            "cpu_ms": 1000 * all_cpu_s / AT_ONCE,
        }

    figures = dict(measure_overhead())
    close_environments()
    outcome, wall_s, _ = timed(lambda: run_build_tpi_train(config))
    again, again_s, _ = timed(lambda: run_build_tpi_train(config))
    assert again.manifest == outcome.manifest
    figures |= {
        "build_s": wall_s,
        "rebuild_s": again_s,
        "rows": outcome.manifest.counts.rows,
        "shards": [shard.sha256 for shard in outcome.manifest.shards],
    }
    return figures


def write_queries(path: Path, count: int) -> Path:
    """Write different requests, as JSONL."""
    sys.path.insert(0, str(Path(__file__).parent))
    from pipeline_throughput import write_queries as write

    write(path, count)
    return path


def run_apart(runner: str, workers: int, rows: int, scratch: str | None) -> dict[str, Any]:
    """Run a case in a new process and return its figures."""
    folder = Path(tempfile.mkdtemp(prefix="bystander-bench-", dir=scratch))
    try:
        command = [sys.executable, __file__, "--child", str(folder), "--runners", runner]
        subprocess.run([*command, "--workers", str(workers), "--rows", str(rows)], check=True)
        figures: dict[str, Any] = json.loads((folder / "figures.json").read_text())
        return figures
    finally:
        shutil.rmtree(folder)


COLUMNS = ("start_s", "start_cpu_s", "latency_ms", "at_once_ms", "cpu_ms", "build_s", "rebuild_s")
HEAD = (
    "| runner | workers | first stage runs, s | CPU s | a stage run alone, ms | of many, ms | CPU ms | build, s "
    "| unchanged rebuild, s |",
    f"|{'---|' * (len(COLUMNS) + 2)}",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runners", nargs="+", default=["threads", "ray", "dask"])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--scratch", help="folder for the builds, which are removed; default: the system's own")
    parser.add_argument("--out", type=Path, help="file for all figures as JSON")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        figures = run_case(arguments.child, arguments.runners[0], arguments.workers[0], arguments.rows)
        (arguments.child / "figures.json").write_text(json.dumps(figures))
        return
    found = []
    print("\n".join(HEAD), flush=True)
    for runner in arguments.runners:
        for workers in arguments.workers:
            figures = run_apart(runner, workers, arguments.rows, arguments.scratch)
            found.append({"runner": runner, "workers": workers, **figures})
            cells = [runner, workers, *(f"{figures[name]:.{0 if name.endswith('ms') else 1}f}" for name in COLUMNS)]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    same = len({tuple(case["shards"]) for case in found}) == 1
    load = os.getloadavg()[0]
    print(f"\n{platform.machine()}, {os.cpu_count()} CPUs, load {load:.1f}, {arguments.rows} rows asked; ", end="")
    print("all shards are the same" if same else "SHARDS DIFFER")
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
