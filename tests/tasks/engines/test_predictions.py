from __future__ import annotations

import json

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bystander.schemas.engine_configs import PredictionsConfig
from bystander.schemas.engines import AnswerReply, AnswerRequest, RowFault
from bystander.schemas.errors import InputError
from bystander.tasks.engines.predictions import PredictionsCandidate


def write_lines(path, *rows):
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def read(path):
    return PredictionsCandidate(PredictionsConfig(path=str(path)))


def ask(engine, *ids):
    return engine.answer([AnswerRequest(row, np.zeros(4, np.float32), 16000, 1) for row in ids])


def test_answers_by_id_in_the_order_asked(tmp_path):
    path = write_lines(
        tmp_path / "p.jsonl", {"id": "a", "reply": "Yes é."}, "\n", {"id": "b", "reply": "No.", "more": [1]}
    )
    assert ask(read(path), "b", "a", "b") == [AnswerReply("No."), AnswerReply("Yes é."), AnswerReply("No.")]


def test_parquet_says_the_same(tmp_path):
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"reply": ["Yes.", None], "id": ["a", "b"], "x": [1, 2]}), path)
    [yes, nothing] = ask(read(path), "a", "b")
    assert yes == AnswerReply("Yes.")
    assert isinstance(nothing, RowFault)
    assert nothing.reason == "empty_reply"


def test_what_is_missing_or_blank_is_a_fault_of_the_row(tmp_path):
    engine = read(write_lines(tmp_path / "p.jsonl", {"id": "a", "reply": " "}, {"id": "b", "reply": None}))
    faults = ask(engine, "a", "b", "c")
    assert [fault.reason for fault in faults] == ["empty_reply", "empty_reply", "not_predicted"]
    assert "the id c" in faults[2].detail


def test_a_glob_reads_all_its_files(tmp_path):
    write_lines(tmp_path / "p1.jsonl", {"id": "a", "reply": "A."})
    write_lines(tmp_path / "p2.jsonl", {"id": "b", "reply": "B."})
    write_lines(tmp_path / "other.txt", "no prediction")
    assert ask(read(tmp_path / "p*.jsonl"), "a", "b") == [AnswerReply("A."), AnswerReply("B.")]


def test_a_url_is_read_through_fsspec():
    with fsspec.open("memory://predictions-test/p.jsonl", "wb") as sink:
        sink.write(b'\xef\xbb\xbf{"id": "a", "reply": "A."}')
    assert ask(read("memory://predictions-test/p.jsonl"), "a") == [AnswerReply("A.")]


def test_identity_hangs_on_the_content_alone(tmp_path):
    one = read(write_lines(tmp_path / "one.jsonl", {"id": "a", "reply": "A."}))
    same = read(write_lines(tmp_path / "same.jsonl", {"id": "a", "reply": "A."}))
    other = read(write_lines(tmp_path / "other.jsonl", {"id": "a", "reply": "B."}))
    assert one.identity == same.identity
    assert one.identity.digest() != other.identity.digest()


def test_lists_the_ids_that_the_bench_does_not_have(tmp_path):
    engine = read(write_lines(tmp_path / "p.jsonl", *({"id": row, "reply": "x"} for row in "dabc")))
    assert engine.list_unknown_ids(["a", "c", "z"]) == ["d", "b"]
    assert engine.list_unknown_ids("abcd") == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{oops}\n", r"p\.jsonl, line 2: is not JSON"),
        ("[1, 2]\n", r"p\.jsonl, line 2: is no JSON object"),
        ('{"id": "b"}\n', r"p\.jsonl, line 2: has no field reply"),
        ('{"text": "b"}\n', r"p\.jsonl, line 2: has no field id and no field reply"),
        ('{"id": 7, "reply": "x"}\n', r"p\.jsonl, line 2: the id is 7; it must be the text"),
        ('{"id": "b", "reply": ["x"]}\n', r"p\.jsonl, line 2: the reply to b is \['x'\]; it must be text, or null"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, fault):
    path = write_lines(tmp_path / "p.jsonl", {"id": "a", "reply": "A."}, line)
    with pytest.raises(InputError, match=fault):
        read(path)


def test_a_line_that_is_no_utf8_is_named(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"id": "a", "reply": "A."}\n{"id": "b", "reply": "\xff"}\n')
    with pytest.raises(InputError, match=r"p\.jsonl, line 2: is not JSON"):
        read(path)


def test_doubled_ids_are_listed_up_to_twenty(tmp_path):
    rows = [{"id": f"row-{i:02d}", "reply": "x"} for i in range(23)]
    path = write_lines(tmp_path / "p.jsonl", *rows, *rows, {"id": "once", "reply": "x"})
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert "23 ids have more than one reply" in message
    assert f"the first at {path}, line 1, and {path}, line 24" in message
    assert message.endswith(", ".join(f"row-{i:02d}" for i in range(20)) + " and 3 more")


def test_an_id_in_two_files_is_doubled_too(tmp_path):
    for name in ("p1.jsonl", "p2.jsonl"):
        write_lines(tmp_path / name, {"id": "a", "reply": "A."})
    with pytest.raises(InputError, match=r"1 id has more than one reply.*p1\.jsonl, line 1, and .*p2\.jsonl, line 1"):
        read(tmp_path / "p*.jsonl")


def test_a_file_of_no_use_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no\.jsonl: there is no such file"):
        read(tmp_path / "no.jsonl")
    with pytest.raises(InputError, match=r"no\*\.jsonl: no file matches"):
        read(tmp_path / "no*.jsonl")
    with pytest.raises(InputError, match=r"p\.csv: is neither"):
        read(write_lines(tmp_path / "p.csv", "id,reply\n"))
    with pytest.raises(InputError, match=r"empty\.jsonl: there is none in it"):
        read(write_lines(tmp_path / "empty.jsonl", "\n\n"))
    with pytest.raises(InputError, match=r"broken\.parquet: is no Parquet file"):
        read(write_lines(tmp_path / "broken.parquet", "no Parquet"))
    with pytest.raises(InputError, match=r"nosuch://x\.jsonl: cannot be opened"):
        read("nosuch://x.jsonl")
    pq.write_table(pa.table({"id": ["a"], "text": ["A."]}), tmp_path / "other.parquet")
    with pytest.raises(InputError, match=r"other\.parquet: has no column reply; it has id, text"):
        read(tmp_path / "other.parquet")


def test_a_parquet_row_that_is_no_prediction_is_named(tmp_path):
    pq.write_table(pa.table({"id": ["a", None], "reply": ["A.", "B."]}), tmp_path / "p.parquet")
    with pytest.raises(InputError, match=r"p\.parquet, row 2: the id is None"):
        read(tmp_path / "p.parquet")
