"""How much a build leaves in Prefect: task runs, and the size of its database, in SQLite or PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

TABLES = ("flow_run", "flow_run_state", "task_run", "task_run_state", "artifact", "log", "events", "event_resources")


@dataclass(frozen=True)
class Footprint:
    """Bytes on the disk (SQLite with its write-ahead log), and rows by table."""

    bytes: int
    rows: dict[str, int]

    @property
    def task_runs(self) -> int:
        return self.rows.get("task_run", 0)


def measure_footprint(database: str | Path) -> Footprint:
    """Measure a database: the path of an SQLite file, or the `postgresql+asyncpg://` address that the server uses."""
    if isinstance(database, str) and database.startswith("postgresql"):
        return asyncio.run(_measure_postgres(database.replace("+asyncpg", "")))
    return _measure_sqlite(Path(database))


def _measure_sqlite(path: Path) -> Footprint:
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows = {table: int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in TABLES}
    return Footprint(size, rows)


async def _measure_postgres(address: str) -> Footprint:
    import asyncpg

    connection = await asyncpg.connect(address)
    try:
        size = await connection.fetchval("SELECT pg_database_size(current_database())")
        rows = {table: int(await connection.fetchval(f"SELECT count(*) FROM {table}")) for table in TABLES}
    finally:
        await connection.close()
    return Footprint(int(size), rows)
