from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

from bystander.schemas.errors import StorageError
from bystander.schemas.tpi import AUDIO, FINAL, SYNTHESISED
from bystander.storage.filesystem import Store, open_store
from bystander.storage.hf_features import attach_features, describe_card_features
from bystander.storage.shards import ShardWriter, write_shards, write_table
from final_rows import RATE, make_rows, make_table

SMALL = pa.schema([pa.field("id", pa.int64()), pa.field("audio", AUDIO), pa.field("note", pa.string())])


def make_small(start: int, rows: int, audio_bytes: int = 10) -> pa.Table:
    rng = np.random.Generator(np.random.PCG64(start))
    return pa.Table.from_pylist(
        [
            {"id": i, "audio": {"bytes": rng.bytes(audio_bytes), "path": f"{i}.flac"}, "note": None if i % 3 else "x"}
            for i in range(start, start + rows)
        ],
        schema=SMALL,
    )


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store(tmp_path / "s" if request.param == "local" else f"memory://{uuid4().hex}/s")


def test_rows_come_back_in_order_from_several_shards(store: Store) -> None:
    batches = [make_small(0, 30, 40_000), make_small(30, 90, 40_000), make_small(120, 150, 40_000)]
    shards = write_shards(store, "data", "train", SMALL, batches, sampling_rate=RATE, shard_mib=4)
    assert [s.file for s in shards] == [f"data/train-{i:05d}-of-00003.parquet" for i in range(3)]
    assert store.list() == [s.file for s in shards]
    found = []
    for shard in shards:
        data = store.read_bytes(shard.file)
        assert (len(data), hashlib.sha256(data).hexdigest()) == (shard.bytes, shard.sha256)
        table = pq.read_table(io.BytesIO(data))
        assert len(table) == shard.rows
        found.append(table.replace_schema_metadata())
    assert pa.concat_tables(found).equals(pa.concat_tables(batches))


def test_a_shard_stays_below_its_limit(tmp_path: Path) -> None:
    batches = (make_small(100 * i, 100, 8_000) for i in range(5))
    shards = write_shards(open_store(tmp_path), "d", "train", SMALL, batches, sampling_rate=None, shard_mib=2)
    assert [s.rows for s in shards] == [200, 200, 100]
    assert all(s.bytes < 2 << 20 for s in shards)


def test_batching_does_not_change_a_byte(tmp_path: Path) -> None:
    whole = make_table(make_rows(230, 20))
    cuts = [[whole], whole.slice(0).to_batches(max_chunksize=7), [whole.slice(0, 101), whole.slice(101)]]
    sums = []
    for index, cut in enumerate(cuts):
        tables = [part if isinstance(part, pa.Table) else pa.Table.from_batches([part]) for part in cut]
        shards = write_shards(
            open_store(tmp_path / str(index)), "data", "train", FINAL, tables, sampling_rate=RATE, shard_mib=8
        )
        assert len(shards) > 1
        sums.append([s.sha256 for s in shards])
    assert sums[0] == sums[1] == sums[2]


def test_row_groups_suit_the_viewer(tmp_path: Path) -> None:
    (shard,) = write_shards(open_store(tmp_path), "d", "train", SMALL, [make_small(0, 250)], sampling_rate=RATE)
    parquet = pq.ParquetFile(tmp_path / shard.file)
    assert [parquet.metadata.row_group(i).num_rows for i in range(parquet.num_row_groups)] == [100, 100, 50]
    by_path = {
        parquet.metadata.row_group(0).column(i).path_in_schema: parquet.metadata.row_group(0).column(i).compression
        for i in range(parquet.metadata.num_columns)
    }
    assert by_path == {"id": "ZSTD", "audio.bytes": "UNCOMPRESSED", "audio.path": "ZSTD", "note": "ZSTD"}
    assert parquet.metadata.row_group(0).column(0).has_offset_index


def test_an_error_in_the_middle_leaves_no_shard(store: Store) -> None:
    def fail_late() -> Iterator[pa.Table]:
        yield make_small(0, 400, 8_000)
        raise RuntimeError("engine died")

    with pytest.raises(RuntimeError, match="engine died"):
        write_shards(store, "data", "train", SMALL, fail_late(), sampling_rate=None, shard_mib=1)
    assert store.list() == []
    if folder := store.local_path("data"):
        assert list(folder.iterdir()) == []
    with pytest.raises(RuntimeError, match="engine died"):
        write_table(store, "rejects/x.parquet", SMALL, fail_late())
    assert store.list() == []


def test_a_new_run_replaces_the_split_and_nothing_else(store: Store) -> None:
    write_shards(store, "data", "train", SMALL, [make_small(0, 300, 8_000)], sampling_rate=None, shard_mib=1)
    write_shards(store, "data", "train2", SMALL, [make_small(0, 1)], sampling_rate=None)
    assert len(store.list()) == 4
    write_shards(store, "data", "train", SMALL, [make_small(0, 3)], sampling_rate=None)
    assert store.list() == ["data/train-00000-of-00001.parquet", "data/train2-00000-of-00001.parquet"]


def test_memory_stays_flat_while_streaming(tmp_path: Path) -> None:
    before = pa.total_allocated_bytes()
    peak = 0

    def watch() -> Iterator[pa.Table]:
        nonlocal peak
        for index in range(40):
            yield make_small(25 * index, 25, 100_000)
            peak = max(peak, pa.total_allocated_bytes() - before)

    write_shards(open_store(tmp_path), "d", "train", SMALL, watch(), sampling_rate=None, shard_mib=20)
    assert peak < 45 << 20  # of 100 MB written


def test_other_schemas_and_bad_splits_are_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(StorageError, match="another schema"):
        write_shards(store, "d", "train", FINAL, [make_small(0, 1)], sampling_rate=None)
    with pytest.raises(StorageError, match="split 'a b'"):
        ShardWriter(store, "d", "a b", SMALL, sampling_rate=None)
    assert write_shards(store, "d", "train", SMALL, [make_small(0, 0)], sampling_rate=None) == []
    assert store.list() == []


def test_rejects_keep_their_tracks(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    info = write_table(store, "rejects/verify.parquet", SYNTHESISED, [SYNTHESISED.empty_table()])
    assert info.rows == 0
    assert [(c.name, c.type) for c in pq.read_schema(tmp_path / info.file)] == [(c.name, c.type) for c in SYNTHESISED]


def test_features_are_those_that_datasets_writes() -> None:
    datasets = pytest.importorskip("datasets")
    stored = json.loads(attach_features(FINAL, RATE).metadata[b"huggingface"])["info"]["features"]
    features = datasets.Features.from_dict(stored)
    assert features["audio"] == datasets.Audio(sampling_rate=RATE)
    assert features["segments"].feature["start_s"] == datasets.Value("float64")
    assert features.arrow_schema.names == FINAL.names
    assert [column.type for column in features.arrow_schema] == [column.type for column in FINAL]
    from_card = datasets.Features._from_yaml_list(describe_card_features(FINAL, RATE))
    assert from_card == features


def test_datasets_loads_the_folder_and_its_audio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    rows = make_rows()
    write_shards(open_store(tmp_path / "b"), "data", "train", FINAL, [make_table(rows)], sampling_rate=RATE)
    loaded = datasets.load_dataset(str(tmp_path / "b"), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.features["audio"] == datasets.Audio(sampling_rate=RATE)
    raw = loaded.cast_column("audio", datasets.Audio(decode=False))
    for row, expected in zip(raw, rows, strict=True):
        samples, rate = soundfile.read(io.BytesIO(row["audio"]["bytes"]))
        assert rate == RATE
        assert abs(len(samples) - expected["duration_s"] * RATE) <= 1
        assert np.abs(samples).max() > 0.2
        assert {k: v for k, v in row.items() if k != "audio"} == {k: v for k, v in expected.items() if k != "audio"}
