"""Reads the rows of a finished build that a system is to answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.schemas.errors import BuildError, InputError, StorageError
from bystander.schemas.evaluation import BENCH_ROW, TestName
from bystander.storage.build_manifest import BuildManifest, read_manifest
from bystander.storage.filesystem import Store
from bystander.storage.parquet_files import open_parquet
from bystander.storage.releases import open_build

_AUDIO = "audio"
_LIGHT = [name for name in BENCH_ROW.names if name not in (_AUDIO, "test")]


@dataclass(frozen=True, slots=True)
class Bench:
    """The rows of a build that an evaluation is made over, in the order of the build's files, without their audio."""

    store: Store
    manifest: BuildManifest
    rows: tuple[dict[str, Any], ...]
    """Each with the columns of BENCH_ROW but `audio`."""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Linked twins among the rows: ids of the two-speaker row and of the one-speaker row, in the rows' order."""
        return _list_pairs(self.rows)

    @property
    def ids(self) -> list[str]:
        """Ids of the rows, in their order."""
        return [row["id"] for row in self.rows]

    def count(self, test: TestName) -> int:
        """Return the number of rows of a test."""
        return sum(row["test"] == test for row in self.rows)


def open_bench(uri: str) -> tuple[Store, BuildManifest]:
    """Return the store and manifest of a bench, whose files are all there in their size.

    Raises:
        InputError: no bench is named.
        BuildError: it is no finished build, or a shard is missing or of another size.
    """
    if not uri:
        raise InputError("bench: name the folder of a finished build with --bench")
    store = open_build(uri)
    manifest = read_manifest(store)
    for shard in manifest.shards:
        try:
            size = store.size(shard.file)
        except StorageError as exc:
            raise BuildError(f"bench {uri}: {exc}; build it again or copy it whole") from exc
        if size != shard.bytes:
            raise BuildError(
                f"bench {uri}: {shard.file} has {size} bytes, the manifest says {shard.bytes}; build it again or copy "
                "it whole"
            )
    return store, manifest


def read_bench(uri: str, tests: Sequence[TestName], rows: int | None = None) -> Bench:
    """Return the rows of the tests: of each at most `rows`, linked pairs first.

    Two-speaker rows are those of TPI-Test and one-speaker rows those of Janus-Test, whatever the build's splits are
    called.

    Raises:
        BuildError: the build is unfinished or damaged, or two rows share an id.
        InputError: it has no row of a test.
    """
    store, manifest = open_bench(uri)
    found: list[dict[str, Any]] = []
    for shard in manifest.shards:
        if store.sha256(shard.file) != shard.sha256:
            raise BuildError(f"bench {uri}: {shard.file} does not match its checksum in the manifest; build it again")
        with open_parquet(store, shard.file, shard.bytes) as part:
            found += [{"test": _name_test(row["n_speakers"]), **row} for row in part.read(columns=_LIGHT).to_pylist()]
    ids = {row["id"] for row in found}
    if len(ids) < len(found):
        raise BuildError(f"bench {uri}: {len(found) - len(ids)} rows have the id of another; verify the build")
    for test in tests:
        if not any(row["test"] == test for row in found):
            speakers = {"tpi_test": "two-speaker", "janus_test": "one-speaker"}[test]
            raise InputError(f"bench {uri}: has no {speakers} row, of which {test} is made; leave it out of tests")
    found = [row for row in found if row["test"] in tests]
    return Bench(store, manifest, tuple(_cut(found, rows)))


def read_clips(bench: Bench, batch_rows: int) -> Iterator[pa.Table]:
    """Yield the bench's rows with their audio as BENCH_ROW tables of `batch_rows` rows, in order.

    Raises:
        StorageError: a shard cannot be read.
    """
    wanted = {row["id"]: row["test"] for row in bench.rows}
    waiting = BENCH_ROW.empty_table()
    for shard in bench.manifest.shards:
        with open_parquet(bench.store, shard.file, shard.bytes) as part:
            for group in range(part.num_row_groups):
                ids = part.read_row_group(group, columns=["id"])["id"].to_pylist()
                at = [place for place, row_id in enumerate(ids) if row_id in wanted]
                if not at:
                    continue
                table = part.read_row_group(group, columns=BENCH_ROW.names[1:]).take(pa.array(at, pa.int64()))
                tests = pa.array([wanted[ids[place]] for place in at], pa.string())
                columns = [tests, *(table[name].cast(BENCH_ROW.field(name).type) for name in BENCH_ROW.names[1:])]
                waiting = pa.concat_tables([waiting, pa.Table.from_arrays(columns, schema=BENCH_ROW)])
                while len(waiting) >= batch_rows:
                    yield waiting.slice(0, batch_rows).combine_chunks()
                    waiting = waiting.slice(batch_rows)
    if len(waiting):
        yield waiting.combine_chunks()


def _name_test(speakers: int) -> TestName:
    return "tpi_test" if speakers == 2 else "janus_test"


def _list_pairs(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    there = {row["id"] for row in rows}
    return [(row["id"], row["twin_id"]) for row in rows if row["test"] == "tpi_test" and row["twin_id"] in there]


def _cut(rows: list[dict[str, Any]], most: int | None) -> list[dict[str, Any]]:
    if most is None:
        return rows
    linked = [row_id for pair in _list_pairs(rows)[:most] for row_id in pair]
    rank = {row_id: place for place, row_id in enumerate(dict.fromkeys([*linked, *(row["id"] for row in rows)]))}
    kept: set[str] = set()
    for test in ("tpi_test", "janus_test"):
        kept.update(sorted((row["id"] for row in rows if row["test"] == test), key=rank.__getitem__)[:most])
    return [row for row in rows if row["id"] in kept]
