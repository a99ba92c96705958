"""Does a build of the paper's size hold? 100,000 rows with instant engines, then the same build again, unchanged.

Usage: python benchmarks/hundred_thousand_rows.py [--rows 100000] [--workers 2] [--partition-rows 2048]

Both runs are the real flow under Prefect in a process of its own, with the profile `fake` (real trimming, mixing, FLAC
and Parquet) and requests of four words, so that a clip lasts some 4 s: the store grows by about 0.4 MB a row. Limits
that the figures are held against: fewer Prefect task runs than 1 % of the rows, memory that does not grow with the
rows, and a second run that is done within 10 s of reading its queries and calls no engine.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pipeline_throughput import Sampler, measure_children
from prefect_footprint import measure_footprint

MOST_TASK_RUNS = 0.01
MOST_REBUILD_S = 10.0
QUERIES_A_ROW = 0.75
"""Each query gives two candidates, and some four of ten of those are surplus or rejected."""


def write_queries(path: Path, count: int) -> None:
    """Write up to 60,000 different requests of four words, as JSONL."""
    verbs = "set start change cancel check move repeat save find share open close".split()
    names = (
        "anna peter maria david lucy martin sofia oliver emma simon paul clara hugo nina felix laura jonas ida victor "
        "ruth"
    ).split()
    things = "timer alarm meeting playlist reminder recipe route message photo order".split()
    places = (
        "kitchen garage office garden hallway bedroom station library cellar school attic porch studio market museum "
        "harbour bakery chapel stadium airport tower bridge square corner valley"
    ).split()
    requests = itertools.islice(itertools.product(verbs, names, things, places), count)
    with path.open("w", encoding="utf-8") as sink:
        for words in requests:
            sink.write(json.dumps({"text": " ".join(words)}) + "\n")


def count_engine_calls() -> Counter[str]:
    """Have the requests of every engine call counted."""
    from bystander.tasks.environment import StageEnvironment

    counts: Counter[str] = Counter()
    real = StageEnvironment._open

    def open_counted(self: StageEnvironment, role: Any) -> Any:
        engine = real(self, role)
        for name in ("generate", "synthesise", "recognise", "embed"):
            if hasattr(engine, name):
                setattr(engine, name, _counted(getattr(engine, name), name, counts))
        return engine

    StageEnvironment._open = open_counted  # type: ignore[method-assign]
    return counts


def _counted(call: Any, name: str, counts: Counter[str]) -> Any:
    def run(requests: Any, *args: Any, **named: Any) -> Any:
        counts[name] += len(requests)
        return call(requests, *args, **named)

    return run


def run_child(arguments: argparse.Namespace) -> None:
    """Make the build in this process and leave the figures beside it."""
    folder: Path = arguments.folder
    home = folder / "prefect"
    os.environ["PREFECT_HOME"] = str(home)
    from bystander.flows.prefect_settings import configure_prefect

    configure_prefect()
    from bystander.flows.build_tpi_train import run_build_tpi_train
    from bystander.flows.listeners import SilentListener, listening
    from bystander.schemas.config import load_config, parse_override

    marks: list[tuple[str, float, float]] = []

    class Clock(SilentListener):
        def on_phase(self, phase: str) -> None:
            marks.append((phase, time.time(), time.process_time()))

    config = load_config(
        "fake",
        (),
        {
            "queries.path": str(folder / "queries.jsonl"),
            "store": str(folder / "store"),
            "build": "b",
            "workers": arguments.workers,
            "partition_rows": arguments.partition_rows,
            **dict(parse_override(text) for text in arguments.set),
        },
    )
    # The proportions of the paper: ten two-speaker rows to a hard negative.
    labels = {"actionable": 5, "ignorable": 5}
    targets = config.targets.model_copy(update={"labels": labels, "hard_negatives": 1}).scaled_to(arguments.rows)
    config = config.model_copy(update={"targets": targets})
    calls = count_engine_calls()
    sampler = Sampler()
    sampler.start()
    with listening(Clock()):
        outcome = run_build_tpi_train(config)
    end = time.time()
    sampler.stop()
    time.sleep(3)  # the server writes what it heard of task runs within a second
    prefect = measure_footprint(home / "prefect.db")
    start, cpu_start = marks[0][1:]
    figures = {
        "published": outcome.manifest.counts.rows,
        "finished": next(s.kept for s in outcome.manifest.stages if s.stage == "verify_mixture"),
        "speech_s": outcome.manifest.counts.speech_s,
        "wall_s": end - start,
        "cpu_s": sampler.find(end)[1] - cpu_start,
        "server_cpu_s": measure_children(),
        "rss_mib": sampler.list_quarters(start, end),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "engine_requests": dict(calls),
        "phases": [[phase, at - start, cpu - cpu_start] for phase, at, cpu in marks],
        "summary": outcome.summary,
        "task_runs": prefect.task_runs,
        "database_bytes": prefect.bytes,
    }
    (folder / f"{arguments.child}.json").write_text(json.dumps(figures, indent=1))


def measure_folder(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run_both(arguments: argparse.Namespace, folder: Path) -> dict[str, dict[str, Any]]:
    """Build, and build again, each in a new process."""
    write_queries(folder / "queries.jsonl", round(QUERIES_A_ROW * arguments.rows))
    figures = {}
    for what in ("first", "again"):
        command = [sys.executable, __file__, "--child", what, "--folder", str(folder), "--rows", str(arguments.rows)]
        command += ["--workers", str(arguments.workers), "--partition-rows", str(arguments.partition_rows)]
        command += [word for text in arguments.set for word in ("--set", text)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        figures[what] = json.loads((folder / f"{what}.json").read_text())
    figures["first"]["cache_bytes"] = measure_folder(folder / "store/cache")
    figures["first"]["published_bytes"] = measure_folder(folder / "store/tpi-train")
    return figures


def describe(rows: int, figures: dict[str, dict[str, Any]]) -> list[str]:
    """Return the table, a figure a line with the limit that it is held against."""
    first, again = figures["first"], figures["again"]
    quarters = " / ".join(f"{mib:.0f}" for mib in first["rss_mib"].values())
    share = first["task_runs"] / rows
    made = sum(again["engine_requests"].values())
    lines = [
        ("rows published (finished)", f"{first['published']} ({first['finished']})", str(rows)),
        ("rows finished a second", f"{first['finished'] / first['wall_s']:.1f}", ""),
        (
            "CPU s for 1,000 rows (Prefect's server)",
            f"{1000 * first['cpu_s'] / first['finished']:.2f} ({1000 * first['server_cpu_s'] / first['finished']:.2f})",
            "",
        ),
        ("memory at 25 / 50 / 75 / 100 %, peak, MiB", f"{quarters}, {first['peak_mib']:.0f}", "flat"),
        ("Prefect task runs (share of rows)", f"{first['task_runs']} ({share:.2%})", f"< {MOST_TASK_RUNS:.0%}"),
        ("Prefect's database, MB", f"{first['database_bytes'] / 1e6:.1f}", ""),
        ("store: cache, published, GB", f"{first['cache_bytes'] / 1e9:.1f}, {first['published_bytes'] / 1e9:.1f}", ""),
        ("unchanged rebuild, s (CPU s)", f"{again['wall_s']:.1f} ({again['cpu_s']:.1f})", f"<= {MOST_REBUILD_S:g}"),
        ("its engine requests", str(made), "0"),
        ("its task runs", str(again["task_runs"] - first["task_runs"]), "0"),
    ]
    return ["| what | measured | limit |", "|---|---|---|", *(f"| {a} | {b} | {c} |" for a, b, c in lines)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--partition-rows", type=int, default=2048)
    parser.add_argument("--set", action="append", default=[], help="a field of the configuration")
    parser.add_argument("--scratch", help="folder for the build, which is removed; default: the system's own")
    parser.add_argument("--out", type=Path, help="file for all figures as JSON")
    parser.add_argument("--child", choices=("first", "again"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_child(arguments)
        return
    # The process that runs below must not outlive this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="bystander-bench-", dir=arguments.scratch))
    try:
        figures = run_both(arguments, folder)
    finally:
        shutil.rmtree(folder)
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    print("\n".join(describe(arguments.rows, figures)), f"\n{machine}")
    if arguments.out:
        arguments.out.write_text(json.dumps({"machine": machine, **figures}, indent=1))


if __name__ == "__main__":
    main()
