"""Cutting a build into parts, and holding builds and parts against each other."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bystander.schemas.errors import BuildError, ConfigError
from bystander.storage.build_manifest import OtherBuild, digest_rows, read_manifest, write_manifest
from bystander.storage.clean_cache import inspect_cache
from bystander.storage.filesystem import open_store
from bystander.storage.verify_build import verify_build
from bystander.tasks.split_tpi import split_tpi
from bystander.tasks.stages.voice_sides import find_held_out_voices
from bystander.tasks.verify_disjointness import verify_disjointness
from final_rows import make_rows, write_build

Row = dict[str, Any]
PARTS = {"train": 0.5, "test": 0.5}
VOICES = ("ann", "bob", "cat", "dan")
PAIRS = [(one, other) for one in VOICES for other in VOICES if one != other]


def make_varied_rows(count: int = 24, hard_negatives: int = 6, tag: str = "") -> list[Row]:
    """Rows whose texts differ, of `count` / 2 queries and twelve pairs of voices in either role."""
    rows = make_rows(count, hard_negatives)
    for row in rows:
        index = int(row["id"][-4:])
        row["query_id"] = f"query-{tag}{index // 2}"
        for name in ("request", "primary_complete", "primary_text"):
            row[name] = row[name].replace("table", f"table{tag}")
        row["third_party_text"] = f"No, make{tag} it number {index}."
        row["primary_voice"], other = PAIRS[index % 12]
        row["third_party_voice"] = other if row["n_speakers"] == 2 else None
    return rows


def read_rows(folder: Path) -> list[Row]:
    return [row for path in sorted(folder.glob("data/*.parquet")) for row in pq.read_table(path).to_pylist()]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere/tpi-train/whole"
    write_build(folder, make_varied_rows())
    return folder


def test_parts_are_a_sound_build_that_shares_nothing(source: Path, tmp_path: Path) -> None:
    outcome = split_tpi(str(source), str(tmp_path / "out"), "parts", PARTS, seed=3)
    folder = tmp_path / "out/tpi-train/parts"
    assert outcome.location == str(folder)
    assert verify_build(folder) == []
    assert verify_disjointness(folder).findings == []
    rows, before = read_rows(folder), {row["id"]: row for row in read_rows(source)}
    (stage,) = outcome.manifest.stages
    rejects = pq.read_table(folder / "rejects/split.parquet").to_pylist()
    assert (stage.rows_in, stage.kept, stage.reasons) == (30, len(rows), {"shared_between_parts": len(rejects)})
    assert {row["id"] for row in rows} | {row["id"] for row in rejects} == set(before)
    assert {row["reject_reason"] for row in rejects} == {"shared_between_parts"}
    assert all(row == before[row["id"]] | {"split": row["split"]} for row in rows)
    users: dict[Any, set[str]] = defaultdict(set)
    for row in rows:
        users[row["query_id"]].add(row["split"])
        users[row["primary_complete"]].add(row["split"])
        if row["n_speakers"] == 2:
            users[frozenset((row["primary_voice"], row["third_party_voice"]))].add(row["split"])
    assert all(len(parts) == 1 for parts in users.values())
    assert outcome.manifest.parts_of is not None
    assert outcome.manifest.parts_of.of.rows_digest == digest_rows(read_manifest(open_store(source)))
    assert f"{len(rejects)} of 30 rows were left out" in outcome.summary[1]
    card = (folder / "README.md").read_text("utf-8")
    assert "Its splits were cut from `tpi-train/build-test`, seed 3.\nThey share no query" in card
    assert "path: data/test-*-of-*.parquet" in card


def test_the_same_cut_gives_the_same_files(source: Path, tmp_path: Path) -> None:
    first = split_tpi(str(source), str(tmp_path / "one"), "parts", PARTS, seed=1)
    again = split_tpi(str(source), str(tmp_path / "one"), "parts", PARTS, seed=1)
    other = split_tpi(str(source), str(tmp_path / "two"), "parts", PARTS, seed=1)
    for cut in (again, other):
        assert [shard.sha256 for shard in cut.manifest.shards] == [shard.sha256 for shard in first.manifest.shards]
    assert (
        split_tpi(str(source), str(tmp_path / "one"), "parts", PARTS, seed=2).manifest.shards != first.manifest.shards
    )
    assert inspect_cache(open_store(tmp_path / "one")).unrecorded == ()


def test_parts_that_share_something_are_found(source: Path, tmp_path: Path) -> None:
    split_tpi(str(source), str(tmp_path), "parts", PARTS)
    folder = tmp_path / "tpi-train/parts"
    rows = read_rows(folder)
    pair = next(row for row in rows if row["split"] == "train" and row["n_speakers"] == 2 and not row["twin_id"])
    other = next(row for row in rows if row["split"] == "test" and row["n_speakers"] == 2)
    pair["primary_voice"], pair["third_party_voice"] = other["third_party_voice"], other["primary_voice"]
    pair["third_party_text"] = other["third_party_text"].lower()
    changed = tmp_path / "changed"
    cut = read_manifest(open_store(folder))
    rows.sort(key=lambda row: row["split"] == "train")
    write_build(changed, rows, by_split=True, kind="tpi_parts", parts_of=cut.parts_of)
    found = {(finding.row, finding.field) for finding in verify_disjointness(changed).findings}
    assert {(pair["id"], "voices"), (pair["id"], "third_party_text")} <= found
    assert {row for row, _ in found} == {pair["id"]}


def test_a_place_that_is_taken_is_left_alone(source: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="is the build that is to be cut"):
        split_tpi(str(source), str(source.parents[1]), "whole", PARTS)
    taken = tmp_path / "out/tpi-train/mine"
    write_build(taken, make_varied_rows())
    with pytest.raises(BuildError, match="there is another build; choose another --name"):
        split_tpi(str(source), str(tmp_path / "out"), "mine", PARTS)
    with pytest.raises(ConfigError, match=r"--name '\.\./x'"):
        split_tpi(str(source), str(tmp_path / "out"), "../x", PARTS)
    with pytest.raises(BuildError, match="not a finished build"):
        split_tpi(str(tmp_path / "nothing"), str(tmp_path / "out"), "parts", PARTS)
    assert verify_build(taken) == []


def write_pair_of_builds(tmp_path: Path, change: Row | None = None) -> tuple[Path, Path]:
    """Two builds with nothing in common, but for `change` of a row of the second, which lists the first."""
    first, second = tmp_path / "first", tmp_path / "second"
    write_build(first, make_varied_rows(6, 0))
    manifest = read_manifest(open_store(first))
    listed = OtherBuild(uri=str(first), dataset="tpi-train", build="first", rows_digest=digest_rows(manifest))
    rows = make_varied_rows(6, 1, tag="x")
    for row in rows:
        row["primary_voice"], other = ("eve", "fay") if row["id"] != "row-0003" else ("fay", "eve")
        row["third_party_voice"] = other if row["n_speakers"] == 2 else None
    rows[3].update(change or {})
    write_build(second, rows, disjoint_from=(listed,))
    return first, second


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"query_id": "query-1"}, "query_id", "query-1 is in tpi-train/build-test too"),
        ({"third_party_text": "No! Make it NUMBER two."}, "third_party_text", "'no make it number 2' is in"),
        ({"request": "book a table for 2 at seven tonight"}, "request", "is in"),
        ({"primary_voice": "bob", "third_party_voice": "ann"}, "voices", "ann and bob is in"),
    ],
)
def test_what_two_builds_share_is_found(tmp_path: Path, change: Row, field: str, words: str) -> None:
    first, second = write_pair_of_builds(tmp_path, change)
    for held in (verify_disjointness(second), verify_disjointness(second, [str(first)])):
        assert {(finding.row, finding.field) for finding in held.findings} == {("row-0003", field)}
        assert words in held.findings[0].problem
        assert held.findings[0].file.startswith("data/train-")


def test_builds_that_share_nothing(tmp_path: Path) -> None:
    first, second = write_pair_of_builds(tmp_path)
    assert verify_disjointness(second).findings == []
    assert verify_disjointness(second).notices == []
    assert verify_disjointness(first, [str(second)]).findings == []
    assert verify_build(second) == []


def test_a_single_voice_is_no_pair(tmp_path: Path) -> None:
    rows = make_varied_rows(1, 1, tag="y")
    rows[1].update(primary_voice="ann", query_id="query-y9")
    rows[0].update(primary_voice="gus", third_party_voice="hal")
    write_build(tmp_path / "third", rows)
    first, _ = write_pair_of_builds(tmp_path)
    assert verify_disjointness(tmp_path / "third", [str(first)]).findings == []


def test_a_listed_build_that_is_gone_or_new_is_a_notice(tmp_path: Path) -> None:
    first, second = write_pair_of_builds(tmp_path)
    write_build(first, make_varied_rows(5, 0))
    held = verify_disjointness(second)
    assert held.findings == []
    assert "has other rows now than when this build was made" in held.notices[0]
    (first / "manifest.json").unlink()
    held = verify_disjointness(second)
    assert held.findings == []
    assert held.notices[0].startswith(f"not held against tpi-train/first ({first}), which cannot be read: ")
    with pytest.raises(BuildError, match="not a finished build"):
        verify_disjointness(second, [str(first)])


def test_a_build_is_not_disjoint_from_itself(tmp_path: Path) -> None:
    first, _ = write_pair_of_builds(tmp_path)
    assert [str(f) for f in verify_disjointness(first, [str(first)]).findings] == [
        "data: holds the same rows as tpi-train/build-test."
    ]


def test_a_build_without_a_readable_manifest_is_left_to_the_other_checks(tmp_path: Path) -> None:
    first, second = write_pair_of_builds(tmp_path)
    (second / "manifest.json").write_text(json.dumps({"format": "no"}), "utf-8")
    assert verify_disjointness(second, [str(first)]).findings == []
    assert verify_build(second) != []


def test_builds_that_promise_it_share_no_voice(tmp_path: Path) -> None:
    first, second = write_pair_of_builds(tmp_path, {"primary_voice": "eve", "third_party_voice": "bob"})
    assert verify_disjointness(second).findings == []  # bob is there too, but never with eve
    manifest = read_manifest(open_store(second))
    rewrite_manifest(second, voices_disjoint_by="voice")
    found = verify_disjointness(second).findings
    assert {(finding.row, finding.field) for finding in found} == {("row-0003", "voices")}
    assert "bob is in tpi-train/build-test too" in found[0].problem
    # Held against a build that promises it, it is found from the other side as well.
    rewrite_manifest(second, voices_disjoint_by="voice", disjoint_from=())
    assert {finding.field for finding in verify_disjointness(first, [str(second)]).findings} == {"voices"}
    rewrite_manifest(second, voices_disjoint_by="pair", disjoint_from=manifest.disjoint_from)
    assert verify_disjointness(first, [str(second)]).findings == []


def test_a_voice_on_the_wrong_side_of_the_hold_out_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "build"
    names = [f"voice-{i}" for i in range(12)]
    held = [name for name, is_held in zip(names, find_held_out_voices(names, 0.5), strict=True) if is_held]
    rest = [name for name in names if name not in held]
    rows = make_varied_rows(6, 1)
    for row in rows:
        row["primary_voice"], other = rest[0], rest[1]
        row["third_party_voice"] = other if row["n_speakers"] == 2 else None
    drawn = {"use": "rest", "hold_out": 0.5, "hold_out_by": "voice"}
    config = {"profile": "laptop", "stages": {"choose_voices": drawn, "synthesise_speech": {"max_wer": 0.0}}}
    write_build(folder, rows, config=config)
    assert verify_disjointness(folder).findings == []
    rows[2]["third_party_voice"] = held[0]
    write_build(folder, rows, config=config)
    (finding,) = verify_disjointness(folder).findings
    assert (finding.row, finding.field) == (rows[2]["id"], "voices")
    assert finding.problem == f"{held[0]} is held out at 0.5, and the build uses 'rest'"


def rewrite_manifest(folder: Path, **changes: Any) -> None:
    store = open_store(folder)
    write_manifest(store, read_manifest(store).model_copy(update=changes))
