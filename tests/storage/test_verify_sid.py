"""What `bystander verify` finds in a SID build; the rows are true to their audio until a test bends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bystander.schemas.errors import BuildError
from bystander.schemas.sid import BEGINNING, MIDDLE, NOISE, SILENCE, UNINTERRUPTED
from bystander.storage.build_manifest import BuildManifest, read_build_kind, read_manifest
from bystander.storage.filesystem import open_store
from bystander.storage.sid_manifest import SidQuota, read_sid_manifest
from bystander.storage.verify_build import verify_build
from sid_rows import make_sid_row, make_sid_rows, write_sid_build

ROWS = make_sid_rows(1)
SHARD = "data/sid_bench-00000-of-00001.parquet"


def write(folder: Path, rows: list[dict[str, Any]], **changes: Any) -> list[str]:
    """Write a build with a card and a report, and return what is found wrong with it."""
    store = write_sid_build(folder, rows, **changes)
    for name in ("README.md", "report.html"):
        store.write_bytes(name, b"<html></html>\n")
    return [str(finding) for finding in verify_build(folder)]


@pytest.mark.parametrize("quick", [False, True])
def test_a_good_build_is_sound(tmp_path: Path, quick: bool) -> None:
    assert write(tmp_path, ROWS) == []
    assert verify_build(tmp_path, quick=quick) == []
    assert read_build_kind(write_sid_build(tmp_path, ROWS)) == "sid_bench"


def test_a_sid_build_is_no_tpi_build(tmp_path: Path) -> None:
    store = write_sid_build(tmp_path, ROWS)
    with pytest.raises(Exception, match="is of a SID build"):
        read_manifest(store)
    assert not isinstance(read_sid_manifest(store), BuildManifest)


@pytest.mark.parametrize(
    ("category", "changes", "field", "problem"),
    [
        (MIDDLE, {"break_time_s": 0.1}, "break_time_s", "the word with new intent begins at"),
        (MIDDLE, {"break_time_s": 99.0}, "break_time_s", "in a clip of"),
        (MIDDLE, {"total_nonbreak": True}, "total_nonbreak", "in a row of middle"),
        (MIDDLE, {"break_word_index": 0, "text_with_break": None}, "category", "but the break is at word 0"),
        (MIDDLE, {"break_word_index": None}, "break_word_index", "is null"),
        (MIDDLE, {"break_word_index": 40}, "break_word_index", "but there are 7 words"),
        (MIDDLE, {"text_with_break": "Right yeah but how much is it"}, "text_with_break", "has 0 break tags"),
        (MIDDLE, {"text_with_break": "Right yeah <break> something else"}, "text_with_break", "is not the text"),
        (MIDDLE, {"tag_agreement": 0.0}, "tag_agreement", "outside (0, 1]"),
        (MIDDLE, {"words": []}, "words", "are missing"),
        (MIDDLE, {"context_text": None}, "context_text", "is null in a row of middle"),
        (BEGINNING, {"category": MIDDLE}, "category", "is middle, but the break is at word 0"),
        (UNINTERRUPTED, {"break_time_s": 0.2}, "break_time_s", "without a break it is the duration"),
        (UNINTERRUPTED, {"break_word_index": 0}, "break_word_index", "in a row of uninterrupted"),
        (SILENCE, {"text": "hello"}, "text", "is filled in a row of silence"),
        (NOISE, {"total_nonbreak": False}, "total_nonbreak", "in a row of noise"),
        (NOISE, {"category": "thunder"}, "category", "is 'thunder'"),
        (MIDDLE, {"split": "train"}, "split", "in a shard of 'sid_bench'"),
        (MIDDLE, {"seed": 8}, "seed", "the build's is 7"),
        (MIDDLE, {"engines": '{"detector": {}}'}, "engines", "names roles that the manifest does not have: detector"),
        (MIDDLE, {"sampling_rate": 8000}, "sampling_rate", "8000 Hz"),
        (MIDDLE, {"audio": {"bytes": b"", "path": "x.flac"}}, "audio", "holds no bytes"),
    ],
)
def test_a_bent_row_is_found_and_named(
    tmp_path: Path, category: str, changes: dict[str, Any], field: str, problem: str
) -> None:
    row = make_sid_row(0, category) | changes
    found = [text for text in write(tmp_path, [row]) if f"row {row['id']}: {field} " in text]
    assert any(problem in text for text in found), found


def test_words_out_of_order_are_found(tmp_path: Path) -> None:
    row = make_sid_row(0, MIDDLE)
    row["words"] = [row["words"][1], row["words"][0], *row["words"][2:]]
    assert any("is out of order or outside the clip" in text for text in write(tmp_path, [row]))


def test_an_id_that_occurs_twice_is_found(tmp_path: Path) -> None:
    assert any("id occurs in" in text for text in write(tmp_path, [ROWS[0], ROWS[0]]))


def test_counts_and_quotas_are_held_against_the_rows(tmp_path: Path) -> None:
    counts = read_sid_manifest(write_sid_build(tmp_path / "good", ROWS)).counts
    wrong = counts.model_copy(update={"synthetic": 3, "by_category": {**counts.by_category, "noise": 9}})
    found = write(tmp_path / "wrong", ROWS, counts=wrong)
    assert any("counts.synthetic says 3" in text for text in found)
    assert any("counts.by_category says 9 for noise, the shards have 1" in text for text in found)
    quotas = (SidQuota(category="middle", language="en", asked=1, got=0), SidQuota(category="noise", asked=0, got=1))
    found = write(tmp_path / "quotas", ROWS, quotas=quotas)
    assert any("quotas says 0 rows of middle in en, the shards have 1" in text for text in found)
    assert any("quotas have 1 rows of noise where 0 were asked for" in text for text in found)


def test_a_card_and_a_report_that_are_not_whole(tmp_path: Path) -> None:
    assert write(tmp_path, ROWS) == []
    (tmp_path / "README.md").write_bytes(b"")
    (tmp_path / "report.html").write_bytes(b"<html>")
    found = [str(finding) for finding in verify_build(tmp_path)]
    assert found == ["README.md: is empty.", "report.html: breaks off before its end, </html>."]


def test_a_flipped_byte_and_a_missing_file_are_found(tmp_path: Path) -> None:
    assert write(tmp_path, ROWS) == []
    (tmp_path / "report.html").unlink()
    data = bytearray((tmp_path / SHARD).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / SHARD).write_bytes(data)
    found = [str(finding) for finding in verify_build(tmp_path)]
    assert "report.html: is missing." in found
    assert any(text.startswith(f"{SHARD}: has checksum ") for text in found)


def test_a_tpi_build_is_no_sid_build(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"kind": "tpi_bench"}', "utf-8")
    with pytest.raises(BuildError, match="is of a TPI build"):
        read_sid_manifest(open_store(tmp_path))
