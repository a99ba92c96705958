"""Dyadic rows: Parquet of VoiceAssistant-400K's kind from anywhere, builds of our own, and faults of either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bystander.schemas.errors import BuildError, InputError
from bystander.schemas.tpi import AUDIO
from bystander.schemas.train_tpi_config import DyadicSource
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.filesystem import open_store
from bystander.storage.shards import write_shards
from bystander.tasks.training.dyadic_rows import index_dyadic
from bystander.tasks.training.row_index import RowIndex, index_tpi_builds
from object_store_server import ObjectStoreServer
from training_rows import make_tone, make_va_row, write_tpi, write_va


def index(path: Path | str, **columns: str) -> RowIndex:
    return index_dyadic([DyadicSource(path=str(path), **columns)], index_tpi_builds([]))


def test_rows_without_request_or_reply_are_left_out_and_listed(tmp_path: Path) -> None:
    rows = [make_va_row(number) for number in range(12)]
    rows[2]["answer"], rows[5]["answer"], rows[9]["question"], rows[10]["question"] = " ", None, None, ""
    found = index(write_va(tmp_path / "va.parquet", rows))
    assert found.rows["query_text"].to_pylist() == [rows[number]["question"] for number in (0, 1, 3, 4, 6, 7, 8, 11)]
    assert found.rows["row_group"].to_pylist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert found.rows["row"].to_pylist() == [0, 1, 3, 0, 2, 3, 0, 3]
    assert [(row.row, row.reason) for row in found.left_out] == [
        (2, "empty_reply"),
        (5, "empty_reply"),
        (9, "empty_request"),
        (10, "empty_request"),
    ]
    assert {row.file for row in found.left_out} == {str(tmp_path / "va.parquet")}


def test_lengths_are_estimated_where_no_column_has_them(tmp_path: Path) -> None:
    rows = [make_va_row(number) for number in range(40)]
    found = index(write_va(tmp_path / "va.parquet", rows, group_rows=20))
    true = np.array([0.1 * len(row["question"].split()) for row in rows])
    guessed = found.rows["duration_s"].to_numpy()
    assert abs(guessed.sum() / true.sum() - 1) < 0.05
    assert np.corrcoef(guessed, true)[0, 1] > 0.97
    assert not found.files[0].states_durations


def test_files_folders_patterns_and_stores_give_the_same_rows(tmp_path: Path, object_store: ObjectStoreServer) -> None:
    rows = [make_va_row(number) for number in range(6)]
    write_va(tmp_path / "va" / "a.parquet", rows[:3])
    write_va(tmp_path / "va" / "b.parquet", rows[3:])
    remote = open_store(f"s3://{object_store.make_bucket()}/va")
    for name in ("a.parquet", "b.parquet"):
        remote.write_bytes(name, (tmp_path / "va" / name).read_bytes())
    places: list[Path | str] = [
        tmp_path / "va",
        tmp_path / "va" / "*.parquet",
        remote.uri,
        f"{remote.uri}/[ab].parquet",
    ]
    found = [index(place) for place in places]
    for other in found:
        assert other.rows.equals(found[0].rows)
        assert len(other) == 6
        assert other.sources[0].rows_digest == found[0].sources[0].rows_digest
    assert len(index(f"{remote.uri}/b.parquet")) == 3


def test_a_file_under_two_addresses_is_taken_once(tmp_path: Path) -> None:
    rows = [make_va_row(number) for number in range(6)]
    first = write_va(tmp_path / "va" / "a.parquet", rows)
    copy = tmp_path / "elsewhere" / "renamed.parquet"
    copy.parent.mkdir()
    copy.write_bytes(first.read_bytes())
    louder = [{**row, "question_audio": {**row["question_audio"], "path": "b"}} for row in rows]
    other = write_va(tmp_path / "va" / "b.parquet", louder)  # the same words, but not the same file
    sources = [DyadicSource(path=str(path)) for path in (tmp_path / "va", copy, other)]
    found = index_dyadic(sources, index_tpi_builds([]))
    assert len(found) == 12
    assert [source.rows for source in found.sources] == [12, 6, 6]
    assert {(row.reason, row.detail) for row in found.left_out} == {
        ("duplicate", f"also in {first}"),
        ("duplicate", f"also in {other}"),
    }
    assert sorted(row.row for row in found.left_out if row.file == str(copy)) == list(range(6))


def test_columns_may_have_other_names_and_plain_bytes(tmp_path: Path) -> None:
    heard = [make_tone(0.3, 8000, "FLAC", hertz) for hertz in range(200, 230)]
    table = pa.table({"heard": heard, "said": ["Hello there"] * 30, "told": ["Good day"] * 30})
    pq.write_table(table, tmp_path / "own.parquet")
    found = index(tmp_path / "own.parquet", audio_column="heard", text_column="said", reply_column="told")
    assert found.files[0].audio_leaf == "heard"
    assert abs(found.rows["duration_s"][9].as_py() - 0.3) < 0.05


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"reply_column": "reaction"}, r"va\.parquet: has no column reaction; it has question, .* with reply_column"),
        ({"reply_column": "question_audio"}, "its column question_audio is no text"),
        ({"audio_column": "question"}, "its column question holds no encoded sound, but string"),
    ],
)
def test_wrong_columns_are_named(tmp_path: Path, columns: dict[str, str], words: str) -> None:
    path = write_va(tmp_path / "va.parquet", [make_va_row(0)])
    with pytest.raises(InputError, match=words):
        index(path, **columns)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "no.parquet").write_bytes(b"PAR?" * 10)
    for path, words in {
        "gone.parquet": "is missing",
        "empty": "there is no Parquet in it",
        "none*.parquet": "no file matches",
        "no.parquet": "cannot be read as Parquet",
    }.items():
        with pytest.raises(InputError, match=words):
            index(tmp_path / path)
    write_tpi(tmp_path / "tpi", 2, 0)
    with pytest.raises(InputError, match=r"is a build of another kind \(tpi_train\); name it in `data`"):
        index(tmp_path / "tpi")


def test_a_build_of_dyadic_rows_states_its_lengths(tmp_path: Path) -> None:
    schema = pa.schema(
        [pa.field(name, pa.string()) for name in ("id", "query_id", "request", "reply")]
        + [pa.field("audio", AUDIO), pa.field("duration_s", pa.float64())]
    )
    rows: list[dict[str, Any]] = [
        {
            "id": f"dy-{number}",
            "query_id": f"query-{number}",
            "request": "What time is it?",
            "reply": "Noon.",
            "audio": {"bytes": make_tone(0.2 + number), "path": None},
            "duration_s": 0.2 + number,
        }
        for number in range(3)
    ]
    store = open_store(tmp_path / "dyadic")
    batches = [pa.Table.from_pylist(rows, schema=schema)]
    shards = write_shards(store, "data", "train", schema, batches, sampling_rate=24000)
    manifest = {
        "kind": "dyadic",
        "dataset": "dyadic",
        "build": "one",
        "shards": [shard.model_dump() for shard in shards],
    }
    store.write_bytes(MANIFEST_NAME, json.dumps(manifest).encode())
    found = index(store.uri)
    assert found.rows.select(["id", "query_id", "duration_s"]).to_pylist() == [
        {name: row[name] for name in ("id", "query_id", "duration_s")} for row in rows
    ]
    assert found.files[0].states_durations
    assert found.sources[0].build == "one"
    store.write_bytes(shards[0].file, store.read_bytes(shards[0].file)[:-1])
    with pytest.raises(BuildError, match="its manifest says"):
        index(store.uri)


def test_files_without_a_row_are_refused_and_empty_shards_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    path = write_va(tmp_path / "some" / "a.parquet", [make_va_row(index) for index in range(3)])
    table = pq.read_table(path)
    empty = tmp_path / "none" / "b.parquet"
    empty.parent.mkdir()
    pq.write_table(table.slice(0, 0), empty)
    with pytest.raises(InputError, match=r"b\.parquet: has no row$"):
        index(empty)
    pq.write_table(table.slice(0, 0), path.parent / "0.parquet")
    assert len(index(path.parent)) == 3
