"""Examples from shards: right rows and sounds, whatever the cache; faults of rows left out, damage of shards found."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ProcessPoolExecutor
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bystander.schemas.engines import RowFault
from bystander.schemas.errors import BuildError, CorruptPartError, InputError, UserError
from bystander.schemas.train_tpi_config import DyadicSource
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.tasks.training.dyadic_rows import index_dyadic
from bystander.tasks.training.epoch_plan import plan_epoch
from bystander.tasks.training.left_out_rows import read_left_out
from bystander.tasks.training.row_index import RowIndex, check_sums, index_sid_builds, index_tpi_builds, join_indexes
from bystander.tasks.training.shard_examples import ShardExamples
from final_rows import make_rows
from object_store_server import ObjectStoreServer
from sid_rows import make_sid_rows, write_sid_build
from training_rows import make_tone, make_va_row, write_small_groups, write_tpi, write_va
from training_runs import write_run


def give_row(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {**row, "drawn": float(rng.random())}


def refuse_odd(row: dict[str, Any], rng: np.random.Generator) -> Any:
    del rng
    number = int(row["id"].rpartition("-")[2])
    return RowFault("odd", f"{number} is odd") if number % 2 else row["id"]


def open_rows(index: RowIndex, **changes: Any) -> ShardExamples:
    values: dict[str, Any] = {"columns": ["reply"], "rate": 16000, "seed": 7, **changes}
    return ShardExamples(index, values.pop("make", give_row), **values)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store") / "tpi-train" / "one"
    write_tpi(folder)
    return folder


def test_examples_are_the_rows_of_their_numbers(build: Path) -> None:
    source = open_rows(index_tpi_builds([str(build)]), columns=["reply", "segments", "audio"])
    rows = make_rows(24, 8)
    assert len(source) == len(rows) == 32
    order = [31, 0, 5, 4, 0]
    for number, example in zip(order, source.read(order, 0), strict=True):
        row = rows[number]
        assert example["id"] == row["id"]
        assert example["part"] == ("two_speaker" if row["n_speakers"] == 2 else "hard_negative")
        assert (example["reply"], example["segments"]) == (row["reply"], row["segments"])
        assert example["audio"] == row["audio"]["bytes"]
        samples = example["samples"]
        assert samples.dtype == np.float32
        assert samples.shape == (round(row["duration_s"] * 16000),)
        assert 0.2 < np.abs(samples).max() <= 0.7
    assert np.allclose(source.lengths, [row["duration_s"] for row in rows])
    assert source.groups.tolist() == np.repeat(np.arange(8), 4).tolist()


def test_sound_is_resampled_not_stretched(build: Path) -> None:
    example = open_rows(index_tpi_builds([str(build)])).read([0], 0)[0]
    first = example["samples"][4000:20000]  # the primary's tone alone: 180 Hz
    assert np.argmax(np.abs(np.fft.rfft(first))) == 180


def test_neither_cache_nor_copies_nor_calls_change_an_example(build: Path) -> None:
    index = index_tpi_builds([str(build)])
    source = open_rows(index)
    plan = plan_epoch(source.lengths, source.groups, 4, 7, 1)

    def read_all(reader: ShardExamples, batches: list[Any]) -> list[tuple[str, float]]:
        return [(row["id"], row["drawn"]) for batch in batches for row in reader.read(batch, 1)]

    whole = read_all(source, plan)
    small = open_rows(index, cache_mib=0)
    assert read_all(small, plan) == whole
    assert len(small._kept) == 1
    copy = pickle.loads(pickle.dumps(source))
    assert read_all(copy, plan[7:]) == whole[28:]  # a run that goes on
    assert copy.groups_read < source.groups_read == 8
    assert source.read([2], 0)[0]["drawn"] != source.read([2], 1)[0]["drawn"]


def read_batches(source: ShardExamples, batches: list[list[int]]) -> list[list[str]]:
    return [[row["id"] for row in source.read(batch, 0)] for batch in batches]


def test_processes_that_share_batches_out_read_what_one_reads(tmp_path: Path) -> None:
    rows = [make_va_row(index) for index in range(40)]
    for bad in (7, 22):
        rows[bad]["question_audio"] = {"bytes": b"no sound", "path": None}
    path = write_va(tmp_path / "va.parquet", rows)
    index = index_dyadic([DyadicSource(path=str(path))], index_tpi_builds([]))
    source = open_rows(index, left_out_file=tmp_path / "left_out.jsonl")
    plan = [batch.tolist() for batch in plan_epoch(source.lengths, source.groups, 3, 7, 0)]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        halves = [*pool.map(read_batches, [source, source], [plan[0::2], plan[1::2]])]
    together = [ids for turn in zip_longest(*halves) for ids in turn if ids is not None]
    assert {row.row for row in source.left_out} == {7, 22}
    assert together == read_batches(open_rows(index), plan)
    assert set().union(*together) == set(source.list_ids()) - {source.list_ids()[bad] for bad in (7, 22)}


def test_rows_of_object_stores_are_read_by_row_groups(object_store: ObjectStoreServer) -> None:
    address = f"s3://{object_store.make_bucket()}/store/tpi-train/one"
    write_tpi(address, 96, 0, group_rows=32)
    index = index_tpi_builds([address])
    source = pickle.loads(pickle.dumps(open_rows(index)))
    since = object_store.mark()
    ids = [row["id"] for row in source.read([33, 35, 60], 0)]
    assert ids == ["row-0033", "row-0035", "row-0060"]
    first = object_store.count_requests(since)["GET"]
    source.read([40, 41], 0)
    assert object_store.count_requests(since)["GET"] == first  # it is kept
    source.read([70], 0)
    assert first <= 4
    assert object_store.count_requests(since)["GET"] <= first + 3


def test_a_row_that_cannot_be_decoded_is_left_out_with_its_reason(tmp_path: Path) -> None:
    rows = [make_va_row(index) for index in range(8)]
    rows[1]["question_audio"] = {"bytes": b"no sound", "path": None}
    rows[2]["question_audio"] = {"bytes": None, "path": "elsewhere.wav"}
    rows[6]["question_audio"] = {"bytes": make_tone(0.0), "path": None}
    path = write_va(tmp_path / "va.parquet", rows)
    known = index_tpi_builds([])
    index = join_indexes([known, index_dyadic([DyadicSource(path=str(path))], known)])
    noted = tmp_path / "run" / "left_out.jsonl"
    source = open_rows(index, columns=["request", "reply"], left_out_file=noted)
    replies = [row["reply"] for row in source.read(range(8), 0)]
    assert replies == [f"It is {number}." for number in (0, 3, 3, 3, 4, 5, 7, 7)]
    found = {(row.row, row.reason) for row in source.left_out}
    assert found == {(1, "unreadable_audio"), (2, "no_audio"), (6, "empty_audio")}
    assert {row.file for row in source.left_out} == {str(path)}

    other = pickle.loads(pickle.dumps(source))  # as in a worker process
    other.read([1, 6], 3)
    with noted.open("ab") as log:
        log.write(b'{"file": "half')
    assert (
        {(row.row, row.reason) for row in read_left_out(noted)}
        == found
        == {(row.row, row.reason) for row in pickle.loads(pickle.dumps(source)).left_out}
    )


def test_a_row_group_without_a_usable_row_is_an_error(tmp_path: Path) -> None:
    rows = [make_va_row(index, question_audio={"bytes": b"?", "path": None}) for index in range(3)]
    path = write_va(tmp_path / "va.parquet", rows)
    source = open_rows(index_dyadic([DyadicSource(path=str(path))], index_tpi_builds([])))
    with pytest.raises(InputError, match=r"va\.parquet: no row of its row group 0 can be used"):
        source.read([0], 0)


def test_what_no_example_can_be_made_of_is_left_out(build: Path) -> None:
    source = open_rows(index_tpi_builds([str(build)]), make=refuse_odd, rate=None)
    assert source.read([0, 1, 3], 0) == ["row-0000", "row-0002", "row-0000"]
    assert [(row.row, row.reason) for row in source.left_out] == [(1, "odd"), (3, "odd")]


def test_damage_is_found(tmp_path: Path) -> None:
    store = write_small_groups(tmp_path / "one", make_rows(8, 0))
    shard = tmp_path / "one" / "data" / "train-00000-of-00001.parquet"
    whole = shard.read_bytes()
    index = index_tpi_builds([store.uri])

    sound = make_rows(1, 0)[0]["audio"]["bytes"]
    at = whole.index(sound)
    shard.write_bytes(whole[: at + 200] + bytes(4000) + whole[at + 4200 :])
    with pytest.raises(CorruptPartError, match=r"train-00000.*checksum"):
        open_rows(index).read([1, 0], 0)
    page = pq.ParquetFile(shard).metadata.row_group(1).column(0).data_page_offset
    shard.write_bytes(whole[:page] + bytes(40) + whole[page + 40 :])
    with pytest.raises(CorruptPartError, match="row group 1 cannot be read"):
        open_rows(index, columns=["split", "id"]).read([4], 0)

    shard.write_bytes(whole[:-10])
    with pytest.raises(BuildError, match=r"has \d+ bytes, its manifest says \d+"):
        index_tpi_builds([store.uri])
    shard.write_bytes(bytes(len(whole)))
    with pytest.raises(CorruptPartError, match="cannot be read as Parquet"):
        index_tpi_builds([store.uri])
    shard.unlink()
    with pytest.raises(BuildError, match="is missing"):
        index_tpi_builds([store.uri])


def test_a_column_that_a_build_lacks_is_an_error(build: Path) -> None:
    with pytest.raises(BuildError, match=r"parquet: has no column laughter"):
        open_rows(index_tpi_builds([str(build)]), columns=["reply", "laughter"])


def test_rows_of_two_builds_that_share_them_come_once(build: Path, tmp_path: Path) -> None:
    write_tpi(tmp_path / "grown", 30, 8)
    index = index_tpi_builds([str(build), str(tmp_path / "grown")])
    assert len(index) == 38 == len(set(index.rows["id"].to_pylist()))
    assert {row.reason for row in index.left_out} == {"duplicate"}
    assert len(index.left_out) == 32
    assert [source.rows for source in index.sources] == [32, 38]
    source = open_rows(index, rate=None)
    assert source.read([37, 0], 0)[0]["reply"] == make_rows(30, 0)[29]["reply"]


def test_sid_rows_come_with_what_is_known_of_them(tmp_path: Path) -> None:
    rows = make_sid_rows(4)
    write_sid_build(tmp_path / "sid", rows)
    source = open_rows(index_sid_builds([str(tmp_path / "sid")]), columns=["words", "break_time_s", "language"])
    for row, example in zip(rows, source.read(range(len(rows)), 0), strict=True):
        assert (example["id"], example["part"]) == (row["id"], row["category"])
        assert example["words"] == row["words"]
        assert example["break_time_s"] == row["break_time_s"]
        assert len(example["samples"]) == round(row["duration_s"] * 16000)
    with pytest.raises(
        BuildError, match=r"sid: is a build of SID rows \(sid_bench\); name the folder of a finished TPI build"
    ):
        index_tpi_builds([str(tmp_path / "sid")])


def test_columns_that_dyadic_parquet_lacks_are_null(tmp_path: Path) -> None:
    path = write_va(tmp_path / "va.parquet", [make_va_row(index) for index in range(3)])
    source = open_rows(
        index_dyadic([DyadicSource(path=str(path))], index_tpi_builds([])), columns=["scenario", "reply"]
    )
    example = source.read([2], 0)[0]
    assert (example["scenario"], example["reply"], example["part"]) == (None, "It is 2.", "dyadic")


def test_index_rows_have_their_schema(build: Path) -> None:
    rows = index_tpi_builds([str(build)]).rows
    assert rows.schema.field("row").type == pa.int32()
    assert not rows.schema.field("id").nullable


def test_a_bench_is_not_trained_on(tmp_path: Path) -> None:
    store = write_tpi(tmp_path / "bench")
    manifest = json.loads(store.read_bytes(MANIFEST_NAME))
    store.write_bytes(MANIFEST_NAME, json.dumps({**manifest, "kind": "tpi_bench"}).encode())
    assert len(index_tpi_builds([store.uri])) == 32
    with pytest.raises(InputError, match=r"^--data .*bench: is a bench, .*; name a build of tpi-train rows$"):
        index_tpi_builds([store.uri], to_train_on=True)


def test_what_is_no_build_of_the_kind_is_named_with_its_option_and_what_is_wanted(tmp_path: Path) -> None:
    wanted = r"; name the folder of a finished TPI build, STORE/DATASET/NAME"
    (tmp_path / "empty").mkdir()
    (tmp_path / "rows.parquet").write_bytes(b"")
    write_run(tmp_path / "store", tmp_path / "scratch")
    write_tpi(tmp_path / "dyadic")
    manifest = tmp_path / "dyadic" / MANIFEST_NAME
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "kind": "dyadic"}))
    for name, words in (
        ("empty", f": there is no manifest.json, so it is no finished build{wanted}$"),
        ("rows.parquet", f": is a file{wanted}$"),
        ("store/trained/run", f": is a training run or an evaluation, no build{wanted}$"),
        ("dyadic", rf": is a build of dyadic rows \(dyadic\){wanted}; name it with --dyadic$"),
    ):
        with pytest.raises(UserError, match=rf"^--bench .*{name}{words}"):
            index_tpi_builds([str(tmp_path / name)], option="--bench")
    manifest.write_text("{")
    with pytest.raises(UserError, match=r"^--bench .*manifest.json: is not a build manifest"):
        index_tpi_builds([str(tmp_path / "dyadic")], option="--bench")


def test_damage_that_only_a_checksum_shows_is_found_before_anything_is_read(tmp_path: Path) -> None:
    store = write_tpi(tmp_path / "damaged")
    (shard,) = (tmp_path / "damaged" / "data").iterdir()
    whole = bytearray(shard.read_bytes())
    files = index_tpi_builds([store.uri]).files
    check_sums(files)
    whole[len(whole) // 3] ^= 1
    shard.write_bytes(whole)
    with pytest.raises(CorruptPartError, match=rf"{shard.name}: does not match .*`bystander verify {store.uri}` says"):
        check_sums(files)
    check_sums(files, most_bytes=len(whole) - 1)  # too much to read beforehand
