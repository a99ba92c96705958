"""`bystander diff`: tables, JSON, the table of rows, exit codes, and what cannot be compared."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
import soundfile

from bystander.storage.build_manifest import BaseInfo, StageCounts
from bystander.storage.filesystem import open_store
from bystander.storage.releases import move_latest
from final_rows import RATE, make_rows, write_build
from sid_rows import make_sid_rows, write_sid_build

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(run_command: Run) -> Run:
    return partial(run_command, "diff")


def describe(**stages: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"write_replies": {"version": 1}, "mix_speakers": {"params": {}}} | stages


def encode_again(data: bytes) -> bytes:
    """The same samples in another file: an older encoder's, say."""
    samples, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    sink = io.BytesIO()
    soundfile.write(sink, samples, rate, format="FLAC", subtype="PCM_16", compression_level=0.0)
    assert sink.getvalue() != data
    return sink.getvalue()


@pytest.fixture
def builds(tmp_path: Path) -> tuple[Path, Path]:
    """Ten rows each: 6 the same, 2 with another reply, one encoded otherwise, one removed and one added."""
    rows = make_rows(8, 2)
    write_build(tmp_path / "d" / "old", rows, build="old", fingerprints=describe())
    changed = [dict(row) for row in rows]
    for row in changed[2:4]:
        row["reply"] += " Shall I?"
        row["pack_digest"] = "f" * 64
    changed[4]["audio"] = {**changed[4]["audio"], "bytes": encode_again(changed[4]["audio"]["bytes"])}
    changed[5] |= {"id": "row-new", "query_id": "query-new", "query_text": "something else"}
    stages = (StageCounts(stage="normalise_queries", rows_in=8, kept=8),)
    write_build(
        tmp_path / "d" / "new", changed, build="new", fingerprints=describe(write_replies={"version": 2}), stages=stages
    )
    return tmp_path / "d" / "old", tmp_path / "d" / "new"


def test_tables_name_changes_and_causes(run: Run, builds: tuple[Path, Path]) -> None:
    code, out, err = run(*builds)
    assert (code, err) == (0, "")
    assert "Rows: 6 the same, 1 removed, 1 added, 2 changed, 1 only provenance." in out
    assert "write_replies: the stage's version: 1 -> 2" in out
    assert "its request is not in the input of the second build" in out
    assert "Audio: 0 clips sound otherwise, 0 of them have another duration; 1 are stored otherwise" in out
    assert "… and" not in out
    code, out, _ = run(*builds, "--limit", 1)
    assert "… and 4 more; --rows FILE writes all." in out


def test_json_says_the_same(run: Run, builds: tuple[Path, Path]) -> None:
    code, out, _ = run(*builds, "--json", "--limit", 2)
    found = json.loads(out)
    assert (code, found["identical"], found["unexplained"]) == (0, False, 0)
    assert found["rows"] == {"same": 6, "removed": 1, "added": 1, "changed": 2, "provenance": 1}
    assert found["audio"] == {"encoding_only": 1, "samples": 0, "duration": 0}
    groups = {(group["change"], group["rows"]): group for group in found["causes"]}
    assert groups["changed", 2]["columns"] == ["pack_digest", "reply"]
    assert groups["changed", 2]["examples"] == ["row-0002", "row-0003"]
    assert groups["provenance", 1]["columns"] == ["audio.encoding"]
    assert [row["id"] for row in found["listed"]] == ["row-0005", "row-new"]
    assert set(found["manifest"]) <= {"counts"}


def test_exit_code_tells_only_when_it_is_asked_to(run: Run, builds: tuple[Path, Path]) -> None:
    assert run(*builds)[0] == 0
    assert run(*builds, "--exit-code")[0] == 1
    assert run(builds[0], builds[0], "--exit-code")[0] == 0


def test_table_holds_every_row(run: Run, builds: tuple[Path, Path], tmp_path: Path) -> None:
    for name in ("rows.parquet", "rows.csv"):
        assert run(*builds, "--rows", tmp_path / name)[0] == 0
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table.column_names == ["id", "change", "cause", "code", "stage", "field", "columns"]
    rows = {row["id"]: row for row in table.to_pylist()}
    assert rows["row-0002"] == {
        "id": "row-0002",
        "change": "changed",
        "cause": "write_replies: the stage's version: 1 -> 2",
        "code": "setting",
        "stage": "write_replies",
        "field": "version",
        "columns": ["reply", "pack_digest"],
    }
    assert {key: row["change"] for key, row in rows.items() if row["change"] != "changed"} == {
        "row-0004": "provenance",
        "row-0005": "removed",
        "row-new": "added",
    }
    plain = pc.read_csv(tmp_path / "rows.csv")
    assert plain["id"].to_pylist() == table["id"].to_pylist()
    assert plain["columns"].to_pylist() == [" ".join(names) for names in table["columns"].to_pylist()]
    code, _, err = run(*builds, "--rows", tmp_path / "rows.xlsx")
    assert (code, "name a file that ends in .parquet or .csv" in err) == (2, True)


def test_targets_do_not_differ_where_they_do_not_count(run: Run, tmp_path: Path) -> None:
    base = {"uri": "s/d/old", "dataset": "d", "build": "old", "rows_digest": "0" * 64}
    info = BaseInfo.model_validate({**base, "rows": "only", "rows_there": 5, "rows_here": 5})
    rows = make_rows(4, 1)
    for name, size, on_top in (("old", 4, None), ("same", 9, info), ("more", 9, None)):
        config = {"targets": {"labels": {"actionable": size}}, "shard_mib": size}
        write_build(tmp_path / "d" / name, rows, build=name, config=config, on_top_of=on_top)
    _, out, _ = run(tmp_path / "d" / "old", tmp_path / "d" / "same")
    assert "shard_mib" in out
    assert "targets.labels" not in out
    table = tmp_path / "rows.csv"
    _, out, _ = run(tmp_path / "d" / "old", tmp_path / "d" / "more", "--rows", table)
    assert "targets.labels.actionable" in out
    assert out.endswith(f"{table}: 0 rows written.\n")
    assert table.exists()


def test_a_change_that_nothing_explains_is_said_plainly(run: Run, tmp_path: Path) -> None:
    rows = make_rows(2, 0)
    write_build(tmp_path / "a", rows, fingerprints=describe())
    rows[1]["audio"] = {**rows[1]["audio"], "bytes": silence(rows[1]["duration_s"])}
    write_build(tmp_path / "b", rows, fingerprints=describe())
    _, out, _ = run(tmp_path / "a", tmp_path / "b")
    assert "mix_speakers: unexplained: equal inputs and settings gave another result; an engine is not" in out
    assert "Unexplained: 1 rows changed though nothing that decides them did." in out
    assert "Audio: 1 clips sound otherwise, 0 of them have another duration; 0 are stored otherwise" in out


def silence(duration_s: float) -> bytes:
    sink = io.BytesIO()
    soundfile.write(sink, np.zeros(round(duration_s * RATE), np.int16), RATE, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def test_build_without_fingerprints_is_compared_by_stage(run: Run, tmp_path: Path) -> None:
    rows = make_rows(2, 0)
    write_build(tmp_path / "a", rows, build="before")
    rows[0]["reply"] = "Another."
    write_build(tmp_path / "b", rows, build="after", fingerprints=describe())
    _, out, _ = run(tmp_path / "a", tmp_path / "b")
    assert "before was made before manifests had fingerprints" in out
    assert "write_replies: what of it changed cannot be known, since the manifest of before has no fingerprints" in out


def test_latest_release_is_followed(run: Run, builds: tuple[Path, Path]) -> None:
    store = open_store(builds[0].parent.parent)
    move_latest(store, "d", "new", "")
    _, out, _ = run(builds[0], builds[0].parent / "latest")
    assert f"second: {builds[1]} (tpi_train, 10 rows)" in out


def test_sid_builds_are_compared(run: Run, tmp_path: Path) -> None:
    rows = make_sid_rows(2, ("en",))
    write_sid_build(tmp_path / "a", rows, fingerprints={"align_words": {"params": {"beam": 10}}})
    rows[0] = rows[0] | {"phones": rows[0]["phones"][:1]}
    dropped = rows.pop()
    write_sid_build(tmp_path / "b", rows, fingerprints={"align_words": {"params": {"beam": 20}}})
    _, out, _ = run(tmp_path / "a", tmp_path / "b", "--json")
    found = json.loads(out)
    assert found["rows"] == {"same": len(rows) - 1, "removed": 1, "added": 0, "changed": 1, "provenance": 0}
    assert [(g["change"], g["causes"][0]["stage"], g["causes"][0]["field"]) for g in found["causes"]] == [
        ("removed", "plan_noise", ""),
        ("changed", "align_words", "params.beam"),
    ]
    assert found["listed"][0]["id"] == dropped["id"]


def test_what_cannot_be_compared_is_said_in_one_line(run: Run, builds: tuple[Path, Path], tmp_path: Path) -> None:
    write_sid_build(tmp_path / "sid", make_sid_rows(1, ("en",)))
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "evaluation" / "manifest.json").write_text('{"format": "bystander-evaluation-manifest"}')
    (tmp_path / "evaluation" / "scores.json").write_text("{}")
    for other, message in {
        tmp_path / "sid": "compare two TPI builds or two SID builds",
        tmp_path / "evaluation": "is an evaluation; name two builds of datasets",
        tmp_path / "none": "manifest.json: is missing, so this is not a finished build",
    }.items():
        code, out, err = run(builds[0], other)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err
    open_store(builds[1]).write_bytes("data/train-00000-of-00001.parquet", b"nothing")
    code, out, err = run(*builds)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "cannot be read as Parquet" in err
