"""The SID flows with the fake engines: exact, sound, repeatable, and nothing lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bystander.schemas.errors import ConfigError
from bystander.schemas.sid_config import SidTrainConfig
from bystander.schemas.text_tasks import BREAK_TAG
from bystander.storage.verify_build import verify_build
from bystander.tasks.engines.fake_speech import MARGIN_S
from sid_builds import POLITE_TALK, QUOTAS, TALK, build_sid, make_sid_config, write_talk
from tpi_builds import Built

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def bench(store: Path) -> Built:
    return build_sid(make_sid_config(store, build="bench"))


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One good recording, an empty file, and one that is no audio."""
    folder = tmp_path_factory.mktemp("talks")
    write_talk(folder)
    (folder / "empty.wav").write_bytes(b"")
    (folder / "text.wav").write_text("this is no audio", "utf-8")
    return folder


@pytest.fixture(scope="module")
def natural(store: Path, talks: Path) -> Built:
    config = make_sid_config(
        store,
        build="natural",
        recordings__path=str(talks),
        recordings__licence="CC BY 4.0",
        targets__per_language=None,
        targets__languages=["en"],
    )
    return build_sid(config)


def test_every_quota_is_met_exactly_in_both_languages(bench: Built) -> None:
    manifest = bench.outcome.manifest
    assert manifest.kind == "sid_bench"
    assert not manifest.shortfalls
    assert manifest.counts.by_language_and_category == {"en": QUOTAS, "zh": QUOTAS}
    assert manifest.counts.by_category == {"beginning": 6, "middle": 8, "uninterrupted": 6, "silence": 2, "noise": 3}
    assert manifest.counts.by_split == {"sid_bench": 25}
    assert verify_build(bench.folder) == []


def test_rows_say_what_is_in_them(bench: Built) -> None:
    for row in bench.read_rows().to_pylist():
        if row["language"] is None:
            assert (row["total_nonbreak"], row["break_time_s"], row["text"]) == (True, row["duration_s"], None)
            continue
        assert row["synthetic"]
        assert row["text_with_break"].count(BREAK_TAG) == (not row["total_nonbreak"])
        if row["category"] == "middle":
            assert row["break_word_index"] > 0
        assert row["words"][0]["start_s"] >= 0
        assert row["context_text"]


def test_the_build_reports_how_far_its_annotation_is_from_the_truth(bench: Built) -> None:
    errors = {(error.language, error.category): error for error in bench.outcome.manifest.annotation}
    assert errors[None, None].rows == 20
    # The rule tagger knows the authored scripts' backchannels.
    assert errors[None, None].tag_accuracy == 1
    assert errors["en", "beginning"].timed == 3
    assert errors["en", "uninterrupted"].median_ms is None
    report = (bench.folder / "report.html").read_text("utf-8")
    assert "Annotation error" in report
    assert "20" in report


def test_no_annotating_stage_reads_what_is_known_of_a_turn() -> None:
    from bystander.tasks.stages import TURN_STAGES, get_stage

    for name in TURN_STAGES:
        stage = get_stage(name)
        assert stage.uses, name
        assert not [column for column in stage.uses if column.startswith("true_")], name


def test_a_second_run_does_nothing(bench: Built, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("what was cut is cut again")

    monkeypatch.setattr("bystander.flows.sid_harvest.cut_silences", refuse)
    monkeypatch.setattr("bystander.flows.sid_harvest.iterate_turns", refuse)
    again = build_sid(make_sid_config(store, build="bench"))
    assert again.heard.made == Counter()
    assert again.outcome.manifest == bench.outcome.manifest
    assert "nothing new: the published build is made of just this" in again.heard.phases


def test_neither_workers_nor_partitions_change_a_row(bench: Built, tmp_path: Path) -> None:
    other = build_sid(make_sid_config(tmp_path, build="bench", workers=1, partition_rows=5))
    assert other.checksums == bench.checksums


def test_a_lost_or_damaged_part_of_cut_turns_is_made_again(bench: Built, store: Path) -> None:
    bases = sorted((store / "cache/bases").glob("*.parquet"), key=lambda path: path.stat().st_size)
    bases[-1].write_bytes(b"x" * bases[-1].stat().st_size)
    for folder in ("tag_breaks", "align_words", "place_breaks"):
        for result in (store / "cache/stages" / folder).glob("*/result.json"):
            result.unlink()
    again = build_sid(make_sid_config(store, build="bench"))
    assert again.checksums == bench.checksums
    assert again.heard.made["align_words"] > 0


def test_another_seed_makes_other_conversations(bench: Built, tmp_path: Path) -> None:
    other = build_sid(make_sid_config(tmp_path, build="bench", seed=1))
    ids, others = (set(built.read_rows()["id"].to_pylist()) for built in (bench, other))
    assert not {row for row in ids & others if not row.startswith("noise")}


def test_recordings_come_as_they_are_and_nothing_of_them_is_lost(natural: Built) -> None:
    manifest = natural.outcome.manifest
    assert {quota.category for quota in manifest.quotas} == {"silence", "noise"}
    rows = {row["text"]: row for row in natural.read_rows().to_pylist() if row["text"]}
    categories = {TALK[1][1]: "uninterrupted", TALK[3][1]: "middle", TALK[5][1]: "beginning"}
    assert {text: row["category"] for text, row in rows.items()} == categories
    assert {row["licence"] for row in rows.values()} == {"CC BY 4.0"}
    assert {row["context_text"] for row in rows.values()} == {TALK[0][1], TALK[2][1], TALK[4][1]}
    assert not any(row["synthetic"] for row in rows.values())
    assert verify_build(natural.folder) == []
    rejects = natural.read_rejects("decode_recordings")
    assert len(rejects) == 2
    assert all(row["reject_detail"] for row in rejects)
    assert {row["source"] for row in rejects} == {"empty.wav", "text.wav"}


def test_break_times_of_recordings_are_where_the_words_are(natural: Built) -> None:
    starts = {text: start for _, text, start in TALK}
    for row in natural.read_rows().to_pylist():
        if row["category"] == "beginning":
            onset_s = starts[row["text"]] + MARGIN_S
            assert row["turn_start_s"] + row["break_time_s"] == pytest.approx(onset_s, abs=0.02)


def test_rejects_of_recordings_name_their_audio_and_do_not_hold_it(natural: Built) -> None:
    table = pq.read_table(natural.folder / "rejects/decode_recordings.parquet")
    assert "audio_files" in table.schema.names
    assert all(files for files in table["audio_files"].to_pylist())


def test_a_recording_without_overlap_is_a_reject_of_a_whole_build(store: Path, tmp_path: Path) -> None:
    write_talk(tmp_path, "talk")
    write_talk(tmp_path, "polite", POLITE_TALK)
    fields = {"targets__per_language": None, "targets__languages": ["en"], "targets__noise": 1}
    built = build_sid(make_sid_config(store, build="polite", recordings__path=str(tmp_path), **fields))
    assert verify_build(built.folder) == []
    rejects = built.read_rejects("find_turns")
    assert [(row["source"], row["reject_reason"]) for row in rejects] == [("polite.wav", "no_overlap")]
    assert rejects[0]["audio"]["bytes"] is None
    assert rejects[0]["audio"]["path"]
    assert rejects[0]["transcript_source"] == "seglst"


def test_a_language_that_cannot_be_tagged_is_refused_at_once(tmp_path: Path, talks: Path) -> None:
    with pytest.raises(ConfigError, match="klingon"):
        build_sid(make_sid_config(tmp_path, recordings__path=str(talks), recordings__language="klingon"))


def test_conversations_fill_up_what_recordings_leave_open(store: Path, talks: Path) -> None:
    config = make_sid_config(store, build="mixed", recordings__path=str(talks), targets__languages=["en"])
    built = build_sid(config)
    rows = [row for row in built.read_rows().to_pylist() if row["language"]]
    assert Counter(row["category"] for row in rows) == QUOTAS
    assert Counter(row["category"] for row in rows if not row["synthetic"]) == dict.fromkeys(QUOTAS, 1)
    assert verify_build(built.folder) == []


def test_training_data_is_the_same_in_a_split_of_its_own(store: Path) -> None:
    built = build_sid(make_sid_config(store, SidTrainConfig, build="train", seed=5, targets__languages=["en"]))
    assert built.outcome.manifest.kind == "sid_train"
    assert built.outcome.manifest.counts.by_split == {"train": 15}
    assert built.folder.parent.name == "sid-train"
    assert verify_build(built.folder) == []


def test_a_language_without_voices_is_left_out_and_said(store: Path) -> None:
    built = build_sid(make_sid_config(store, build="short", targets__languages=["en", "de"], targets__noise=0))
    manifest = built.outcome.manifest
    assert set(manifest.left_out) == {"de"}
    assert {quota.language for quota in manifest.shortfalls} == {"de"}
    assert any("de" in line for line in built.outcome.summary if line.startswith("Left out"))
    assert "de" in (built.folder / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"conversations__use": False}, "recordings.path"),
        ({"targets__per_language": None}, "per_language"),
        ({"engines__speech": None}, "engines.speech"),
        ({"noise__generators": ["thunder"]}, "thunder"),
        ({"prompts": "nowhere"}, "nowhere"),
    ],
)
def test_settings_that_cannot_work_are_one_clear_error(tmp_path: Path, fields: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError if named != "nowhere" else Exception, match=named):
        build_sid(make_sid_config(tmp_path, **fields))
