from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bystander.schemas.errors import InputError
from bystander.schemas.voicebench import PARTS, PARTS_BY_NAME, VOICEBENCH_REASONS, VOICEBENCH_REJECT, VOICEBENCH_ROW
from bystander.storage.voicebench_files import VoiceBenchFiles, find_voicebench
from voicebench_copies import (
    RATE,
    make_audio,
    make_records,
    write_parquet,
    write_voicebench,
    write_voicebench_json,
)


def read_all(files: VoiceBenchFiles, limit: int | None = None) -> pa.Table:
    return pa.concat_tables([VOICEBENCH_ROW.empty_table(), *files.read(limit)])


def read_part(root: Path, part: str, **settings: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_all(find_voicebench(str(root), PARTS_BY_NAME[part], **settings)).to_pylist()
    return rows


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_voicebench(tmp_path_factory.mktemp("voicebench"))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_part_is_read_as_published(root: Path, part: Any) -> None:
    table = read_all(find_voicebench(str(root), part))
    assert table.schema == VOICEBENCH_ROW
    assert len(table) == (3 if part.name == "mmsu" else 2)
    for row in table.to_pylist():
        assert (row["part"], row["sampling_rate"], row["duration_s"]) == (part.name, RATE, 0.25)
        assert row["audio"]["bytes"][:4] == b"RIFF"
        assert (row["reference"] is not None) == (part.kind in ("reference", "choice"))
        assert bool(row["instructions"]) == (part.kind == "instructions")


def test_rows_are_named_by_their_place(root: Path) -> None:
    assert [row["id"] for row in read_part(root, "mmsu")] == [
        "mmsu/biology/00000",
        "mmsu/biology/00001",
        "mmsu/law/00000",
    ]


def test_sd_qa_is_read_for_the_accents_asked_for(root: Path) -> None:
    assert {row["split"] for row in read_part(root, "sd_qa")} == {"usa"}
    assert [row["id"] for row in read_part(root, "sd_qa", splits=["gbr", "usa"])] == [
        "sd_qa/gbr/00000",
        "sd_qa/usa/00000",
        "sd_qa/usa/00001",
    ]
    with pytest.raises(InputError, match=r"sd-qa: has no split nzl; it has gbr, usa"):
        find_voicebench(str(root), PARTS_BY_NAME["sd_qa"], ["nzl"])


def test_settings_of_instructions_come_without_nulls(root: Path) -> None:
    first = read_part(root, "ifeval")[0]["instructions"]
    assert [(entry["id"], json.loads(entry["settings"])) for entry in first] == [
        ("length_constraints:number_words", {"num_words": 10, "relation": "less than"}),
        ("punctuation:no_comma", {}),
    ]


def test_json_lines_give_the_same_rows_as_parquet(root: Path, tmp_path: Path) -> None:
    write_voicebench_json(tmp_path)
    for part in PARTS:
        ours, theirs = read_part(tmp_path, part.name), read_part(root, part.name)
        for row in (*ours, *theirs):
            row["audio"].pop("path")
        assert ours == theirs


def test_the_selection_of_alpacaeval_serves_where_the_full_part_is_not(tmp_path: Path) -> None:
    write_voicebench(tmp_path, {"alpacaeval/test": [{"prompt": "Hello there"}]})
    assert read_part(tmp_path, "alpacaeval")[0]["prompt"] == "Hello there"


def test_shards_of_a_split_are_read_in_order(tmp_path: Path) -> None:
    for number, prompt in ((1, "second"), (0, "first")):
        path = tmp_path / f"commoneval/test-0000{number}-of-00002.parquet"
        write_parquet(path, [{"audio": make_audio(), "prompt": prompt}])
    rows = read_part(tmp_path, "commoneval")
    assert [(row["id"], row["prompt"]) for row in rows] == [
        ("commoneval/test/00000", "first"),
        ("commoneval/test/00001", "second"),
    ]


@pytest.mark.parametrize("limit", [1, 63, 64, 65, 129])
def test_a_limit_ends_the_reading(tmp_path: Path, limit: int) -> None:
    write_voicebench(tmp_path, {"advbench/test": [{"prompt": f"request {n}"} for n in range(130)]})
    rows = read_all(find_voicebench(str(tmp_path), PARTS_BY_NAME["advbench"]), limit)
    assert rows["prompt"].to_pylist() == [f"request {n}" for n in range(limit)]


def test_unusable_rows_are_rejected_and_keep_the_places_of_the_others(tmp_path: Path) -> None:
    number_words = {"instruction_id_list": ["length_constraints:number_words"]}
    records = {
        "commoneval/test": [
            {"prompt": "fine"},
            {"prompt": "  "},
            {"prompt": "mute", "audio": {"bytes": None, "path": None}},
            {"prompt": "noise", "audio": {"bytes": b"no sound", "path": "x.wav"}},
            {"prompt": "empty clip", "audio": make_audio(seconds=0)},
            {"prompt": "fine too"},
        ],
        "openbookqa/test": [
            {"prompt": "q", "reference": None},
            {"prompt": "q", "reference": "E"},
            {"prompt": "q", "reference": " c "},
        ],
        "ifeval/test": [
            {"prompt": "p", "instruction_id_list": [], "kwargs": []},
            {"prompt": "p", "instruction_id_list": ["length_constraints:rhymes"], "kwargs": [{}]},
            {"prompt": "p", **number_words, "kwargs": []},
            {"prompt": "p", **number_words, "kwargs": [{"num_words": 5}]},
            {"prompt": "p", **number_words, "kwargs": [{"num_words": 5, "relation": "about"}]},
            {"prompt": "p", **number_words, "kwargs": [{"num_words": 0, "relation": "at least"}]},
        ],
    }
    write_voicebench(tmp_path, records)

    files = find_voicebench(str(tmp_path), PARTS_BY_NAME["commoneval"])
    assert read_all(files)["id"].to_pylist() == ["commoneval/test/00000", "commoneval/test/00005"]
    assert files.reject_table().schema == VOICEBENCH_REJECT
    assert [(reject["row"], reject["reject_reason"]) for reject in files.rejects] == [
        (2, "no_prompt"),
        (3, "no_audio"),
        (4, "undecodable_audio"),
        (5, "undecodable_audio"),
    ]
    assert files.rejects[0]["file"] == "test-00000-of-00001.parquet"
    assert "'prompt'" in files.rejects[0]["reject_detail"]
    read_all(files)
    assert len(files.rejects) == 4  # not doubled by a second reading

    files = find_voicebench(str(tmp_path), PARTS_BY_NAME["openbookqa"])
    assert read_all(files)["reference"].to_pylist() == ["C"]
    assert [reject["reject_reason"] for reject in files.rejects] == ["no_reference", "reference_not_a_letter"]

    files = find_voicebench(str(tmp_path), PARTS_BY_NAME["ifeval"])
    assert read_all(files)["id"].to_pylist() == ["ifeval/test/00005"]
    assert [(reject["reject_reason"], reject["reject_detail"]) for reject in files.rejects] == [
        ("no_instructions", "field 'instruction_id_list' holds no list of ids"),
        ("unknown_instruction", "field 'instruction_id_list' holds 'length_constraints:rhymes'"),
        ("bad_instruction_settings", "field 'kwargs' is no list of 1 objects"),
        ("bad_instruction_settings", "field 'kwargs': length_constraints:number_words has no relation"),
        (
            "bad_instruction_settings",
            "field 'kwargs': length_constraints:number_words has relation 'about', "
            "which is not one of less than, at least",
        ),
    ]
    assert {reject["reject_reason"] for reject in files.rejects} <= VOICEBENCH_REASONS


def test_lines_that_are_no_objects_are_rejected(tmp_path: Path) -> None:
    write_voicebench_json(tmp_path, {"commoneval/test": [{"prompt": "fine"}]})
    path = tmp_path / "commoneval/test.jsonl"
    path.write_text(path.read_text() + 'not json\n\n["a", "list"]\n{"prompt": "gone", "audio": "clips/gone.wav"}\n')
    files = find_voicebench(str(tmp_path), PARTS_BY_NAME["commoneval"])
    assert len(read_all(files)) == 1
    assert [(reject["row"], reject["reject_reason"]) for reject in files.rejects] == [
        (2, "not_an_object"),
        (4, "not_an_object"),
        (5, "no_audio"),
    ]


def test_a_part_without_rows_is_an_empty_table(tmp_path: Path) -> None:
    write_parquet(tmp_path / "advbench/test-00000-of-00001.parquet", [{"audio": make_audio(), "prompt": ""}])
    files = find_voicebench(str(tmp_path), PARTS_BY_NAME["advbench"])
    assert len(read_all(files)) == 0
    assert len(files.rejects) == 1


def test_what_makes_a_file_useless_is_one_clear_line(tmp_path: Path) -> None:
    advbench, sd_qa = PARTS_BY_NAME["advbench"], PARTS_BY_NAME["sd_qa"]
    with pytest.raises(InputError, match="there is no such folder"):
        find_voicebench(str(tmp_path / "nowhere"), advbench)
    with pytest.raises(InputError, match="has no folder advbench for AdvBench"):
        find_voicebench(str(tmp_path), advbench)
    (tmp_path / "advbench").mkdir()
    with pytest.raises(InputError, match=r"advbench: holds no \.parquet or \.jsonl file"):
        find_voicebench(str(tmp_path), advbench)
    broken = tmp_path / "advbench/test-00000-of-00001.parquet"
    broken.write_bytes(b"PAR1 but not really")
    with pytest.raises(InputError, match=r"test-00000-of-00001\.parquet: cannot be read"):
        read_all(find_voicebench(str(tmp_path), advbench))
    (tmp_path / "advbench/test.jsonl").write_text("{}")
    with pytest.raises(InputError, match="holds Parquet and JSONL files"):
        find_voicebench(str(tmp_path), advbench)
    write_voicebench(tmp_path, {"sd-qa/usa": [{"prompt": "Who?"}]})
    with pytest.raises(InputError, match=r"usa-00000-of-00001\.parquet: has no column reference; it has audio, prompt"):
        read_all(find_voicebench(str(tmp_path), sd_qa))
    (tmp_path / "commoneval").mkdir()
    (tmp_path / "commoneval/test.jsonl").write_bytes('{"prompt": "caf\xe9"}'.encode("latin-1"))
    with pytest.raises(InputError, match=r"test\.jsonl: is not UTF-8"):
        read_all(find_voicebench(str(tmp_path), PARTS_BY_NAME["commoneval"]))


def test_the_copy_has_all_eight_parts() -> None:
    folders = {path.split("/")[0] for path in make_records()}
    assert folders == {part.folders[0] for part in PARTS}
