"""Parts, layers and the tracing of columns to where they come from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import CorruptPartError
from bystander.storage.filesystem import Store
from bystander.storage.parts import (
    Partition,
    apply_layer,
    make_layer,
    read_part,
    read_partition,
    read_partition_columns,
    trace_columns,
    write_part,
)

TRACKS = pa.list_(pa.struct([("speaker", pa.string()), ("audio", pa.binary())]))
AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def make_table(n: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"row-{i}" for i in range(n)],
            "audio": pa.array([{"bytes": bytes([i % 256]) * 50, "path": f"{i}.flac"} for i in range(n)], AUDIO),
            "reply": [f"reply {i}" for i in range(n)],
        }
    )


def add_layers(store: Store, base: pa.Table, *tables: tuple[pa.Table, list[int]]) -> Partition:
    partition = Partition(write_part(store, "base.parquet", base))
    before = base
    for number, (after, at) in enumerate(tables):
        partition = partition.extend(write_part(store, f"{number}.parquet", make_layer(before, after, at)))
        before = after
    return partition


def test_part_round_trips_and_counts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    ref = write_part(store, "a/b.parquet", make_table(5))
    assert ref.rows == 5
    assert ref.bytes == (tmp_path / "a/b.parquet").stat().st_size
    assert read_part(store, ref).equals(make_table(5))
    assert read_part(store, ref, ["reply"]).column_names == ["reply"]


def test_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    chunked = pa.concat_tables([make_table(5).slice(0, 2), make_table(5).slice(2)])
    assert write_part(store, "a", make_table(5)).sha256 == write_part(store, "b", make_table(5)).sha256
    assert read_part(store, write_part(store, "c", chunked)).equals(make_table(5))


@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped"])
def test_damage_is_found_and_named(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    ref = write_part(store, "p.parquet", make_table(5))
    path = tmp_path / "p.parquet"
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(data[:-1])
    else:
        path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    with pytest.raises(CorruptPartError, match=r"p\.parquet") as caught:
        read_part(store, ref)
    assert caught.value.path == "p.parquet"


def test_layer_holds_only_what_changed() -> None:
    before = make_table(4)
    after = before.take([1, 3]).append_column("score", pa.array([0.5, 0.25]))
    layer = make_layer(before, after, [1, 3])
    assert layer.column_names == ["__at__", "score"]
    assert apply_layer(before, layer).equals(after)


def test_layer_may_drop_and_change_columns() -> None:
    before = make_table(3)
    after = before.drop_columns(["audio"]).set_column(1, "reply", pa.array(["a", "b", "c"]))
    layer = make_layer(before, after, [0, 1, 2])
    assert layer.column_names == ["__at__", "reply"]
    assert apply_layer(before, layer).equals(after)


@given(st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=4))
def test_partition_reads_as_if_its_layers_had_been_tables(
    tmp_path_factory: pytest.TempPathFactory, drops: list[set[int]]
) -> None:
    store = Store(tmp_path_factory.mktemp("parts"))
    expected = make_table(10)
    base, steps = expected, []
    for number, dropped in enumerate(drops):
        at = [i for i in range(len(expected)) if i not in dropped]
        expected = expected.take(pa.array(at, pa.int64())).append_column(f"new{number}", pa.array(at, pa.int64()))
        steps.append((expected, at))
    partition = add_layers(store, base, *steps)
    assert read_partition(store, partition).equals(expected)
    assert partition.rows == len(expected)


def test_trace_ignores_columns_that_are_not_asked_for(tmp_path: Path) -> None:
    base = make_table(4)
    scored = base.append_column("score", pa.array([1.0, 2.0, 3.0, 4.0]))
    other = base.set_column(2, "reply", pa.array(["x"] * 4)).append_column("score", pa.array([1.0, 2.0, 3.0, 4.0]))
    first = add_layers(Store(tmp_path / "1"), base, (base, [0, 1, 2, 3]), (scored, [0, 1, 2, 3]))
    changed = base.set_column(2, "reply", pa.array(["x"] * 4))
    second = add_layers(Store(tmp_path / "2"), base, (changed, [0, 1, 2, 3]), (other, [0, 1, 2, 3]))
    stores = (Store(tmp_path / "1"), Store(tmp_path / "2"))
    assert trace_columns(stores[0], first, ["id", "audio"]) == trace_columns(stores[1], second, ["id", "audio"])
    assert trace_columns(stores[0], first, ["id", "reply"]) != trace_columns(stores[1], second, ["id", "reply"])
    assert first.digest() != second.digest()


def test_trace_sees_which_rows_are_left(tmp_path: Path) -> None:
    base = make_table(4)
    first = add_layers(Store(tmp_path / "1"), base, (base.take([0, 1]), [0, 1]))
    second = add_layers(Store(tmp_path / "2"), base, (base.take([0, 2]), [0, 2]))
    assert trace_columns(Store(tmp_path / "1"), first, ["id"]) != trace_columns(Store(tmp_path / "2"), second, ["id"])


def test_some_columns_read_as_from_the_whole(tmp_path: Path) -> None:
    base = make_table(6)
    first = base.take([0, 2, 3, 5]).append_column("score", pa.array([0.0, 2.0, 3.0, 5.0]))
    second = first.take([1, 3]).drop_columns(["reply"])
    store = Store(tmp_path)
    partition = add_layers(store, base, (first, [0, 2, 3, 5]), (second, [1, 3]))
    assert read_partition_columns(store, partition, ["score", "id"]).equals(second.select(["score", "id"]))


def test_columns_that_a_stage_was_not_handed_pass_through_its_layer(tmp_path: Path) -> None:
    base = make_table(4)
    seen = base.select(["id"])
    after = seen.take([1, 3]).append_column("score", pa.array([0.5, 0.25]))
    layer = make_layer(seen, after, [1, 3], [*base.column_names, "score"])
    assert layer.column_names == ["__at__", "score"]
    expected = base.take([1, 3]).append_column("score", pa.array([0.5, 0.25]))
    assert apply_layer(base, layer).equals(expected)


def test_leaf_may_be_left_out(tmp_path: Path) -> None:
    tracks = [[{"speaker": "primary", "audio": b"a" * 99}, {"speaker": "other", "audio": b"b"}], [], None]
    table = pa.table({"id": ["a", "b", "c"], "tracks": pa.array(tracks, TRACKS)})
    store = Store(tmp_path)
    partition = Partition(write_part(store, "p", table))
    read = read_partition_columns(store, partition, ["tracks", "id"], without=["tracks.list.element.audio"])
    assert read.schema == table.select(["tracks", "id"]).schema
    assert read["tracks"].to_pylist() == [
        [{"speaker": "primary", "audio": None}, {"speaker": "other", "audio": None}],
        [],
        None,
    ]


def flip(path: Path, needle: bytes) -> None:
    """Change one byte where `needle` stands in a file."""
    data = path.read_bytes()
    at = data.index(needle)
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_damage_in_a_column_that_is_read_is_found(tmp_path: Path) -> None:
    store = Store(tmp_path)
    partition = Partition(write_part(store, "p.parquet", make_table(5)))
    flip(tmp_path / "p.parquet", bytes([3]) * 50)
    assert read_partition_columns(store, partition, ["reply"]).num_rows == 5
    with pytest.raises(CorruptPartError, match=r"p\.parquet") as caught:
        read_partition_columns(store, partition, ["audio"])
    assert caught.value.path == "p.parquet"


def test_part_of_another_size_is_found_whatever_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    partition = Partition(write_part(store, "p.parquet", make_table(5)))
    write_part(store, "p.parquet", make_table(4))
    with pytest.raises(CorruptPartError, match="size"):
        read_partition_columns(store, partition, ["id"])
