"""The bench flow with the fake engines: exact, linked, disjoint, repeatable."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bystander.schemas.errors import ConfigError, StageContractError
from bystander.storage.build_contents import BuildContents
from bystander.storage.verify_build import verify_build
from bystander.tasks.stages import TEXT_STAGES
from bystander.tasks.verify_disjointness import verify_disjointness
from tpi_builds import Built, build, build_bench, make_bench_config, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")

ROWS = 104
"""The paper's shape scaled: 31 actionable and 21 ignorable rows, two of each scenario, and 52 one-speaker rows."""
LABELS = {"actionable": 31, "ignorable": 21, "hard_negative": 52}


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_queries(tmp_path_factory.mktemp("queries") / "queries.jsonl", 328)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def train(store: Path, queries: Path) -> Built:
    return build(make_config(store, queries, build="train"))


@pytest.fixture(scope="module")
def bench(store: Path, queries: Path, train: Built) -> Built:
    return build_bench(make_bench_config(store, queries, ROWS, build="bench", disjoint_from=[str(train.folder)]))


def read_split(built: Built, split: str) -> list[dict[str, Any]]:
    files = [shard.file for shard in built.outcome.manifest.shards if shard.split == split]
    return [row for file in files for row in pq.read_table(built.folder / file).to_pylist()]


def test_both_splits_have_what_was_asked_for(bench: Built) -> None:
    manifest = bench.outcome.manifest
    assert not manifest.shortfalls
    assert manifest.counts.by_split == {"janus_test": 52, "tpi_test": 52}
    assert manifest.counts.by_label == LABELS
    test = read_split(bench, "tpi_test")
    assert Counter(row["scenario"] for row in test) == dict.fromkeys({row["scenario"] for row in test}, 2)
    assert len({row["scenario"] for row in test}) == 26
    assert {row["n_speakers"] for row in test} == {2}
    janus = read_split(bench, "janus_test")
    assert {row["n_speakers"] for row in janus} == {1}
    assert min(row["ambiguity_score"] for row in janus) >= 4
    wers = [row[name] for row in test + janus for name in ("primary_wer", "third_party_wer")]
    assert {wer for wer in wers if wer is not None} == {0}


def test_one_speaker_rows_are_linked_where_their_words_are_in_the_other_split(bench: Built) -> None:
    test = {row["id"]: row for row in read_split(bench, "tpi_test")}
    janus = read_split(bench, "janus_test")
    texts = ("primary_complete", "primary_text", "third_party_text")
    said = {tuple(row[name] for name in texts): row_id for row_id, row in test.items()}
    assert len(said) == len(test)
    for row in janus:
        assert row["twin_id"] == said.get(tuple(row[name] for name in texts))
        if row["twin_id"]:
            assert test[row["twin_id"]]["twin_id"] == row["id"]
            assert test[row["twin_id"]]["primary_voice"] == row["primary_voice"]
    linked = sum(row["twin_id"] is not None for row in janus)
    assert linked == bench.outcome.manifest.counts.twins > 26
    assert f"{linked} of 52 one-speaker rows have their two-speaker twin in the bench." in bench.outcome.summary


def test_bench_is_sound_and_shares_nothing_with_the_train_build(bench: Built, train: Built) -> None:
    assert verify_build(bench.folder) == []
    held = verify_disjointness(bench.folder, [str(train.folder)])
    assert (held.findings, held.notices) == ([], [])
    (other,) = bench.outcome.manifest.disjoint_from
    assert (other.uri, other.dataset, other.build) == (str(train.folder), "tpi-train", "train")
    taken = {row["query_id"] for row in train.read_rows().select(["query_id"]).to_pylist()}
    rejects = bench.read_rejects("normalise_queries")
    assert len(rejects) == len(taken)
    assert {row["reject_reason"] for row in rejects} == {"query_in_other_build"}


def test_only_rows_that_are_needed_are_spoken_and_all_are_accounted_for(bench: Built) -> None:
    counts = {stage.stage: stage for stage in bench.outcome.manifest.stages}
    assert list(counts)[: len(TEXT_STAGES) + 2] == ["normalise_queries", *TEXT_STAGES, "select_texts"]
    texts = counts["select_texts"]
    assert texts.rows_in == counts["choose_voices"].kept
    assert texts.kept < texts.rows_in
    assert len(bench.read_rejects("select_texts")) == texts.reasons["not_needed"]
    spoken = counts["synthesise_speech"].rows_in
    assert spoken - counts["build_hard_negatives"].kept <= 52 + 4  # the fakes fail seldom, then another is spoken
    assert counts["select_quotas"].rows_in == counts["verify_mixture"].kept
    assert counts["select_quotas"].kept == ROWS


def test_datasets_opens_both_splits(bench: Built) -> None:
    datasets = pytest.importorskip("datasets")
    opened = datasets.load_dataset(str(bench.folder), cache_dir=str(bench.folder.parent / "hf"))
    assert {split: len(rows) for split, rows in opened.items()} == {"tpi_test": 52, "janus_test": 52}
    rows = opened["janus_test"].cast_column("audio", datasets.Audio(decode=False))
    assert rows[0]["audio"]["bytes"][:4] == b"fLaC"


def test_card_and_report_say_what_it_is(bench: Built) -> None:
    card = (bench.folder / "README.md").read_text("utf-8")
    assert "path: data/janus_test-*-of-*.parquet" in card
    assert "path: data/tpi_test-*-of-*.parquet" in card
    assert f"Of 52 one-speaker rows {bench.outcome.manifest.counts.twins} have their two-speaker" in card
    assert "no pair of voices in common with `tpi-train/train`" in card
    assert "Does it need ears?" not in card
    report = (bench.folder / "report.html").read_text("utf-8")
    assert "disjoint from tpi-train/train" in report
    assert "<span>twins</span>" in report


def test_second_run_makes_nothing(bench: Built, train: Built, store: Path, queries: Path) -> None:
    again = build_bench(make_bench_config(store, queries, ROWS, build="bench", disjoint_from=[str(train.folder)]))
    assert not again.heard.made
    assert "nothing new" in again.heard.phases[-1]


@pytest.mark.parametrize("workers", [1, 4])
def test_workers_and_partitions_change_no_byte(
    bench: Built, train: Built, tmp_path: Path, queries: Path, workers: int
) -> None:
    others = [str(train.folder)]
    config = make_bench_config(
        tmp_path, queries, ROWS, build="bench", disjoint_from=others, workers=workers, partition_rows=23
    )
    other = build_bench(config)
    assert other.checksums == bench.checksums
    assert [info.sha256 for info in other.outcome.manifest.rejects] == [
        info.sha256 for info in bench.outcome.manifest.rejects
    ]


def test_what_fails_when_it_is_spoken_is_replaced(tmp_path: Path, queries: Path) -> None:
    """The longest texts take the fake too long for this limit."""
    limit = {"stages__synthesise_speech__max_seconds_per_character": 0.071}
    built = build_bench(make_bench_config(tmp_path, queries, 20, build="hard", **limit))
    counts = {stage.stage: stage for stage in built.outcome.manifest.stages}
    assert counts["synthesise_speech"].reasons.keys() == {"too_slow"}
    assert built.outcome.manifest.counts.by_split == {"janus_test": 10, "tpi_test": 10}
    assert sum(phase.startswith("speaking") for phase in built.heard.phases) > 1
    assert verify_build(built.folder) == []


def test_authored_texts_make_a_bench_that_shares_nothing_with_their_train_build(tmp_path: Path) -> None:
    """The playbook's lines serve many queries, so that texts of the train build have to be avoided here and there."""
    fields = {"engines__writer": {"engine": "playbook"}, "queries__path": None}
    train = build(make_config(tmp_path, tmp_path, build="train", **fields))
    bench = build_bench(
        make_bench_config(tmp_path, tmp_path, 52, build="b", disjoint_from=[str(train.folder)], **fields)
    )
    manifest = bench.outcome.manifest
    assert manifest.counts.by_label == {"actionable": 16, "hard_negative": 26, "ignorable": 10}
    assert manifest.counts.twins >= 10  # of the labels and scenarios that are wanted, few lines are ambiguous
    counts = {stage.stage: stage for stage in manifest.stages}
    assert counts["check_disjointness"].reasons.keys() == {"text_in_other_build"}
    assert verify_build(bench.folder) == []
    assert verify_disjointness(bench.folder).findings == []


def test_too_few_queries_are_said_plainly(tmp_path: Path) -> None:
    built = build_bench(make_bench_config(tmp_path, write_queries(tmp_path / "few.jsonl", 8), 60, build="few"))
    assert any(line.startswith("Short: hard negatives: ") for line in built.outcome.summary)
    assert 0 < built.outcome.manifest.counts.rows < 60
    assert verify_build(built.folder) == []


def test_no_one_speaker_rows_at_all(tmp_path: Path, queries: Path) -> None:
    built = build_bench(make_bench_config(tmp_path, queries, 26, build="pairs", targets__hard_negatives=0))
    assert built.outcome.manifest.counts.by_split == {"tpi_test": 26}
    assert verify_build(built.folder) == []


def test_voices_that_are_all_taken_are_said_before_anything_is_written(
    train: Built, tmp_path: Path, queries: Path
) -> None:
    pair = next(row for row in train.read_rows().select(["primary_voice", "third_party_voice"]).to_pylist())
    fields = {"stages__choose_voices": {"voices": list(pair.values()), "use": "all"}}
    config = make_bench_config(tmp_path, queries, build="b", disjoint_from=[str(train.folder)], **fields)
    with pytest.raises(ConfigError, match="the builds in `disjoint_from` use every pair of 2 voices"):
        build_bench(config)
    assert not (tmp_path / "cache/stages").exists()


def test_a_build_to_be_disjoint_from_must_be_one(tmp_path: Path, queries: Path) -> None:
    config = make_bench_config(tmp_path, queries, disjoint_from=[str(tmp_path / "nothing")])
    with pytest.raises(ConfigError, match=r"disjoint_from .*/nothing: .* is not a finished build"):
        build_bench(config)


def test_nothing_that_is_shared_is_published_even_if_a_stage_let_it_pass(
    train: Built, tmp_path: Path, queries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BuildContents, "has_query", lambda self, query_id: False)
    monkeypatch.setattr(BuildContents, "has_text", lambda self, text, language: False)
    config = make_bench_config(tmp_path, queries, ROWS, build="b", disjoint_from=[str(train.folder)])
    with pytest.raises(StageContractError, match=r"row row-\w+: \w+ .* is in a build of `disjoint_from` too"):
        build_bench(config)
    assert not (tmp_path / "tpi-bench/b/manifest.json").exists()
    assert not list((tmp_path / "tpi-bench/b").glob("data/*.parquet"))


def test_a_train_build_can_be_kept_clear_of_a_bench_too(bench: Built, tmp_path: Path, queries: Path) -> None:
    built = build(make_config(tmp_path, queries, build="after", disjoint_from=[str(bench.folder)]))
    assert verify_disjointness(built.folder).findings == []
    assert built.outcome.manifest.disjoint_from[0].dataset == "tpi-bench"


def test_no_speaker_is_in_both_where_voices_are_held_out(tmp_path: Path, queries: Path) -> None:
    fields = {"stages__choose_voices__hold_out_by": "voice", "engines__speech__voices": 16}
    train = build(make_config(tmp_path, queries, build="train", **fields))
    others = [str(train.folder)]
    bench = build_bench(make_bench_config(tmp_path, queries, 26, build="b", disjoint_from=others, **fields))
    speaking = [
        {row[name] for row in built.read_rows().to_pylist() for name in ("primary_voice", "third_party_voice")} - {None}
        for built in (train, bench)
    ]
    assert all(len(voices) > 1 for voices in speaking)
    assert not speaking[0] & speaking[1]
    assert bench.outcome.manifest.voices_disjoint_by == "voice"
    assert "Nothing in common with tpi-train/train: no query, no text, no voice." in bench.outcome.summary
    assert "and no voice in common with `tpi-train/train`" in (bench.folder / "README.md").read_text("utf-8")
    assert verify_build(bench.folder) == []
    assert verify_disjointness(bench.folder).findings == []
    assert verify_disjointness(train.folder, [str(bench.folder)]).findings == []
