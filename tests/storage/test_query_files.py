import bz2
import codecs
import gzip
import json
import lzma
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bystander.schemas.config import QuerySource
from bystander.schemas.errors import InputError
from bystander.schemas.tpi import RAW_QUERY
from bystander.storage import query_files, query_records
from bystander.storage.query_files import read_queries
from web_folder import serve_folder


def read_rows(path, **fields):
    tables = list(read_queries(QuerySource(path=str(path), **fields)))
    assert all(table.schema == RAW_QUERY for table in tables)
    return pa.concat_tables(tables).to_pylist()


def list_texts(path, **fields):
    return [row["query_text"] for row in read_rows(path, **fields)]


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def refuse(path, **fields) -> str:
    with pytest.raises(InputError) as caught:
        read_rows(path, **fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_jsonl_bad_rows_are_kept_with_their_fault(tmp_path):
    lines = [
        '{"question": "what time is it", "round": 1, "answer": "noon"}',
        "",
        '{"question": "cut',
        '{"question": 7}',
        '{"question": null}',
        '{"answer": "noon"}',
        "[1, 2]",
        '{"question": "bad \\ud83d"}',
        '"play jazz"',
    ]
    rows = read_rows(write(tmp_path / "q.jsonl", "\r\n".join(lines)))
    assert [(row["query_line"], row["query_text"]) for row in rows] == [
        (1, "what time is it"),
        (3, None),
        (4, None),
        (5, None),
        (6, None),
        (7, None),
        (8, None),
        (9, "play jazz"),
    ]
    assert [row["query_fault"] for row in rows[1:-1]] == [
        "is not valid JSON (Unterminated string starting at at character 14)",
        "field 'question' is a number, not a text",
        "field 'question' is null, not a text",
        "has no field 'question'",
        "is a list, not an object or a text",
        "holds one half of a surrogate pair, which is no character",
    ]
    assert {row["query_source"] for row in rows} == {"q.jsonl"}
    assert rows[0]["query_fault"] is None


def test_usual_columns_are_tried_in_order_and_a_mapping_wins(tmp_path):
    path = write(tmp_path / "q.jsonl", '{"prompt": "p", "text": "t", "Body": "b"}')
    assert list_texts(path) == ["t"]
    assert list_texts(path, text_column="prompt") == ["p"]
    assert list_texts(path, text_column="body") == ["b"]


def test_language_column_gives_the_primary_subtag(tmp_path):
    path = write(tmp_path / "q.csv", "text,lang,tongue\na b,en-US,de\nc d,,fr\ne f,zh_CN,fr\ng h,Mandarin,fr\n")
    assert [row["language"] for row in read_rows(path, language="en")] == ["en", "en", "zh", "zh"]
    assert [row["language"] for row in read_rows(path, language_column="tongue")] == ["de", "fr", "fr", "fr"]
    assert "has no column 'x'; it has 'text', 'lang', 'tongue'" in refuse(path, language_column="x")


def test_csv_quotes_ragged_rows_bom_and_nul(tmp_path):
    text = (
        'id,text\r\n1,"say ""hi"", then stop"\r\n2,"two\r\nlines"\r\n3\r\n4,play jazz, please\r\n'
        '5,nul\x00byte\r\n6,a 5" screen\r\n7,"bad"quote\r\n\r\n8,last\r\n'
    )
    rows = read_rows(write(tmp_path / "q.csv", codecs.BOM_UTF8 + text.encode()))
    assert [(row["query_line"], row["query_text"]) for row in rows] == [
        (1, 'say "hi", then stop'),
        (2, "two\r\nlines"),
        (3, None),
        (4, None),
        (5, "nul\x00byte"),
        (6, 'a 5" screen'),
        (7, None),
        (8, "last"),
    ]
    assert rows[2]["query_fault"] == "has no field 'text'"
    assert rows[3]["query_fault"] == "has 3 cells where the header has 2"
    assert "line 9" in rows[6]["query_fault"]


def test_csv_of_one_column_keeps_its_commas(tmp_path):
    assert list_texts(write(tmp_path / "q.csv", "query\nplay jazz, please\nstop\n")) == ["play jazz, please", "stop"]


def test_csv_with_semicolons(tmp_path):
    assert list_texts(write(tmp_path / "q.csv", "id;query\n1;play jazz, please\n")) == ["play jazz, please"]


def test_csv_with_an_open_quote_reports_the_lines_it_swallowed(tmp_path):
    rows = read_rows(write(tmp_path / "q.csv", 'id,text\n1,ok\n2,"open\n3,lost\n'))
    assert [row["query_text"] for row in rows] == ["ok", None]
    assert "lines 3 to 4" in rows[1]["query_fault"]


def test_tsv_unquotes_whole_cells_only(tmp_path):
    path = write(tmp_path / "q.tsv", 'id\ttext\n1\t"say ""hi"""\n2\t"Heroes" by Bowie\n3\ta\tb\n')
    assert list_texts(path) == ['say "hi"', '"Heroes" by Bowie', None]


def test_text_file_skips_blank_lines_and_counts_them(tmp_path):
    rows = read_rows(write(tmp_path / "q.txt", b"\xef\xbb\xbfone two\r\n\r\n  \nthree four"))
    assert [(row["query_line"], row["query_text"]) for row in rows] == [(1, "one two"), (4, "three four")]


def test_parquet_reads_only_the_columns_that_it_needs(tmp_path, monkeypatch):
    table = pa.table(
        {
            "question": pa.array(["what is up", None, "play"], pa.string()).dictionary_encode(),
            "question_audio": [{"bytes": b"x", "path": "a"}] * 3,
            "answer": ["a", "b", "c"],
            "round": [1, 1, 1],
        }
    )
    pq.write_table(table, tmp_path / "q.parquet")
    asked = []
    original = query_records.read_parquet
    monkeypatch.setattr(
        query_records, "read_parquet", lambda s, n, columns: asked.append(columns) or original(s, n, columns)
    )
    rows = read_rows(tmp_path / "q.parquet")
    assert asked == [["question"]]
    assert [(row["query_line"], row["query_text"]) for row in rows] == [(1, "what is up"), (2, None), (3, "play")]
    assert rows[1]["query_fault"] == "field 'question' is null, not a text"


def test_parquet_column_of_another_type_is_refused(tmp_path):
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "q.parquet")
    assert refuse(tmp_path / "q.parquet") == "query file q.parquet: column 'text' holds int64, not text"


@pytest.mark.parametrize(
    "data",
    ['[{"text": "a b"}, "c d", 5 ,{"text": "e f"}]', '\ufeff  [\n {"text": "a b"},\n"c d",5,{"text":"e f"} ] \n'],
)
def test_json_array(tmp_path, data, monkeypatch):
    monkeypatch.setattr(query_records, "_CHUNK", 3)
    rows = read_rows(write(tmp_path / "q.json", data))
    assert [(row["query_line"], row["query_text"]) for row in rows] == [(1, "a b"), (2, "c d"), (3, None), (4, "e f")]
    assert rows[2]["query_fault"] == "is a number, not an object or a text"


def test_json_array_keeps_characters_that_chunks_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(query_records, "_CHUNK", 1)
    assert list_texts(write(tmp_path / "q.json", '["h\u00e9\u4e2d\U0001f600", "\u00e9"]')) == [
        "h\u00e9\u4e2d\U0001f600",
        "\u00e9",
    ]


@pytest.mark.parametrize("data", ['["a", "b', '["a" "b"]', '["a", oops]', '["a",', "[\n"])
def test_broken_json_array_is_refused(tmp_path, data):
    assert "is not valid JSON at element" in refuse(write(tmp_path / "q.json", data))


def test_json_file_of_lines_is_read_as_lines(tmp_path):
    assert list_texts(write(tmp_path / "q.json", '{"text": "a"}\n{"text": "b"}\n')) == ["a", "b"]


def test_compressed_files(tmp_path):
    data = b'{"text": "play jazz"}\n' * 3
    write(tmp_path / "q.jsonl.gz", gzip.compress(data))
    write(tmp_path / "q.jsonl.bz2", bz2.compress(data))
    write(tmp_path / "q.jsonl.xz", lzma.compress(data))
    write(tmp_path / "q.jsonl.zst", pa.compress(data, "zstd", asbytes=True))
    write(tmp_path / "q.json.zst", pa.compress(b'["play jazz"]', "zstd", asbytes=True))
    for ending in ("jsonl.gz", "jsonl.bz2", "jsonl.xz", "jsonl.zst"):
        assert list_texts(tmp_path / f"q.{ending}") == ["play jazz"] * 3
    assert list_texts(tmp_path / "q.json.zst") == ["play jazz"]


def test_damaged_files_are_refused(tmp_path):
    whole = gzip.compress(b'{"text": "play jazz"}\n' * 1000)
    assert "is damaged" in refuse(write(tmp_path / "cut.jsonl.gz", whole[: len(whole) // 2]))
    assert "is damaged" in refuse(write(tmp_path / "not.jsonl.gz", b"plain text"))
    assert "is damaged" in refuse(write(tmp_path / "not.jsonl.zst", b"plain text"))
    packed = pa.compress(b"play jazz\n" * 1000, "zstd", asbytes=True)
    assert "is damaged" in refuse(write(tmp_path / "cut.txt.zst", packed[:-5]))
    assert "is not a readable Parquet file" in refuse(write(tmp_path / "not.parquet", b"plain text"))
    pq.write_table(pa.table({"text": [f"row {i}" for i in range(20000)]}), tmp_path / "ok.parquet")
    data = bytearray((tmp_path / "ok.parquet").read_bytes())
    data[100:20000] = b"\xff" * 19900
    assert "is damaged after row 0" in refuse(write(tmp_path / "bad.parquet", bytes(data)))


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv", "txt", "json"])
def test_files_that_are_not_utf8_are_refused(tmp_path, ending):
    body = {"jsonl": '{"text": "caf\u00e9"}', "json": '["caf\u00e9 "]'}.get(ending, "text\ncaf\u00e9\n")
    message = refuse(write(tmp_path / f"q.{ending}", body.encode("latin-1")))
    assert "is not UTF-8 text" in message
    assert "0xe9" in message
    assert "Latin-1" in message
    assert "UTF-16" in refuse(write(tmp_path / f"w.{ending}", body.encode("utf-16")))


def test_missing_column_names_file_columns_and_flag(tmp_path):
    path = write(tmp_path / "q.csv", "id,body\n1,play\n")
    message = refuse(path)
    assert "q.csv" in message
    assert "'id', 'body'" in message
    assert "--set queries.text_column=NAME" in message
    assert refuse(path, text_column="txt").startswith("query file q.csv: has no column 'txt'; it has 'id', 'body'")


def test_paths_that_lead_nowhere(tmp_path):
    assert "there is no such file" in refuse(tmp_path / "none.jsonl")
    assert "no file matches" in refuse(tmp_path / "*.jsonl")
    assert "is a folder" in refuse(tmp_path)
    write(tmp_path / "q.docx", b"x")
    assert "unknown format '.docx'" in refuse(tmp_path / "q.docx")
    assert "cannot be reached" in refuse("nosuchprotocol://x/q.jsonl")


@pytest.mark.parametrize(("name", "data"), [("q.jsonl", ""), ("q.csv", "text\n"), ("q.json", "[]"), ("q.txt", "\n \n")])
def test_empty_input_is_refused(tmp_path, name, data):
    assert "there is no row" in refuse(write(tmp_path / name, data))


def test_glob_reads_files_in_order_and_skips_empty_ones(tmp_path):
    for name, data in [("b.txt", "second"), ("a.jsonl", '{"text": "first"}'), ("c.txt", "")]:
        write(tmp_path / name, data)
    rows = read_rows(tmp_path / "*.*")
    assert [(row["query_source"], row["query_text"]) for row in rows] == [("a.jsonl", "first"), ("b.txt", "second")]


def test_a_file_whose_name_looks_like_a_pattern(tmp_path):
    assert list_texts(write(tmp_path / "q[1].txt", "play jazz")) == ["play jazz"]


def test_fsspec_url():
    import fsspec

    with fsspec.open("memory://queries/q.csv.gz", "wb", compression="gzip") as file:
        file.write(b"text\nplay jazz\n")
    assert list_texts("memory://queries/q.csv.gz") == ["play jazz"]


def test_a_line_beyond_the_limit_is_a_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(query_records, "MAX_RECORD_BYTES", 20)
    rows = read_rows(write(tmp_path / "q.txt", "short\n" + "x" * 100 + "\nend"))
    assert [(row["query_line"], row["query_text"]) for row in rows] == [(1, "short"), (2, None), (3, "end")]


def test_batches_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(query_files, "BATCH_ROWS", 4)
    path = write(tmp_path / "q.txt", "\n".join(f"line {i}" for i in range(8)))
    assert [len(table) for table in read_queries(QuerySource(path=str(path)))] == [4, 4]


def test_starter_queries_are_read_without_a_path(tmp_path, monkeypatch):
    lines = [json.dumps({"text": f"request {i}", "domain": "facts", "intent": "x", "slots": {}}) for i in range(20)]
    write(tmp_path / "starter.jsonl", "\n".join(lines))

    class Package:
        def joinpath(self, name):
            assert name == "data/starter_queries.jsonl"
            return tmp_path / "starter.jsonl"

    monkeypatch.setattr(query_files.resources, "files", lambda package: Package())
    rows = pa.concat_tables(read_queries(QuerySource())).to_pylist()
    assert [row["query_text"] for row in rows] == [f"request {i}" for i in range(20)]
    assert {row["query_source"] for row in rows} == {"starter.jsonl"}


@pytest.mark.parametrize(
    ("rest", "shown"), [('["lost"]', "'[\"lost\"]'"), ("\n\n and text", "'and text'"), (", 1", "', 1'"), ("]", "']'")]
)
def test_what_follows_a_json_array_is_refused_not_lost(tmp_path, rest, shown):
    path = write(tmp_path / "q.json", '["play jazz", "stop"]' + " " * 300_000 + rest)
    assert f"goes on after the end of its array, which has 2 elements, with {shown}" in refuse(path)


def test_white_space_may_follow_a_json_array(tmp_path):
    assert list_texts(write(tmp_path / "q.json", '["play jazz"]' + "\r\n" * 200_000)) == ["play jazz"]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("q.txt", "one two\rthree\r\nfour\n\rfive", [(1, "one two"), (2, "three"), (3, "four"), (5, "five")]),
        ("q.jsonl", '"one two"\r"three"\r', [(1, "one two"), (2, "three")]),
        ("q.csv", 'id,text\r1,one two\r2,"three\rfour"\r', [(1, "one two"), (2, "three\rfour")]),
        ("q.tsv", "id\ttext\r1\tone two\r", [(2, "one two")]),
    ],
)
def test_lines_may_end_in_carriage_returns_alone(tmp_path, name, text, expected):
    assert [(row["query_line"], row["query_text"]) for row in read_rows(write(tmp_path / name, text))] == expected


def test_line_end_across_two_chunks_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr(query_records, "_CHUNK", 4)
    rows = read_rows(write(tmp_path / "q.txt", "abc\r\nnaïve é\r\r\nlast\r"))
    assert [(row["query_line"], row["query_text"]) for row in rows] == [(1, "abc"), (2, "naïve é"), (4, "last")]


def test_line_far_beyond_the_limit_is_one_fault_and_its_characters_stay_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(query_records, "_CHUNK", 5)
    monkeypatch.setattr(query_records, "MAX_RECORD_BYTES", 10)
    rows = read_rows(write(tmp_path / "q.txt", "é" * 50 + "\r\nstop\n"))
    assert [(row["query_line"], row["query_text"]) for row in rows] == [(1, None), (2, "stop")]


@pytest.mark.parametrize(("name", "sign"), [("q.csv", ","), ("q.tsv", "\t")])
def test_two_columns_of_one_name_are_refused_where_they_are_used(tmp_path, name, sign):
    path = write(tmp_path / name, "text,id,text,prompt\na,1,b,c\n".replace(",", sign))
    assert refuse(path) == f"query file {name}: has more than one column 'text'; rename all but the right one"
    assert list_texts(path, text_column="prompt") == ["c"]


@pytest.mark.parametrize("name", ["q.jsonl", "q.csv"])
def test_gzip_is_known_by_its_first_bytes(tmp_path, name):
    text = '{"text": "play jazz"}' if name == "q.jsonl" else "text\nplay jazz\n"
    assert list_texts(write(tmp_path / name, gzip.compress(text.encode()))) == ["play jazz"]


def test_parquet_within_gzip_is_refused(tmp_path):
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "plain.parquet")
    path = write(tmp_path / "q.parquet", gzip.compress((tmp_path / "plain.parquet").read_bytes()))
    assert "is packed by gzip, whatever its name says; unpack it" in refuse(path)


def test_file_of_a_web_server(tmp_path):
    write(tmp_path / "x y.jsonl", '{"text": "play jazz"}\n')
    write(tmp_path / "q.csv.gz", gzip.compress(b"text\nstop\n"))
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "q.parquet")
    with serve_folder(tmp_path) as address:
        rows = read_rows(f"{address}/x%20y.jsonl?download=true&v=1/2")
        assert [(row["query_source"], row["query_text"]) for row in rows] == [("x y.jsonl", "play jazz")]
        assert list_texts(f"{address}/q.csv.gz") == ["stop"]
        assert list_texts(f"{address}/q.parquet?download=true") == ["a", "b"]
        assert list_texts(f"{address}/unknown-length/q.parquet") == ["a", "b"]
        assert refuse(f"{address}/none.jsonl?download=true") == (
            f"queries {address}/none.jsonl?download=true: cannot be fetched (the server answers 404 File not found)"
        )
        assert "the web has no globs" in refuse(f"{address}/*.jsonl")
    assert "cannot be fetched (Connect call failed" in refuse(f"{address}/q.parquet")
