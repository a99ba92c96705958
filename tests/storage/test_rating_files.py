"""Files of people's scores: what is read, and what is refused with its row."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bystander.schemas.errors import InputError
from bystander.schemas.evaluate_config import Ratings
from bystander.storage.rating_files import Scores, read_ratings

EXPECTED = {("a", "rsf"): {"row-1": 1.0, "row-2": 0.0}, ("a", "oh"): {"row-1": 4.5}}
RECORDS = [
    {"id": "row-1", "system": "a", "rsf": 1, "oh": 4.5},
    {"id": "row-2", "system": "a", "rsf": 0, "oh": None},
]


def read(path: Path, text: str = "") -> Scores:
    if text:
        path.write_text(text, "utf-8")
    return read_ratings(Ratings(path=str(path)))


def test_all_formats_say_the_same(tmp_path: Path) -> None:
    assert read(tmp_path / "r.jsonl", "".join(json.dumps(record) + "\n" for record in RECORDS)) == EXPECTED
    assert read(tmp_path / "r.csv", "id,system,rsf,oh\nrow-1,a,1,4.5\nrow-2,a,0,\n") == EXPECTED
    pq.write_table(pa.Table.from_pylist(RECORDS), tmp_path / "r.parquet")
    assert read(tmp_path / "r.parquet") == EXPECTED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,system,rsf\nrow-1,a,2\n", "row 1: rsf is '2'; give a number from 0 to 1"),
        ("id,system,oh\nrow-1,a,5\nrow-2,a,none\n", "row 2: oh is 'none'; give a number from 1 to 5"),
        ("id,system,rsf\nrow-1,,1\n", "row 1: has no system"),
        ("id,rsf\nrow-1,1\n", "row 1: has no system"),
        ("id,system,rsf\nrow-1,a,1\nrow-1,a,1\n", "row 2: rsf of row-1 by a is rated twice"),
        ("id,system,score\nrow-1,a,1\n", "holds no score; it needs the columns id, system, and rsf or oh"),
        ("id,system,rsf\nrow-1,a,1,5\n", "row 1: has 4 cells"),
    ],
)
def test_faults_name_the_row(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as fault:
        read(tmp_path / "ratings.csv", text)
    assert message in str(fault.value)
    assert "ratings.csv" in str(fault.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown format; known are \.jsonl, \.csv, \.parquet"):
        read(tmp_path / "ratings.txt", "x")
    with pytest.raises(InputError, match="is missing"):
        read(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(b"id,system,rsf\n\xe9,a,1\n")
    with pytest.raises(InputError, match=r"ratings .*is not UTF-8"):
        read(tmp_path / "latin.csv")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read(tmp_path / "bad.parquet")
