"""What a build costs on an object store: requests by kind, a stage run and a thousand rows, and time beside a disk.

Usage: python benchmarks/object_store_requests.py [--rows 500] [--partition-rows 64] [--workers 2]

Starts moto's S3 server on this machine (needs the extras `s3` and `dev`), which shares its processors: the times are no
measure of a real store, where a request takes some 20 to 50 ms and bandwidth is another; the requests are. Each build
runs in this process under Prefect's temporary server with the profile `fake`, then again unchanged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from pipeline_throughput import write_queries

from object_store_server import ObjectStoreServer

KINDS = ("PUT", "PART", "POST", "GET", "HEAD", "LIST", "DELETE")


def build(store: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Build once and return time and counts."""
    from bystander.flows.build_tpi_train import run_build_tpi_train
    from bystander.flows.listeners import SilentListener, listening
    from bystander.schemas.config import load_config
    from bystander.storage.stage_results import StageResult

    made: list[str] = []

    class Heard(SilentListener):
        def on_result(self, stage: str, _: StageResult, reused: bool) -> None:
            made.extend([] if reused else [stage])

    settings = {"queries.path": str(folder / "queries.jsonl"), "store": store, "build": "b", "report_rows": 4}
    sizes = {"workers": arguments.workers, "partition_rows": arguments.partition_rows}
    config = load_config("fake", (), {**settings, **sizes})
    config = config.model_copy(update={"targets": config.targets.scaled_to(arguments.rows)})
    start, cpu = time.perf_counter(), time.process_time()
    with listening(Heard()):
        outcome = run_build_tpi_train(config)
    return {
        "rows": outcome.manifest.counts.rows,
        "bytes": sum(shard.bytes for shard in outcome.manifest.shards),
        "stage_runs": len(made),
        "wall_s": time.perf_counter() - start,
        "cpu_s": time.process_time() - cpu,
        "checksums": [shard.sha256 for shard in outcome.manifest.shards],
    }


def name_place(path: str) -> str:
    """Return which kind of file a request was for."""
    path = path.split("/store/", 1)[-1].split("?")[0]
    return re.sub(r"(cache/\w+|tpi-train/b/\w+|tpi-train/b).*", r"\1", path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--partition-rows", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, help="file for all figures as JSON")
    arguments = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="bystander-s3-") as name, ObjectStoreServer() as server:
        folder = Path(name)
        os.environ.update({**server.environment, "PREFECT_HOME": str(folder / "prefect")})
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        from bystander.flows.prefect_settings import configure_prefect

        configure_prefect()
        write_queries(folder / "queries.jsonl", round(1.5 * arguments.rows))
        remote = f"s3://{server.make_bucket()}/store"
        for what, store in {"disk": str(folder / "store"), "S3": remote, "S3, again": remote}.items():
            since = server.mark()
            run = {"what": what, **build(store, folder, arguments)}
            run["requests"] = dict(server.count_requests(since))
            places = Counter(f"{verb} {name_place(path)}" for verb, path, _ in server.list_requests(since))
            run["places"] = dict(places.most_common())
            found.append(run)
        assert len({tuple(run["checksums"]) for run in found}) == 1
    print(
        f"| store | rows | MB | stage runs | wall s | CPU s | {' | '.join(KINDS)} | requests / stage run | / 1k rows |"
    )
    print("|" + "---|" * (8 + len(KINDS)))
    for run in found:
        counts, total = run["requests"], sum(run["requests"].values())
        cells = [run["what"], run["rows"], f"{run['bytes'] / 1e6:.0f}", run["stage_runs"]]
        cells += [f"{run['wall_s']:.1f}", f"{run['cpu_s']:.1f}", *(counts.get(kind, 0) for kind in KINDS)]
        cells += [f"{total / run['stage_runs']:.1f}" if run["stage_runs"] else "", f"{1000 * total / run['rows']:.0f}"]
        print(f"| {' | '.join(map(str, cells))} |")
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
