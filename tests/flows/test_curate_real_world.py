"""The flow from transcripts and recordings to rows: what passes, the clips, people's decisions, resuming, and use."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile

from bystander.flows.check_dyadic import open_source
from bystander.flows.curate_real_world import RealWorldBuild
from bystander.schemas.dyadic_config import load_dyadic_config
from bystander.schemas.errors import BuildError, ConfigError, InputError
from bystander.schemas.real_world import REAL_FINAL
from bystander.schemas.review import AnnotatorVerdict, ReviewDecision, ReviewEntry, RowEdits, RowReview
from bystander.schemas.stage_job import StageJob
from bystander.storage.any_manifest import read_any_manifest
from bystander.storage.bench_rows import read_bench, read_clips
from bystander.storage.build_manifest import digest_rows
from bystander.storage.filesystem import open_store
from bystander.storage.published_files import describe_published_build
from bystander.storage.review_files import ReviewJournal, write_decisions
from bystander.storage.review_rows import ReviewBuild
from bystander.storage.verify_build import verify_build
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.exchange_reviews import decide_rows
from bystander.tasks.review.resolution import Resolution
from bystander.tasks.split_tpi import split_tpi
from real_world_builds import RATE, Curated, configure, curate_directly, write_headsets, write_talk
from tpi_builds import Recorder

AVOCADO, SLOVENIA, PLANTS = (
    "How many calories are in an avocado?",
    "What is the capital of Slovenia?",
    "Remind me to water the plants tonight.",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_talk(folder / "corpus")
    write_headsets(folder / "audio")
    return folder


@pytest.fixture(scope="module")
def curated(home: Path) -> Curated:
    return curate_directly(configure(home / "store", home / "corpus", home / "audio", build="first"))


def find(rows: list[dict[str, Any]], text: str) -> dict[str, Any]:
    (row,) = (row for row in rows if row["primary_text"] == text)
    return row


def measure_tone(row: dict[str, Any], start_s: float, end_s: float, hertz: int) -> float:
    """Return the amplitude of a tone in a stretch of a row's clip."""
    samples, rate = soundfile.read(io.BytesIO(row["audio"]["bytes"]))
    part = samples[round(start_s * rate) : round(end_s * rate)]
    turn = np.exp(-2j * np.pi * hertz * np.arange(len(part)) / rate)
    return float(2 * abs(np.mean(part * turn)))


def test_requests_that_are_cut_into_become_rows_and_everything_else_has_a_reason(curated: Curated) -> None:
    assert {row["primary_text"] for row in curated.read_rows()} == {AVOCADO, SLOVENIA, PLANTS}
    reasons = {stage.stage: stage.reasons for stage in curated.manifest.stages}
    assert reasons["pair_utterances"] == {"long_pause": 5, "no_next_turn": 1, "vocal_sound_only": 1}
    assert reasons["filter_pairs"] == {"backchannel_only": 1, "no_request_form": 1, "refers_to_people": 1}
    refused = {row["reject_reason"]: row["primary_text"] for row in curated.read_rejects("filter_pairs")}
    assert refused["refers_to_people"] == "Did she find her old bicycle?"
    assert verify_build(curated.folder) == []


def test_a_clip_has_the_two_headsets_with_context_and_segments_of_its_own_clock(curated: Curated) -> None:
    row = find(curated.read_rows(), AVOCADO)
    assert (row["start_s"], row["end_s"], row["duration_s"]) == pytest.approx((0.7, 4.5, 3.8))
    assert (row["sampling_rate"], row["n_speakers"], row["timing"]) == (RATE, 2, "within_sentence")
    assert [(s["speaker"], round(s["start_s"], 3), round(s["end_s"], 3)) for s in row["segments"]] == [
        ("primary", 0.3, 2.3),
        ("third_party", 1.9, 3.5),
    ]
    assert row["overlap_s"] == pytest.approx(0.4)
    assert measure_tone(row, 0.4, 1.8, 200) == pytest.approx(0.2, abs=0.01)
    assert measure_tone(row, 2.4, 3.4, 300) == pytest.approx(0.2, abs=0.01)
    assert measure_tone(row, 0.0, 0.28, 200) < 0.005  # the lead is silent here
    assert find(curated.read_rows(), SLOVENIA)["timing"] == "after_completion"


def test_a_row_says_where_it_comes_from_and_leaves_open_what_nobody_knows(curated: Curated) -> None:
    row = find(curated.read_rows(), PLANTS)
    assert {
        name: row[name] for name in ("corpus", "recording", "licence", "primary_speaker", "third_party_speaker")
    } == {
        "corpus": "talks",
        "recording": "talk",
        "licence": "CC0",
        "primary_speaker": "B",
        "third_party_speaker": "A",
    }
    unknown = {name for name in REAL_FINAL.names if row[name] is None}
    assert {"scenario", "category", "primary_voice", "offset_asked_s", "primary_wer", "review"} <= unknown
    assert row["reply"]
    assert row["label"] in curated.manifest.pack.classes
    (corpus,) = curated.manifest.corpora
    assert (corpus.utterances, corpus.recordings, corpus.recordings_with_audio) == (13, 1, 1)
    card = (curated.folder / "README.md").read_text()
    assert "Nobody has looked at these rows" in card
    assert "| talks | CC0 | 1 | 1 | 13 |" in card


def test_a_second_run_calls_nothing_and_writes_nothing(home: Path, curated: Curated) -> None:
    before = {path: path.stat().st_mtime_ns for path in curated.folder.rglob("*") if path.is_file()}
    again = curate_directly(configure(home / "store", home / "corpus", home / "audio", build="first", workers=1))
    assert again.manifest == curated.manifest
    assert {path: path.stat().st_mtime_ns for path in curated.folder.rglob("*") if path.is_file()} == before


def test_partitions_and_places_change_no_row(home: Path, tmp_path: Path, curated: Curated) -> None:
    write_talk(tmp_path / "elsewhere")
    write_talk(tmp_path / "elsewhere", "talk2")
    fields = {"build": "first", "partition_rows": 1, "partition_utterances": 1}
    other = curate_directly(configure(tmp_path / "store", tmp_path / "elsewhere", home / "audio", **fields))
    rows = {row["id"]: row for row in other.read_rows()}
    assert len(rows) == 3
    assert {row["id"]: row for row in curated.read_rows()} == rows
    assert other.manifest.candidates is not None
    assert other.manifest.candidates.rows == 3  # of the second recording there is no audio
    assert verify_build(other.folder) == []


def test_a_plan_knows_what_is_there(home: Path, curated: Curated) -> None:
    def foresee(**fields: Any) -> Any:
        config = configure(home / "store", home / "corpus", home / "audio", **fields)
        environment = StageEnvironment(StageJob.of_real_world(config), keeps_calls=False)
        try:
            return RealWorldBuild(config, environment, Recorder()).foresee()
        finally:
            environment.close()

    assert foresee(build="first").verdict == "nothing_new"
    changed = {stage.stage: stage for stage in foresee(build="second", stages__cut_clips__lead_s=0.5).stages}
    assert (changed["score_pairs"].reused, changed["cut_clips"].redone) == (3, 3)


def test_without_audio_pairs_come_out_as_text_and_are_no_rows(home: Path, tmp_path: Path) -> None:
    text = curate_directly(configure(tmp_path, home / "corpus", build="text"))
    assert (text.manifest.counts.rows, text.manifest.shards) == (0, ())
    lines = [json.loads(line) for line in (text.folder / "candidates.jsonl").read_text().splitlines()]
    assert {line["primary_text"] for line in lines} == {AVOCADO, SLOVENIA, PLANTS}
    assert all(line["reply"] and line["label"] for line in lines)
    assert lines[0]["place"] == "talk.json: segment 1"
    assert any("3 more have no audio" in line for line in text.outcome.summary)
    assert "have no audio" in (text.folder / "README.md").read_text()
    assert verify_build(text.folder) == []
    published = [file.path for file in describe_published_build(open_store(str(text.folder))).files]
    assert "candidates.jsonl" in published
    (text.folder / "candidates.jsonl").write_text("")
    assert any(finding.file == "candidates.jsonl" for finding in verify_build(text.folder))


def decide(curated: Curated, path: Path, *decided: tuple[str, str, dict[str, Any]]) -> Path:
    """Write decisions: text of the request, verdict, and further fields."""
    rows = curated.read_rows()
    write_decisions(
        str(path),
        [
            ReviewDecision(
                row_id=find(rows, text)["id"],
                build_digest=digest_rows(curated.manifest),
                verdict=verdict,  # type: ignore[arg-type]
                annotators={"ann": AnnotatorVerdict(verdict="accept" if verdict == "conflict" else verdict)},  # type: ignore[arg-type]
                **fields,
            )
            for text, verdict, fields in decided
        ],
    )
    return path


def test_decisions_of_reviewers_are_applied(home: Path, tmp_path: Path, curated: Curated) -> None:
    segments = (
        {"speaker": "primary", "start_s": 0.3, "end_s": 2.5},
        {"speaker": "third_party", "start_s": 2.0, "end_s": 3.5},
    )
    edits = RowEdits(third_party_text="nobody counts calories any more", segments=segments)  # type: ignore[arg-type]
    decisions = decide(
        curated,
        tmp_path / "decisions.jsonl",
        (AVOCADO, "accept", {"edits": edits}),
        (SLOVENIA, "reject", {"reason": "bad_audio", "note": "A door slams."}),
    )
    fields = {"build": "reviewed", "decisions": str(decisions)}
    reviewed = curate_directly(configure(home / "store", home / "corpus", home / "audio", **fields))
    (row,) = reviewed.read_rows()
    assert row["third_party_text"] == "Nobody counts calories any more."
    assert row["overlap_s"] == pytest.approx(0.5)
    assert row["review"] == {
        "verdict": "accept",
        "rule": "unanimous",
        "annotators": ["ann"],
        "edited": ["third_party_text", "segments"],
    }
    rejected = {row["primary_text"]: row for row in reviewed.read_rejects("human_review")}
    assert (rejected[SLOVENIA]["reject_reason"], rejected[SLOVENIA]["reject_detail"]) == ("bad_audio", "A door slams.")
    assert rejected[PLANTS]["reject_reason"] == "undecided"
    assert verify_build(reviewed.folder) == []
    assert "People have looked at the rows" in (reviewed.folder / "README.md").read_text()
    kept = curate_directly(
        configure(home / "store", home / "corpus", home / "audio", **{**fields, "build": "kept", "undecided": "kept"})
    )
    assert {row["primary_text"] for row in kept.read_rows()} == {AVOCADO, PLANTS}


@pytest.mark.parametrize(
    ("verdict", "fields", "reason"),
    [
        ("conflict", {}, "conflict"),
        ("accept", {"edits": RowEdits(primary_text="¿Cuántas?")}, "edit_not_speakable"),
        (
            "accept",
            {"edits": RowEdits(segments=({"speaker": "primary", "start_s": 0, "end_s": 9},))},  # type: ignore[arg-type]
            "edit_out_of_clip",
        ),
    ],
)
def test_decisions_that_cannot_be_applied_reject_the_row(
    home: Path, tmp_path: Path, curated: Curated, verdict: str, fields: dict[str, Any], reason: str
) -> None:
    decisions = decide(curated, tmp_path / "d.jsonl", (AVOCADO, verdict, fields), (PLANTS, "accept", {}))
    built = curate_directly(
        configure(home / "store", home / "corpus", home / "audio", build=reason, decisions=str(decisions))
    )
    rejected = {row["primary_text"]: row["reject_reason"] for row in built.read_rejects("human_review")}
    assert rejected[AVOCADO] == reason


def test_decisions_about_other_rows_are_refused(home: Path, tmp_path: Path, curated: Curated) -> None:
    path = decide(curated, tmp_path / "d.jsonl", (AVOCADO, "accept", {}))
    line = json.loads(path.read_text())
    path.write_text(json.dumps({**line, "row_id": "real-of-another-corpus"}))
    config = configure(home / "store", home / "corpus", home / "audio", build="x", decisions=str(path))
    with pytest.raises(InputError, match="none of its 1 rows is found here"):
        curate_directly(config)


def test_an_evaluation_reads_the_rows_as_those_of_a_bench(curated: Curated) -> None:
    bench = read_bench(str(curated.folder), ["tpi_test"])
    assert [row["scenario"] for row in bench.rows] == [None] * 3
    (clips,) = read_clips(bench, 8)
    assert {row["test"] for row in clips.to_pylist()} == {"tpi_test"}
    assert read_any_manifest(open_store(str(curated.folder))).counts.rows == 3


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda folder: (folder / "talk.Headset-0.wav").write_bytes(b"RIFF no audio"), "audio_unreadable"),
        (lambda folder: soundfile.write(folder / "talk.Headset-0.wav", np.zeros(100), 8000), "beyond_recording"),
        (
            lambda folder: [
                soundfile.write(folder / f"talk.Headset-{n}.wav", np.zeros(46 * 16000), 16000) for n in range(3)
            ],
            "silent_clip",
        ),
    ],
)
def test_audio_that_cannot_be_used_rejects_its_rows(home: Path, tmp_path: Path, harm: Any, reason: str) -> None:
    audio = tmp_path / "audio"
    shutil.copytree(home / "audio", audio)
    harm(audio)
    config = configure(tmp_path / "store", home / "corpus", audio, build="x")
    with pytest.raises(BuildError, match=rf"cut_clips: {reason} 3.*Each lies with its reason in .*x/rejects\."):
        curate_directly(config)
    rejects = tmp_path / "store" / config.dataset / "x" / "rejects"
    rows = pq.read_table(rejects / "cut_clips.parquet").to_pylist()
    assert [row["reject_reason"] for row in rows] == [reason] * 3
    assert all(row["primary_text"] and row["third_party_text"] for row in rows)
    assert (rejects / "filter_pairs.parquet").exists()


def test_a_finished_build_is_not_touched_by_one_of_which_nothing_is_left(home: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    built = curate_directly(configure(store, home / "corpus", home / "audio", build="x"))
    before = {path: path.read_bytes() for path in built.folder.rglob("*") if path.is_file()}
    strict = configure(store, home / "corpus", home / "audio", build="x", stages__score_pairs__min_query=5)
    with pytest.raises(BuildError, match=r"score_pairs: .*x-rejects/rejects\. To see what the judge refused"):
        curate_directly(strict)
    assert {path: path.read_bytes() for path in built.folder.rglob("*") if path.is_file()} == before
    assert (store / strict.dataset / "x-rejects" / "rejects" / "score_pairs.parquet").exists()


def test_a_mixed_recording_is_taken_as_it_is(home: Path, tmp_path: Path) -> None:
    headsets = [soundfile.read(home / "audio" / f"talk.Headset-{n}.wav")[0] for n in range(3)]
    soundfile.write(tmp_path / "talk.Mix-Headset.wav", sum(headsets), RATE)
    built = curate_directly(configure(tmp_path / "store", home / "corpus", tmp_path, build="mix"))
    row = find(built.read_rows(), AVOCADO)
    assert measure_tone(row, 0.4, 1.8, 200) == pytest.approx(0.2, abs=0.01)


def test_settings_that_make_no_sense_are_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match="two corpora are called talks"):
        configure(home, home, corpora=[{"path": "a", "name": "talks"}, {"path": "talks"}])
    with pytest.raises(ConfigError, match="min_primary_words is 9, above the most, 3"):
        configure(home, home, stages__filter_pairs__min_primary_words=9, stages__filter_pairs__max_primary_words=3)


def test_a_review_of_the_build_becomes_the_reviewed_build(home: Path, tmp_path: Path, curated: Curated) -> None:
    opened = ReviewBuild(str(curated.folder))
    rows = curated.read_rows()
    journal = ReviewJournal(tmp_path / "journals", opened.make_header("ann"))
    said = (
        (AVOCADO, RowReview(verdict="accept")),
        (SLOVENIA, RowReview(verdict="reject", reason="no_interruption")),
        (PLANTS, RowReview(verdict="accept", primary_text="Remind me to water the plants tomorrow.")),
    )
    journal.append(
        ReviewEntry(row_id=find(rows, text)["id"], changes=changes, client="tab", seq=number)
        for number, (text, changes) in enumerate(said, 1)
    )
    journal.close()
    decisions = decide_rows(opened, tmp_path / "journals", Resolution("unanimous", None, 0.05))
    path = str(tmp_path / "decisions.jsonl")
    write_decisions(path, decisions)
    built = curate_directly(configure(home / "store", home / "corpus", home / "audio", build="x", decisions=path))
    assert {row["primary_text"] for row in built.read_rows()} == {AVOCADO, "Remind me to water the plants tomorrow."}
    assert verify_build(built.folder) == []


def test_what_needs_synthetic_voices_says_so(curated: Curated, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="is a build of real recordings, which is scored on as a whole"):
        split_tpi(str(curated.folder), str(tmp_path), "parts", {"a": 0.5, "b": 0.5})
    with pytest.raises(ConfigError, match="whose speakers say nothing else; take a synthetic one"):
        open_source(load_dyadic_config("fake", overrides={"source": str(curated.folder)}))
