"""A build on a Prefect server that keeps its records in PostgreSQL, beside one that keeps them in SQLite.

Usage: python benchmarks/prefect_on_postgres.py [--rows 400] [--partition-rows 16] [--builds 2] [--databases postgres]

Starts a PostgreSQL cluster of its own in a temporary folder (loopback, a random password), `prefect server start` on
it, and then as many builds at once as asked for, each in a process of its own with the profile `fake`, as several
machines would. What is told is read back from the API of the server and from the database: the flow runs and their
states, task runs against the stage runs that were made, artifacts, rows by table, and size. Everything is stopped and
removed afterwards.

PostgreSQL's server programs are looked for where `pg_config` says and where Debian puts them (`apt-get install
postgresql`); without them this says so and exits with 77. They refuse to run as root, so under root they run as the
user `postgres`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
from prefect_footprint import Footprint, measure_footprint

SKIPPED = 77
PATIENCE_S = 300
SETTLE_S = 60
RECORDER = {
    f"PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_{name}": value
    for name, value in {"BATCH_SIZE": "100", "READ_BATCH_SIZE": "100", "FLUSH_INTERVAL": "1"}.items()
}
"""Task runs are recorded from events that come in bursts; one at a time, as Prefect does it by itself, they lag."""
QUIET = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PREFECT_SERVER_UI_ENABLED": "false"}


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def find_server_programs() -> Path | None:
    """Return the folder that has both `initdb` and `postgres`."""
    folders = [Path(path).parent for name in ("initdb", "postgres") if (path := shutil.which(name))]
    if (config := shutil.which("pg_config")) is not None:
        told = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False).stdout.strip()
        folders.append(Path(told))
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if all((folder / n).is_file() for n in ("initdb", "postgres"))), None)


@contextmanager
def start_postgres(programs: Path) -> Iterator[str]:
    """Start a new cluster while the block runs, and yield the address of an empty database in it."""
    user: dict[str, Any] = {}
    folder = Path(tempfile.mkdtemp(prefix="bystander-postgres-"))
    password = secrets.token_hex(16)
    port = find_free_port()
    (folder / "password").write_text(password)
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres")
        user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        for path in (folder, folder / "password"):
            os.chown(path, account.pw_uid, account.pw_gid)
    data = folder / "data"
    log = (folder / "server.log").open("wb")
    make = ["initdb", "-D", str(data), "-U", "prefect", "-A", "scram-sha-256", "--pwfile", str(folder / "password")]
    make += ["-E", "UTF8", "--locale", "C"]
    run = ["postgres", "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", str(folder)]
    try:
        for number, command in enumerate((make, run)):
            command[0] = str(programs / command[0])
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **user)
            if number == 0 and process.wait() != 0:
                raise SystemExit(f"initdb failed:\n{(folder / 'server.log').read_text()}")
        address = f"postgresql://prefect:{password}@127.0.0.1:{port}"
        try:
            asyncio.run(make_database(f"{address}/postgres"))
            yield f"{address.replace('postgresql', 'postgresql+asyncpg', 1)}/prefect"
        finally:
            process.send_signal(signal.SIGINT)  # fast shutdown: it does not wait for clients
            process.wait()
    finally:
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


async def make_database(address: str) -> None:
    """Make the database `prefect` as soon as the cluster answers."""
    import asyncpg

    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            connection = await asyncpg.connect(address)
            break
        except (OSError, asyncpg.PostgresError):
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.2)
    await connection.execute("CREATE DATABASE prefect")
    await connection.close()


@contextmanager
def start_prefect(home: Path, database: str | None) -> Iterator[tuple[str, float]]:
    """Start a Prefect server while the block runs; yield its API's address and the seconds until it answered."""
    port = find_free_port()
    environment = {**os.environ, **QUIET, **RECORDER, "PREFECT_HOME": str(home)}
    if database is not None:
        environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = database
    home.mkdir()
    command = [
        sys.executable,
        "-m",
        "prefect",
        "server",
        "start",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--no-ui",
    ]
    start = time.monotonic()
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}/api"
    try:
        while True:
            try:
                if httpx.get(f"{url}/health", trust_env=False).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            if process.poll() is not None or time.monotonic() - start > PATIENCE_S:
                raise SystemExit(f"Prefect's server did not start:\n{(home / 'server.log').read_text()[-3000:]}")
            time.sleep(0.2)
        yield url, time.monotonic() - start
    finally:
        process.terminate()
        process.wait()


def run_builds(folder: Path, url: str, arguments: argparse.Namespace) -> float:
    """Make the builds at once and return the seconds that they took, from the first's start to the last's end."""
    environment = {**os.environ, "PREFECT_API_URL": url, "PREFECT_HOME": str(folder / "client")}
    start = time.monotonic()
    builds = []
    for number in range(arguments.builds):
        command = [sys.executable, "-m", "bystander.cli.main", "build", "tpi-train", "--profile", "fake"]
        command += ["--rows", str(arguments.rows), "--name", f"build-{number}", "--seed", str(number)]
        command += ["--out", str(folder / "store"), "--set", f"partition_rows={arguments.partition_rows}"]
        command += ["--set", f"workers={arguments.workers}", "--queries", str(folder / "queries.jsonl")]
        builds.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    for build in builds:
        _, complaint = build.communicate()
        if build.returncode:
            raise SystemExit(f"a build failed: {complaint.decode()}")
    return time.monotonic() - start


def count_stage_runs(folder: Path) -> int:
    """Return how many stage runs the builds have made: each has left a result."""
    return sum(1 for _ in folder.glob("store/cache/stages/*/*/result.json"))


def ask(url: str, path: str, **body: Any) -> Any:
    return httpx.post(f"{url}/{path}", json=body, trust_env=False, timeout=60).raise_for_status().json()


def measure(kind: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Make the builds on a server of one kind of database and return what is seen of them there."""
    from pipeline_throughput import write_queries

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bystander-prefect-")))
        write_queries(folder / "queries.jsonl", round(1.5 * arguments.rows))
        address = None
        if kind == "postgres":
            programs = find_server_programs()
            assert programs is not None
            address = stack.enter_context(start_postgres(programs))
        url, started_s = stack.enter_context(start_prefect(folder / "home", address))
        empty = measure_footprint(address or folder / "home/prefect.db")
        wall_s = run_builds(folder, url, arguments)
        made, ended = count_stage_runs(folder), time.monotonic()
        while (seen := ask(url, "task_runs/count")) < made and time.monotonic() - ended < SETTLE_S:
            time.sleep(0.5)
        lag_s = time.monotonic() - ended
        runs = ask(url, "flow_runs/filter")
        states = ask(url, "task_runs/filter", limit=1)
        found: Footprint = measure_footprint(address or folder / "home/prefect.db")
        return {
            "database": kind,
            "server_start_s": round(started_s, 1),
            "builds_s": round(wall_s, 1),
            "flow_runs": {run["name"]: run["state_name"] for run in runs},
            "stage_runs_made": made,
            "task_runs_seen": seen,
            "seconds_until_seen": round(lag_s, 1),
            "a_task_run": f"{states[0]['name']}: {states[0]['state_name']}" if states else "none",
            "artifacts": sorted({artifact["key"] for artifact in ask(url, "artifacts/filter")}),
            "database_bytes": found.bytes,
            "grown_bytes": found.bytes - empty.bytes,
            "rows": found.rows,
            "complaints": count_complaints(folder / "home/server.log"),
        }


def count_complaints(log: Path) -> dict[str, int]:
    """Return how often the server's log speaks of errors and locks."""
    text = log.read_text(errors="replace")
    return {word: text.count(word) for word in ("database is locked", "ERROR")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400, help="of each build")
    parser.add_argument("--partition-rows", type=int, default=16, help="small, for many task runs")
    parser.add_argument("--builds", type=int, default=2, help="how many run at once")
    parser.add_argument("--workers", type=int, default=2, help="of each build")
    parser.add_argument("--databases", nargs="+", choices=("sqlite", "postgres"), default=["sqlite", "postgres"])
    parser.add_argument("--out", type=Path, help="file for all figures as JSON")
    arguments = parser.parse_args()
    if "postgres" in arguments.databases and find_server_programs() is None:
        print("skipped: PostgreSQL's server is not installed (apt-get install postgresql)", file=sys.stderr)
        sys.exit(SKIPPED)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started must not outlive this
    figures = []
    for kind in arguments.databases:
        figures.append(measure(kind, arguments))
        print(json.dumps(figures[-1], indent=1), flush=True)
    print("| database | builds | seconds | flow runs | task runs | of stage runs | seen after s | MB | KB a task run |")
    print("|---|---|---|---|---|---|---|---|---|")
    for one in figures:
        seen = one["task_runs_seen"]
        megabytes, kilobytes = one["database_bytes"] / 1e6, one["grown_bytes"] / 1e3 / max(1, seen)
        cells = [one["database"], arguments.builds, one["builds_s"], len(one["flow_runs"]), seen]
        cells += [one["stage_runs_made"], one["seconds_until_seen"], f"{megabytes:.1f}", f"{kilobytes:.1f}"]
        print(f"| {' | '.join(map(str, cells))} |")
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
