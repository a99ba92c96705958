"""Benches for detection: builds and published references give the same cases and clips; exports read back."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from bystander.schemas.errors import BuildError, InputError
from bystander.schemas.sid import SID_CLIP
from bystander.storage.sid_bench import CaseNames, read_sid_bench
from bystander.storage.sid_export import export_sid_bench
from bystander.tasks.audio.coding import decode_audio
from sid_rows import make_sid_row, make_sid_rows, write_sid_build

ROWS = make_sid_rows(2)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("benches") / "bench"
    write_sid_build(folder, ROWS)
    return folder


def test_reads_a_build(build: Path) -> None:
    bench = read_sid_bench(str(build))
    assert (bench.dataset, bench.build, len(bench.cases)) == ("sid-bench", "build-test", len(ROWS))
    for case, row in zip(bench.cases, ROWS, strict=True):
        assert (case.id, case.category, case.language, case.recording_id) == (
            row["id"],
            row["category"],
            row["language"],
            row["recording_id"],
        )
        assert case.break_time_s == (None if row["total_nonbreak"] else row["break_time_s"])
    assert {case.group for case in bench.cases} == {"en", "zh", "noise_silence"}


def test_clips_come_in_order_and_evenly(build: Path) -> None:
    tables = list(read_sid_bench(str(build)).read_clips(5))
    assert [len(table) for table in tables] == [5, 5, 5, 1]
    assert all(table.schema == SID_CLIP for table in tables)
    assert pa.concat_tables(tables)["id"].to_pylist() == [row["id"] for row in ROWS]


def test_takes_the_first_of_each_language_and_category(build: Path) -> None:
    bench = read_sid_bench(str(build)).take(1)
    assert [case.id for case in bench.cases] == [row["id"] for row in ROWS[::2]]
    assert pa.concat_tables(bench.read_clips(99))["id"].to_pylist() == [row["id"] for row in ROWS[::2]]


@pytest.mark.parametrize("audio", ["wav", "flac"])
def test_an_export_is_the_same_bench(build: Path, tmp_path: Path, audio: str) -> None:
    files = export_sid_bench(str(build), str(tmp_path), audio=audio)  # type: ignore[arg-type]
    assert files == {"en_test_lines.jsonl": 6, "zh_test_lines.jsonl": 6, "silence_noise_test.jsonl": 4}
    again = read_sid_bench(str(tmp_path))
    rows = {row["id"]: row for row in ROWS}
    clips = pa.concat_tables(again.read_clips(64)).to_pylist()
    assert {case.audio for case in again.cases} == {f"{row_id}.{audio}" for row_id in rows}
    for case, clip in zip(again.cases, clips, strict=True):
        row = rows[case.id.removesuffix(f".{audio}")]
        assert (case.category, case.language, case.source) == (row["category"], row["language"], row["source"])
        assert (case.duration_s, case.text_with_break) == (row["duration_s"], row["text_with_break"])
        samples, rate = decode_audio(clip["audio"]["bytes"])
        expected, _ = decode_audio(row["audio"]["bytes"])
        assert rate == row["sampling_rate"]
        assert (samples == expected).all()


def test_the_published_layout_needs_no_details(build: Path, tmp_path: Path) -> None:
    export_sid_bench(str(build), str(tmp_path), details=False)
    line = json.loads((tmp_path / "en_test_lines.jsonl").read_text().splitlines()[0])
    assert list(line) == ["audio", "total_nonbreak", "duration", "break_time", "text_with_break"]
    groups = [case.group for case in read_sid_bench(str(tmp_path)).cases]
    assert {name: groups.count(name) for name in groups} == {"en": 6, "zh": 6, "noise_silence": 4}


def test_missing_clips_of_references_are_named(build: Path, tmp_path: Path) -> None:
    export_sid_bench(str(build), str(tmp_path / "a"))
    references = tmp_path / "en_test_lines.jsonl"
    references.write_bytes((tmp_path / "a/en_test_lines.jsonl").read_bytes())
    bench = read_sid_bench(str(references))
    with pytest.raises(InputError, match=r"6 of 6 clips are not in .*, the first is beginning-en-0000.wav; name their"):
        list(bench.read_clips(4))
    assert sum(map(len, bench.read_clips(4, str(tmp_path / "a")))) == 6


def test_what_is_no_bench_is_named(build: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name the folder of a finished build"):
        read_sid_bench("")
    with pytest.raises(BuildError, match=r"has neither a manifest.json of a build nor JSONL files"):
        read_sid_bench(str(tmp_path))
    (tmp_path / "manifest.json").write_text('{"format": "other"}')
    with pytest.raises(BuildError, match=r"is of another format \(other\), not of a build"):
        read_sid_bench(str(tmp_path))
    write_sid_build(tmp_path / "twice", [ROWS[0], ROWS[0]])
    with pytest.raises(BuildError, match="two rows share an id"):
        read_sid_bench(str(tmp_path / "twice"))
    store = write_sid_build(tmp_path / "cut", ROWS[:2])
    (shard,) = store.list("data")
    store.write_bytes(shard, b"gone")
    with pytest.raises(BuildError, match="is missing or not what the manifest says"):
        read_sid_bench(str(tmp_path / "cut"))


def test_predictions_name_clips_as_they_like(build: Path) -> None:
    names = CaseNames(read_sid_bench(str(build)).cases)
    for name in ("middle-en-0001", "middle-en-0001.flac", "clips/middle-en-0001.wav"):
        assert names.find(name) == "middle-en-0001"
    assert names.find("middle-en-9999") is None


def test_a_name_that_two_clips_could_mean_is_none(tmp_path: Path) -> None:
    rows = [make_sid_row(0, id=f"x{n}", audio={"bytes": b"", "path": f"{n}/same.flac"}) for n in range(2)]
    write_sid_build(tmp_path, rows)
    names = CaseNames(read_sid_bench(str(tmp_path)).cases)
    assert (names.find("same.wav"), names.find("0/same.flac"), names.find("x1")) == (None, "x0", "x1")
