"""Parts that are handed on in memory: equal to what is stored, and only while that is there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bystander.schemas.errors import CorruptPartError
from bystander.storage.filesystem import Store
from bystander.storage.parts import Partition, make_layer, read_partition_columns, trace_columns, write_part
from bystander.storage.recent_parts import RecentParts


def write_partition(store: Store, recent: RecentParts) -> Partition:
    base = pa.table({"id": ["a", "b", "c"], "audio": pa.array([b"1", b"22", b"333"], pa.binary())})
    after = base.take([0, 2]).append_column("score", pa.array([0.5, 1.5]))
    partition = Partition(write_part(store, "base.parquet", base, recent))
    return partition.extend(write_part(store, "layer.parquet", make_layer(base, after, [0, 2]), recent))


def test_columns_and_their_origin_are_those_of_the_stored_parts(tmp_path: Path) -> None:
    store, recent = Store(tmp_path), RecentParts()
    partition = write_partition(store, recent)
    for columns in (["id"], ["audio", "score"], ["score", "id", "audio"]):
        stored = read_partition_columns(store, partition, columns)
        kept = read_partition_columns(store, partition, columns, recent=recent)
        assert kept.equals(stored)
        assert kept.schema.equals(stored.schema, check_metadata=True)
        assert trace_columns(store, partition, columns, recent) == trace_columns(store, partition, columns)


def test_kept_part_is_not_read_again(tmp_path: Path) -> None:
    store, recent = Store(tmp_path), RecentParts()
    partition = write_partition(store, recent)
    for ref in (partition.base, *partition.layers):
        (tmp_path / ref.path).write_bytes(bytes(ref.bytes))
    assert read_partition_columns(store, partition, ["score"], recent=recent)["score"].to_pylist() == [0.5, 1.5]


@pytest.mark.parametrize("damage", ["lost", "cut"])
def test_part_that_is_lost_or_cut_is_damaged_though_it_is_kept(tmp_path: Path, damage: str) -> None:
    store, recent = Store(tmp_path), RecentParts()
    partition = write_partition(store, recent)
    path = tmp_path / "layer.parquet"
    if damage == "lost":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptPartError, match=r"layer\.parquet"):
        read_partition_columns(store, partition, ["score"], recent=recent)


def test_least_recently_used_is_forgotten_first(tmp_path: Path) -> None:
    table = pa.table({"audio": pa.array([bytes(1000)], pa.binary())})
    store, recent = Store(tmp_path), RecentParts(limit_bytes=2500)
    first, second = (write_part(store, name, table, recent) for name in ("first", "second"))
    assert recent.find(store, first) == table
    third = write_part(store, "third", table, recent)
    assert recent.find(store, second) is None
    assert recent.find(store, first) == table
    assert recent.find(store, third) == table
    recent.clear()
    assert recent.find(store, first) is None


def test_part_larger_than_the_limit_is_not_kept(tmp_path: Path) -> None:
    table = pa.table({"audio": pa.array([bytes(1000)], pa.binary())})
    store, recent = Store(tmp_path), RecentParts(limit_bytes=500)
    assert recent.find(store, write_part(store, "part", table, recent)) is None
