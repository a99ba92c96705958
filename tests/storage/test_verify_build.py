from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from bystander.cli.verify import verify
from bystander.schemas.tpi import FINAL
from bystander.storage.build_manifest import Quota, StageCounts, read_manifest
from bystander.storage.filesystem import open_store
from bystander.storage.row_invariants import find_unspeakable, measure_overlap
from bystander.storage.shards import write_shards
from bystander.storage.verify_build import verify_build
from final_rows import RATE, make_bench_rows, make_clip, make_manifest, make_rows, write_build

SHARD = "data/train-00000-of-00001.parquet"
Row = dict[str, Any]


@pytest.fixture
def rows() -> list[Row]:
    return make_rows()


def verify_texts(folder: Path, **options: Any) -> list[str]:
    return [str(finding) for finding in verify_build(folder, **options)]


@pytest.mark.parametrize("quick", [False, True])
def test_a_good_build_is_sound(tmp_path: Path, rows: list[Row], quick: bool) -> None:
    write_build(tmp_path, rows)
    assert verify_texts(tmp_path, quick=quick) == []


def test_a_remote_build_is_read_too(rows: list[Row]) -> None:
    store = write_build("memory://verify/b", rows)
    assert verify_build(store.uri) == []


def test_no_manifest_or_a_broken_one(tmp_path: Path, rows: list[Row]) -> None:
    assert verify_texts(tmp_path) == ["manifest.json: is missing, so this is not a finished build."]
    write_build(tmp_path, rows)
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text()[:-40])
    (finding,) = verify_texts(tmp_path)
    assert finding.startswith("manifest.json: is not a build manifest of this version")


def test_a_flipped_byte(tmp_path: Path, rows: list[Row]) -> None:
    write_build(tmp_path, rows)
    data = bytearray((tmp_path / SHARD).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / SHARD).write_bytes(data)
    assert any(text.startswith(f"{SHARD}: has checksum ") for text in verify_texts(tmp_path))


def test_every_flipped_byte_is_survived(tmp_path: Path, rows: list[Row]) -> None:
    write_build(tmp_path, rows[:1], quotas=())
    data = (tmp_path / SHARD).read_bytes()
    for at in [*range(0, len(data), len(data) // 40), *range(len(data) - 12, len(data))]:
        (tmp_path / SHARD).write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        assert any("has checksum" in text for text in verify_texts(tmp_path)), at


def test_truncation(tmp_path: Path, rows: list[Row]) -> None:
    write_build(tmp_path, rows)
    data = (tmp_path / SHARD).read_bytes()
    (tmp_path / SHARD).write_bytes(data[:-100])
    found = verify_texts(tmp_path)
    assert f"{SHARD}: has {len(data) - 100} bytes, the manifest says {len(data)}." in found
    assert any(text.startswith(f"{SHARD}: cannot be read as Parquet") for text in found)
    assert f"{SHARD}: has 0 readable rows, the manifest says 10." in found


def test_missing_and_stray_files(tmp_path: Path, rows: list[Row]) -> None:
    write_build(tmp_path, rows)
    (tmp_path / "rejects/check_realism.parquet").rename(tmp_path / "data/train-00007-of-00009.parquet")
    (tmp_path / "README.md").unlink()
    (tmp_path / "report.html").unlink()
    found = verify_texts(tmp_path)
    assert "rejects/check_realism.parquet: is missing." in found
    assert "data/train-00007-of-00009.parquet: is not in the manifest." in found
    assert "README.md: is missing." in found
    assert "report.html: is missing." in found
    assert "manifest.json: stage check_realism: says 1 rejected as unrealistic, the rejects have 0." in found


def test_a_card_and_a_report_that_are_not_whole(tmp_path: Path, rows: list[Row]) -> None:
    write_build(tmp_path, rows)
    (tmp_path / "README.md").write_text("\n")
    report = tmp_path / "report.html"
    report.write_bytes(report.read_bytes().rstrip()[:-1])
    assert verify_texts(tmp_path) == ["README.md: is empty.", "report.html: breaks off before its end, </html>."]
    report.write_bytes(b"")
    assert verify_texts(tmp_path) == ["README.md: is empty.", "report.html: is empty."]


def test_a_dropped_row(tmp_path: Path, rows: list[Row]) -> None:
    write_build(tmp_path, rows)
    manifest = read_manifest(open_store(tmp_path))
    table = pq.read_table(tmp_path / SHARD)
    pq.write_table(table.slice(1), tmp_path / SHARD)
    found = verify_texts(tmp_path)
    assert f"{SHARD}: has 9 readable rows, the manifest says 10." in found
    assert "manifest.json: counts.rows says 10, the shards have 9." in found
    assert f"{SHARD}: row hn-0000: twin_id names row-0000, which is not in the build." in found
    assert any("quotas says" in text for text in found)
    assert manifest.counts.rows == 10


def test_another_schema(tmp_path: Path, rows: list[Row]) -> None:
    write_build(tmp_path, rows)
    table = pq.read_table(tmp_path / SHARD)
    pq.write_table(table.drop_columns(["reply"]).append_column("extra", pa.nulls(len(table))), tmp_path / SHARD)
    assert f"{SHARD}: has a schema that differs in reply, extra." in verify_texts(tmp_path)


def test_nullable_columns_of_later_versions_are_missed_in_no_build(tmp_path: Path, rows: list[Row]) -> None:
    write_build(tmp_path, rows)
    before = set(verify_texts(tmp_path))
    table = pq.read_table(tmp_path / SHARD)
    pq.write_table(table.drop_columns(["primary_recognition_temperature"]), tmp_path / SHARD)
    (size_or_checksum,) = set(verify_texts(tmp_path)) - before
    assert size_or_checksum.startswith(f"{SHARD}: has ")
    assert "the manifest says" in size_or_checksum


def test_counts_quotas_and_stages_that_do_not_add_up(tmp_path: Path, rows: list[Row]) -> None:
    good = make_manifest(rows)
    counts = good.counts.model_copy(update={"by_label": {**good.counts.by_label, "actionable": 7}})
    stages = (StageCounts(stage="normalise_queries", rows_in=99, kept=9, reasons={"too_long": 1, "duplicate": 1}),)
    quotas = (
        Quota(label="ignorable", asked=3, got=4),
        Quota(label="actionable", scenario="priority_alert", asked=9, got=9),
        Quota(scenario="priority_alert", asked=9, got=4),
        Quota(scenario="simple_correction_with_alternative", asked=9, got=5),
    )
    write_build(tmp_path, rows, counts=counts, stages=stages, quotas=quotas)
    assert set(verify_texts(tmp_path)) == {
        "manifest.json: counts.by_label says 7 for actionable, the shards have 4.",
        "manifest.json: quotas have 4 rows of ignorable where 3 were asked for.",
        "manifest.json: quotas says 9 rows of actionable in priority_alert, the shards have 2.",
        "manifest.json: quotas says 5 rows of simple_correction_with_alternative, the shards have 4.",
        "manifest.json: stage normalise_queries: 99 rows in, but 9 kept and 2 rejected.",
        "manifest.json: stage check_realism: says 0 rejected as unrealistic, the rejects have 1.",
    }


def put(**values: Any) -> Callable[[list[Row]], None]:
    return lambda rows: rows[3].update(values)


def swap_audio(rows: list[Row]) -> None:
    rows[3]["audio"], rows[4]["audio"] = rows[4]["audio"], rows[3]["audio"]


def shift_third_party(rows: list[Row]) -> None:
    rows[3]["segments"][1]["start_s"] -= 0.01


def repeat_id(rows: list[Row]) -> None:
    rows[3]["id"] = rows[2]["id"]


def unlink_twin(rows: list[Row]) -> None:
    rows[0]["twin_id"] = None


def unlink_both_twins(rows: list[Row]) -> None:
    rows[0]["twin_id"] = rows[8]["twin_id"] = None


def change_twin_text(rows: list[Row]) -> None:
    rows[8]["third_party_text"] = "Something else."


def link_two_pairs(rows: list[Row]) -> None:
    rows[3] |= {k: rows[6][k] for k in ("primary_text", "primary_complete", "third_party_text", "timing")}
    rows[3]["twin_id"], rows[6]["twin_id"] = rows[6]["id"], rows[3]["id"]


def give_second_segment(rows: list[Row]) -> None:
    rows[8]["segments"] = [{**rows[8]["segments"][0], "end_s": 1.0}, {**rows[8]["segments"][0], "start_s": 1.5}]


def give_hard_negative(**values: Any) -> Callable[[list[Row]], None]:
    return lambda rows: rows[8].update(values)


BREAKS = {
    "swapped audio": (swap_audio, "row-0003: duration_s is 4.6000 s, the clip lasts 4.7000 s."),
    "no audio": (put(audio={"bytes": None, "path": "x"}), "row-0003: audio holds no bytes."),
    "not audio": (put(audio={"bytes": b"RIFF", "path": "x"}), "row-0003: audio cannot be decoded"),
    "silence": (put(audio={"bytes": make_clip([], 4.6), "path": "x"}), "row-0003: audio is silent."),
    "other rate": (put(sampling_rate=16000), "row-0003: sampling_rate is 16000 Hz, the clip has 24000 Hz."),
    "segments": (shift_third_party, "row-0003: overlap_s is 0.4500 s, the segments overlap by 0.4600 s."),
    "outside": (put(duration_s=4.0), "third_party from 2.25 s to 4.6 s does not lie in 4.0 s."),
    "temperature": (
        give_hard_negative(third_party_recognition_temperature=0.0),
        "hn-0000: third_party_recognition_temperature is set in a one-speaker row.",
    ),
    "hot": (
        put(primary_recognition_temperature=2.5),
        "row-0003: primary_recognition_temperature is 2.5, outside 0 to 2.",
    ),
    "one voice": (put(third_party_voice="af_alloy"), "row-0003: third_party_voice is the primary's voice too"),
    "id": (repeat_id, f"row row-0002: id occurs in {SHARD} too."),
    "half a twin": (unlink_twin, "row hn-0000: twin_id names row-0000, which does not name it back."),
    "no twin": (unlink_both_twins, "row hn-0000: twin_id is null, but row-0000 has the same transcript."),
    "twin's text": (change_twin_text, "twin_id names hn-0000, which has another transcript."),
    "twin pairs": (link_two_pairs, "row row-0003: twin_id names row-0006, which has as many speakers."),
    "label": (put(label="helpful"), "row-0003: label 'helpful' is no class of the pack."),
    "kind": (put(kind="topping"), "row-0003: kind 'topping' is no kind of 'ignorable'."),
    "scenario": (put(scenario="karaoke"), "row-0003: scenario 'karaoke' is not in the taxonomy."),
    "category": (put(category="x"), "row-0003: category is 'x', the scenario's is 'topic_change'."),
    "timing": (put(timing="never"), "row-0003: timing 'never' is no timing."),
    "speakable": (put(third_party_text="See <b>."), "row-0003: third_party_text holds '<', which"),
    "reply": (put(reply=" "), "row-0003: reply is empty."),
    "not cut": (put(primary_text="Please book a table."), "primary_text is cut off but does not end in '...'."),
    "cut": (put(primary_text="Please buy..."), "row-0003: primary_text is not a beginning of primary_complete."),
    "wer": (put(primary_wer=0.25), "row-0003: primary_wer is 0.250, above the configured 0."),
    "cosine": (put(track_similarity=1.2), "row-0003: track_similarity is 1.2, outside -1 to 1."),
    "split": (put(split="test"), "row-0003: split is 'test' in a shard of 'train'."),
    "seed": (put(seed=8), "row-0003: seed is 8, the build's is 7."),
    "pack": (put(pack_digest="0"), "row-0003: pack_digest names another pack"),
    "engines": (put(engines="[]"), "row-0003: engines is not a JSON object"),
    "null": (put(overlap_s=None), "row-0003: overlap_s is null in a two-speaker row."),
    "three": (put(n_speakers=3), "row-0003: n_speakers is 3, neither 1 nor 2."),
    "pair label": (put(label="hard_negative"), "label says hard negative, but the row has two speakers."),
    "lone label": (
        give_hard_negative(label="ignorable"),
        "label is 'ignorable', but the row has one speaker.",
    ),
    "lone voice": (
        give_hard_negative(third_party_voice="x"),
        "third_party_voice is set in a one-speaker row.",
    ),
    "lone segments": (give_second_segment, "row hn-0000: segments are 2 in a one-speaker row."),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_row_is_named(tmp_path: Path, rows: list[Row], name: str) -> None:
    damage, expected = BREAKS[name]
    damage(rows)
    write_build(tmp_path, rows)
    found = verify_texts(tmp_path)
    assert any(expected in text for text in found), found
    assert all(text.startswith(SHARD) for text in found if not text.startswith("manifest.json"))


def test_a_null_where_none_may_be(tmp_path: Path, rows: list[Row]) -> None:
    write_build(tmp_path, rows)
    nullable = pa.schema([column.with_nullable(True) for column in FINAL])
    rows[3]["label"] = None
    shards = write_shards(
        open_store(tmp_path), "data", "train", nullable, [pa.Table.from_pylist(rows, nullable)], sampling_rate=RATE
    )
    assert f"{shards[0].file}: row row-0003: label is null." in verify_texts(tmp_path)


def test_quick_decodes_some_and_checks_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_rows(20, 0)
    for row in rows:
        row["audio"] = {"bytes": b"noise", "path": "x"}
    rows[5]["seed"] = 8
    write_build(tmp_path, rows)
    monkeypatch.setattr("bystander.storage.verify_build.QUICK_CLIPS", 5)
    found = verify_texts(tmp_path, quick=True, seed=1)
    decoded = [text for text in found if "cannot be decoded" in text]
    assert 0 < len(decoded) < 15
    assert found == verify_texts(tmp_path, quick=True, seed=1)
    assert decoded != [text for text in verify_texts(tmp_path, quick=True, seed=2) if "cannot be decoded" in text]
    assert any("seed is 8" in text for text in found)


@pytest.mark.parametrize(
    ("text", "odd"),
    [
        ("It's 7 o'clock, isn't it? Yes!", None),
        ("Müller, 北京。", "。"),
        ("rock 'n roll", "'"),
        ("a-b", "-"),
        ("a\nb", "\n"),
    ],
)
def test_what_a_voice_cannot_speak(text: str, odd: str | None) -> None:
    assert find_unspeakable(text) == odd


def test_overlap_of_nested_and_distant_segments() -> None:
    primary = {"speaker": "primary", "start_s": 0.0, "end_s": 2.0}
    assert measure_overlap([primary, {"speaker": "third_party", "start_s": 0.5, "end_s": 1.0}]) == 0.5
    assert measure_overlap([primary, {"speaker": "third_party", "start_s": 2.5, "end_s": 3.0}]) == 0.0


def test_command(tmp_path: Path, rows: list[Row]) -> None:
    import typer

    app = typer.Typer()
    app.command()(verify)
    write_build(tmp_path, rows)
    result = CliRunner().invoke(app, [str(tmp_path)])
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path}: sound.\n")
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["counts"]["rows"] = 11
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    result = CliRunner().invoke(app, [str(tmp_path), "--quick"])
    assert result.exit_code == 2
    assert "counts.rows says 11, the shards have 10." in result.stdout


def write_bench(folder: Path, rows: list[Row], **changes: Any) -> None:
    config = {"profile": "fake", "stages": {"build_hard_negatives": {"min_ambiguity": 4.0}}}
    write_build(folder, rows, by_split=True, kind="tpi_bench", config=config, **changes)


def test_a_good_bench_is_sound(tmp_path: Path) -> None:
    write_bench(tmp_path, make_bench_rows())
    assert verify_texts(tmp_path) == []


@pytest.mark.parametrize(
    ("row", "changes", "problem"),
    [
        (2, {"primary_wer": 0.01}, "primary_wer is 0.010, in a bench it must be 0"),
        (2, {"third_party_wer": 0.25}, "third_party_wer is 0.250, in a bench it must be 0"),
        (8, {"primary_wer": 0.01}, "primary_wer is 0.010, in a bench it must be 0"),
        (10, {"ambiguity_score": 3.9}, "ambiguity_score is 3.90 in janus_test, below the configured 4"),
        (10, {"split": "tpi_test"}, "n_speakers is 1 in tpi_test"),
        (2, {"split": "janus_test"}, "n_speakers is 2 in janus_test"),
        (2, {"split": "train"}, "split is 'train'; a bench has tpi_test and janus_test"),
    ],
)
def test_what_a_bench_must_not_hold(tmp_path: Path, row: int, changes: Row, problem: str) -> None:
    rows = make_bench_rows()
    rows[row].update(changes)
    write_bench(tmp_path, rows)
    assert any(text.endswith(f"row {rows[row]['id']}: {problem}.") for text in verify_texts(tmp_path))


def test_a_bench_whose_scenarios_are_out_of_balance(tmp_path: Path) -> None:
    rows = make_bench_rows()
    rows[2].update(scenario="priority_alert", category="topic_change")
    quotas = tuple(
        Quota(scenario=scenario, asked=got, got=got)
        for scenario, got in (("simple_correction_with_alternative", 3), ("priority_alert", 5))
    )
    write_bench(tmp_path, rows, quotas=quotas)
    assert verify_texts(tmp_path) == [
        "manifest.json: scenarios are out of balance: 5 rows of priority_alert, "
        "3 of simple_correction_with_alternative."
    ]
