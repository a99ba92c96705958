"""The rows of a bench: which test each belongs to, which are taken, and benches that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bystander.schemas.errors import BuildError, InputError
from bystander.schemas.evaluation import BENCH_ROW, TESTS
from bystander.storage.bench_rows import open_bench, read_bench, read_clips
from evaluations import make_bench_rows, write_bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = make_bench_rows(8, 3)
    # Linked rows stand last, so that taking them first is no matter of order.
    return str(write_bench(tmp_path_factory.mktemp("bench"), [*rows[3:8], *rows[:3], *rows[8:]]))


def list_ids(bench: str, **fields: object) -> list[str]:
    return [row["id"] for row in read_bench(bench, **{"tests": TESTS, **fields}).rows]  # type: ignore[arg-type]


def test_rows_keep_the_order_of_the_files(bench: str) -> None:
    found = read_bench(bench, TESTS)
    assert [row["id"] for row in found.rows][:6] == [f"row-000{n}" for n in (3, 4, 5, 6, 7, 0)]
    assert {row["id"][:2]: row["test"] for row in found.rows} == {"ro": "tpi_test", "hn": "janus_test"}
    assert found.pairs == [(f"row-000{n}", f"hn-000{n}") for n in range(3)]
    assert (found.count("tpi_test"), found.count("janus_test")) == (8, 3)


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        (1, ["row-0000", "hn-0000"]),
        (2, ["row-0000", "row-0001", "hn-0000", "hn-0001"]),
        (4, ["row-0003", "row-0000", "row-0001", "row-0002", "hn-0000", "hn-0001", "hn-0002"]),
    ],
)
def test_a_cut_takes_linked_pairs_first(bench: str, rows: int, ids: list[str]) -> None:
    assert list_ids(bench, rows=rows) == ids


def test_one_test_has_no_pairs(bench: str) -> None:
    found = read_bench(bench, ("janus_test",))
    assert [row["id"] for row in found.rows] == ["hn-0000", "hn-0001", "hn-0002"]
    assert found.pairs == []


@pytest.mark.parametrize("size", [1, 4, 100])
def test_clips_come_in_the_same_order_whatever_the_batch(bench: str, size: int) -> None:
    found = read_bench(bench, TESTS, rows=4)
    tables = list(read_clips(found, size))
    assert [len(table) for table in tables[:-1]] == [size] * (len(tables) - 1)
    assert all(table.schema == BENCH_ROW for table in tables)
    rows = [row for table in tables for row in table.to_pylist()]
    assert [row["id"] for row in rows] == [row["id"] for row in found.rows]
    assert all(row["audio"]["bytes"][:4] == b"fLaC" for row in rows)


def test_benches_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--bench"):
        open_bench("")
    with pytest.raises(BuildError, match="is missing, so this is not a finished build"):
        open_bench(str(tmp_path))
    pairs_only = write_bench(tmp_path / "pairs", make_bench_rows(4, 0))
    with pytest.raises(InputError, match="has no one-speaker row, of which janus_test is made"):
        read_bench(str(pairs_only), TESTS)
    assert len(read_bench(str(pairs_only), ("tpi_test",)).rows) == 4
    doubled = write_bench(tmp_path / "doubled", [*make_bench_rows(2, 1), make_bench_rows(1, 0)[0]])
    with pytest.raises(BuildError, match="1 rows have the id of another"):
        read_bench(str(doubled), TESTS)
    [shard] = (pairs_only / "data").glob("*.parquet")
    shard.write_bytes(shard.read_bytes() + b"x")
    with pytest.raises(BuildError, match="the manifest says"):
        open_bench(str(pairs_only))
    shard.unlink()
    with pytest.raises(BuildError, match="is missing; build it again"):
        open_bench(str(pairs_only))
