import json
from pathlib import Path

import pyarrow as pa
import pytest

from bystander.schemas.errors import ConfigError
from bystander.schemas.identity import make_id
from bystander.schemas.stages import StageContext
from bystander.schemas.tpi import RAW_QUERY
from bystander.schemas.tpi_params import NormaliseQueries
from bystander.tasks.stages.normalise_queries import STAGE

FOLDERS = [parent / "shared/data/queries" for parent in Path(__file__).resolve().parents]
QUERIES = next((folder for folder in FOLDERS if folder.exists()), FOLDERS[0])


def make_context(**fields):
    return StageContext(build_seed=0, params=NormaliseQueries(**fields), taxonomy=None, pack=None)


def make_rows(*texts, language="en"):
    rows = [
        {"query_source": "q.txt", "query_line": i, "query_text": text, "language": language, "query_fault": None}
        for i, text in enumerate(texts, 1)
    ]
    return pa.Table.from_pylist(rows, RAW_QUERY)


def test_keeps_and_names_requests():
    kept = STAGE(make_rows("play jazz at 5pm"), make_context()).kept.to_pylist()
    assert kept == [
        {
            "query_source": "q.txt",
            "query_line": 1,
            "query_text": "play jazz at 5pm",
            "language": "en",
            "query_id": make_id("query", "en", "play jazz at five pm."),
            "request": "Play jazz at five PM.",
        }
    ]


def test_unreadable_rows_keep_their_fault():
    rows = pa.Table.from_pylist(
        [
            {
                "query_source": "q",
                "query_line": 1,
                "query_text": None,
                "language": "en",
                "query_fault": "is not valid JSON",
            },
            {"query_source": "q", "query_line": 2, "query_text": None, "language": "en", "query_fault": None},
        ],
        RAW_QUERY,
    )
    rejected = STAGE(rows, make_context()).rejected.to_pylist()
    assert [(row["reject_reason"], row["reject_detail"]) for row in rejected] == [
        ("unreadable_row", "is not valid JSON"),
        ("unreadable_row", "has no text"),
    ]


def test_the_first_of_equal_requests_stays():
    output = STAGE(make_rows("play jazz", "stop it", "Play  JAZZ!", "play jazz, please"), make_context())
    assert output.kept["query_line"].to_pylist() == [1, 2, 4]
    (lost,) = output.rejected.to_pylist()
    assert (lost["query_line"], lost["reject_reason"]) == (3, "duplicate")
    assert lost["reject_detail"] == "the same request as q.txt, record 1"


def test_duplicates_are_found_between_files_of_one_name():
    rows = pa.concat_tables([make_rows("play jazz"), make_rows("play jazz")])
    assert STAGE(rows, make_context()).rejected["reject_reason"].to_pylist() == ["duplicate"]


def test_languages():
    rejected = STAGE(make_rows("play jazz", language="de"), make_context()).rejected.to_pylist()
    assert rejected[0]["reject_reason"] == "wrong_language"
    assert rejected[0]["reject_detail"] == "is marked as 'de'; kept are en"
    with pytest.raises(ConfigError, match="no rules for zh"):
        STAGE(make_rows("play jazz"), make_context(languages=("en", "zh")))


def test_no_rows():
    output = STAGE(make_rows(), make_context())
    assert (len(output.kept), len(output.rejected)) == (0, 0)


@pytest.mark.skipif(not QUERIES.exists(), reason="the shared development data is not here")
@pytest.mark.parametrize(
    ("name", "kept", "reasons"),
    [
        ("slurp_en", 977, {"too_short": 16, "incomplete": 7}),
        ("xsid_en", 187, {"duplicate": 13}),
        ("xsid_zh", 0, {"wrong_language": 200}),
    ],
)
def test_real_queries(name, kept, reasons):
    lines = [json.loads(line) for line in (QUERIES / f"{name}.jsonl").read_text("utf-8").splitlines()]
    rows = pa.concat_tables([make_rows(line["text"], language=line["lang"]) for line in lines])
    output = STAGE(rows, make_context())
    counts = {}
    for reason in output.rejected["reject_reason"].to_pylist():
        counts[reason] = counts.get(reason, 0) + 1
    assert (len(output.kept), counts) == (kept, reasons)


@pytest.mark.skipif(not QUERIES.exists(), reason="the shared development data is not here")
def test_chinese_is_told_by_its_script_where_it_is_not_marked():
    lines = [json.loads(line) for line in (QUERIES / "xsid_zh.jsonl").read_text("utf-8").splitlines()]
    output = STAGE(make_rows(*(line["text"] for line in lines)), make_context())
    assert set(output.rejected["reject_reason"].to_pylist()) == {"wrong_language"}
    assert len(output.kept) == 0
