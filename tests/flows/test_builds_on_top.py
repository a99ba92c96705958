"""Builds that stand on others: just their rows under another pack, or their rows and more."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bystander.flows.check_on_top import check_on_top, check_same_settings
from bystander.schemas.config import TpiConfig
from bystander.schemas.errors import BuildError, ConfigError
from bystander.schemas.stage_job import StageJob
from bystander.storage.filesystem import open_store
from bystander.storage.releases import move_latest
from bystander.storage.verify_build import verify_build
from bystander.tasks import environment
from bystander.tasks.engines.fake_speech import FakeRecogniser, FakeSpeechEngine
from bystander.tasks.engines.fake_text import FakeTextEngine
from bystander.tasks.environment import StageEnvironment
from four_class_pack import CLASSES, write_four_class_pack
from tpi_builds import ROWS, Built, build, build_bench, make_bench_config, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")

OF_THE_PACK = {"label", "kind", "label_score", "reply", "reply_attempts", "pack", "pack_digest"}
_BY_THREE = {"actionable": 15, "ignorable": 15}
SHORT_REPLY = 12
"""Words that a reply may have where some are to be refused: the fake writer's are as long as the requests."""
LINKS = {"twin_id"}
"""Whether a row has a twin depends on whether that one passed too."""


@contextmanager
def counting_calls() -> Iterator[Counter[str]]:
    """Count what the fake engines are asked: texts by their task, clips spoken, clips listened to."""
    counts: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for engine, method in (
            (FakeTextEngine, "generate"),
            (FakeSpeechEngine, "synthesise"),
            (FakeRecogniser, "recognise"),
        ):
            ask = getattr(engine, method)

            def count(self: Any, requests: Any, *others: Any, ask: Any = ask, name: str = method) -> Any:
                counts.update(getattr(request, "task", name) for request in requests)
                return ask(self, requests, *others)

            patch.setattr(engine, method, count)
        yield counts


def read_by_id(built: Built) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in built.read_rows().to_pylist()}


def leave_out(row: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("on-top")


@pytest.fixture(scope="module")
def queries(folder: Path) -> Path:
    return write_queries(folder / "queries.jsonl")


@pytest.fixture(scope="module")
def more_queries(folder: Path) -> Path:
    (folder / "more").mkdir()
    return write_queries(folder / "more" / "queries.jsonl", 80)


@pytest.fixture(scope="module")
def pack(folder: Path) -> Path:
    return write_four_class_pack(folder / "pack")


@pytest.fixture(scope="module")
def base(folder: Path, queries: Path) -> tuple[Built, Counter[str]]:
    with counting_calls() as calls:
        built = build(make_config(folder / "store", queries, build="base"))
    return built, calls


@pytest.fixture(scope="module")
def grown(folder: Path, more_queries: Path, base: tuple[Built, Counter[str]]) -> Built:
    """The base was released, and is what `latest` means."""
    first = base[0]
    move_latest(open_store(folder / "store"), "tpi-train", "base", first.outcome.manifest.content_digest)
    on_top = str(first.folder.parent / "latest")
    return build(make_config(folder / "store", more_queries, 50, build="grown", on_top_of__build=on_top))


def on_top(base: Built, rows: str, **fields: Any) -> dict[str, Any]:
    return {"on_top_of__build": str(base.folder), "on_top_of__rows": rows, **fields}


def test_four_classes_on_the_rows_of_two_speak_and_hear_nothing(
    folder: Path, queries: Path, pack: Path, base: tuple[Built, Counter[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, before = base
    assert before["synthesise"] >= 2 * ROWS  # the counting counts
    assert before["recognise"] >= 2 * ROWS
    config = make_config(folder / "store", queries, build="four", pack=str(pack), **on_top(first, "only"))
    with counting_calls() as calls:
        # As with real engines, the calls are kept, and counted there too.
        monkeypatch.setattr(environment, "_INSTANT", environment._INSTANT - {"fake_speech", "fake_recogniser"})
        four = build(config)
    assert calls["synthesise"] == calls["recognise"] == 0
    assert {f"{role}: 0 calls made, 0 remembered." for role in ("speech", "recogniser")} <= {*four.outcome.summary}
    assert set(calls) == {"label_class", "label_kind", "write_reply", "write_one_speaker_reply"}
    assert calls["label_class"] == 3 * 27  # the last class is what no other is
    assert set(four.heard.made) == {"label_actionability", "write_replies", "build_hard_negatives"}

    old, new = read_by_id(first), read_by_id(four)
    assert list(old) == list(new)
    for row_id, row in new.items():
        assert leave_out(row, OF_THE_PACK) == leave_out(old[row_id], OF_THE_PACK)
        assert row["pack"] == "four-classes"
        if row["n_speakers"] == 1:
            assert row["label_score"] == new[row["twin_id"]]["label_score"]
    assert {row["label"] for row in new.values()} == {*CLASSES, "hard_negative"}

    manifest = four.outcome.manifest
    assert manifest.on_top_of.model_dump() == {
        "uri": open_store(first.folder).uri,
        "dataset": "tpi-train",
        "build": "base",
        "rows_digest": manifest.on_top_of.rows_digest,
        "rows": "only",
        "rows_there": ROWS,
        "rows_here": ROWS,
    }
    assert not manifest.shortfalls
    assert {quota.label: quota.got for quota in manifest.quotas if quota.label} == manifest.counts.by_label
    assert manifest.fingerprints["synthesise_speech"] == first.outcome.manifest.fingerprints["synthesise_speech"]
    assert [item["key"] for item in manifest.fingerprints["write_replies"]["classes"]] == [*CLASSES]
    assert verify_build(four.folder) == []
    assert f"{ROWS} of the {ROWS} rows of tpi-train/base are here again." in four.outcome.summary
    card = (four.folder / "README.md").read_text("utf-8")
    assert "are those of `tpi-train/base`, row by row" in card
    assert "`ambiguity_score` are those of `tpi-train/base`, whose card says how they were made" in card

    again = build(config)
    assert not again.heard.made
    assert "nothing new" in again.heard.phases[-1]


def test_another_store_other_partitions_and_other_targets_change_no_byte(
    folder: Path, queries: Path, base: tuple[Built, Counter[str]], tmp_path: Path
) -> None:
    first = base[0]
    here = build(make_config(folder / "store", queries, build="same", **on_top(first, "only")))
    assert here.checksums == first.checksums  # the pack is the same, and so are all replies
    copied = tmp_path / "copy" / "tpi-train" / "base"
    shutil.copytree(first.folder, copied)
    fields = {"on_top_of__build": str(copied), "on_top_of__rows": "only", "partition_rows": 7, "workers": 4}
    config = make_config(tmp_path / "store", queries, 12, **fields)
    assert config.build_name == make_config(tmp_path, queries, 20, **fields).build_name
    with counting_calls() as calls:
        other = build(config)
    assert calls["synthesise"] == calls["recognise"] == 0
    assert other.checksums == here.checksums


def test_rows_that_the_new_settings_refuse_are_among_the_rejects(
    folder: Path, queries: Path, pack: Path, base: tuple[Built, Counter[str]]
) -> None:
    first = base[0]
    short = {"build": "strict", "stages__write_replies__max_words": SHORT_REPLY}
    built = build(make_config(folder / "store", queries, pack=str(pack), **short, **on_top(first, "only")))
    old, new = read_by_id(first), read_by_id(built)
    refused = built.read_rejects("write_replies")
    assert {row["reject_reason"] for row in refused} == {"reply_has_too_many_words"}
    alone = built.read_rejects("select_quotas")
    assert {row["reject_reason"] for row in alone} <= {"twin_rejected"}
    assert {row["twin_id"] for row in alone} <= {row["id"] for row in refused}
    assert all(row["audio"]["bytes"] == old[row["id"]]["audio"]["bytes"] for row in alone)
    assert {*old} == {*new, *(row["id"] for row in refused), *(row["id"] for row in alone)}
    assert len(new) + len(refused) + len(alone) == ROWS
    assert not built.outcome.manifest.shortfalls
    assert built.outcome.manifest.on_top_of.rows_here == len(new)
    assert verify_build(built.folder) == []


def test_a_grown_build_has_all_rows_of_the_last_one_unchanged(grown: Built, base: tuple[Built, Counter[str]]) -> None:
    old, new = read_by_id(base[0]), read_by_id(grown)
    assert list(new)[:ROWS] == list(old)
    assert all(new[row_id] == row for row_id, row in old.items())
    manifest = grown.outcome.manifest
    assert manifest.counts.by_label == {"actionable": 23, "hard_negative": 4, "ignorable": 23}
    assert not manifest.shortfalls
    assert max(manifest.counts.by_scenario.values()) <= 2 + manifest.counts.by_label["hard_negative"]
    assert (manifest.on_top_of.rows, manifest.on_top_of.build, manifest.on_top_of.rows_here) == ("first", "base", ROWS)
    assert f"{ROWS} of the {ROWS} rows of tpi-train/base are here again." in grown.outcome.summary
    assert verify_build(grown.folder) == []
    fresh = [row for row_id, row in new.items() if row_id not in old]
    assert all(row["twin_id"] not in old for row in fresh)


def test_growing_speaks_only_what_is_added(
    more_queries: Path, grown: Built, base: tuple[Built, Counter[str]], tmp_path: Path
) -> None:
    first = base[0]
    with counting_calls() as calls:
        other = build(
            make_config(
                tmp_path, more_queries, 50, partition_rows=7, workers=4, build="grown", **on_top(first, "first")
            )
        )
    assert other.checksums == grown.checksums
    stages = {stage.stage: stage for stage in other.outcome.manifest.stages}
    assert calls["write_interruption"] >= stages["write_interruptions"].rows_in
    assert stages["draw_scenarios"].rows_in < 2 * (50 - ROWS)
    assert calls["synthesise"] < base[1]["synthesise"]


def test_growing_by_nothing_asks_nothing(folder: Path, queries: Path, base: tuple[Built, Counter[str]]) -> None:
    first = base[0]
    with counting_calls() as calls:
        same = build(make_config(folder / "store", queries, build="again", **on_top(first, "first")))
    assert not calls
    assert same.checksums == first.checksums
    assert same.outcome.manifest.content_digest == first.outcome.manifest.content_digest


def refuse(config: TpiConfig) -> str:
    """Return what the checks before any work say."""
    with pytest.raises(ConfigError) as caught:
        check(config)
    return str(caught.value)


def check(config: TpiConfig) -> None:
    check_on_top(config)
    opened = StageEnvironment(StageJob.of(config))
    try:
        check_same_settings(config, opened)
    finally:
        opened.close()


@pytest.mark.parametrize(
    ("rows", "fields", "words"),
    [
        ("only", {"seed": 5}, "seed is 5 here and 0 there"),
        ("first", {"seed": 5}, "seed is 5 here and 0 there"),
        ("only", {"build": "base"}, "where this build is to be written; give this one another name with --name"),
        ("only", {"stages__mix_speakers__sampling_rate": 16000}, "sampling_rate is 16000 here and 24000 there"),
        ("only", {"stages__mix_speakers__offset_mean_s": -0.3}, "mix_speakers.offset_mean_s -0.5 there, -0.3 here"),
        ("only", {"stages__synthesise_speech__max_wer": 0.2}, "stages.synthesise_speech.max_wer"),
        ("first", {"stages__check_realism__min_score": 0.6}, "check_realism.params.min_score 0.5 there, 0.6 here"),
        ("first", {"stages__choose_voices__use": "all"}, "choose_voices.params.use rest there, all here"),
        ("first", {"rows": 20}, "14 actionable where 9 are asked for, 13 ignorable where 9 are asked for"),
        ("first", {"targets__labels": _BY_THREE, "targets__hard_negatives": 9}, "new two-speaker row, and those are 3"),
        ("first", {"targets__labels": {"actionable": 40}}, "13 ignorable where 0 are asked for"),
    ],
)  # fmt: skip
def test_what_rows_of_the_base_cannot_be_is_refused_before_any_work(
    folder: Path, queries: Path, base: tuple[Built, Counter[str]], rows: str, fields: dict[str, Any], words: str
) -> None:
    size = fields.get("rows", ROWS)
    given = {"build": "refused", **{name: value for name, value in fields.items() if name != "rows"}}
    if "targets__labels" in fields:
        size = sum(fields["targets__labels"].values()) + fields.get("targets__hard_negatives", 20)
    message = refuse(make_config(folder / "store", queries, size, **on_top(base[0], rows, **given)))
    assert words in message, message


def test_settings_that_decide_which_rows_there_are_may_differ(
    folder: Path, queries: Path, base: tuple[Built, Counter[str]]
) -> None:
    fields = {"stages__draw_scenarios__draws_per_query": 3, "stages__normalise_queries__min_words": 1}
    config = make_config(folder / "store", queries, 40, build="x", **on_top(base[0], "first", **fields))
    check(config)


def test_builds_of_another_kind_or_pack_are_refused(
    folder: Path, queries: Path, pack: Path, base: tuple[Built, Counter[str]], tmp_path: Path
) -> None:
    first = base[0]
    labels = dict.fromkeys(CLASSES, 20)
    other = make_config(folder / "store", queries, 80, **on_top(first, "first", pack=str(pack), targets__labels=labels))
    assert "all rows of a build are of one pack" in refuse(other)
    bench = make_bench_config(folder / "store", queries, **on_top(first, "only"))
    assert "is of the kind tpi_train, this build is of the kind tpi_bench" in refuse(bench)
    nothing = make_config(folder / "store", queries, on_top_of__build=str(tmp_path / "nothing"))
    assert "this is not a finished build" in refuse(nothing)
    unreleased = make_config(folder / "store", queries, on_top_of__build=str(tmp_path / "latest"))
    assert "nothing was released there yet" in refuse(unreleased)


def test_requests_that_are_missing_are_counted(folder: Path, base: tuple[Built, Counter[str]], tmp_path: Path) -> None:
    few = write_queries(tmp_path / "few.jsonl", 20)
    used = {row["query_id"] for row in base[0].read_rows().select(["query_id"]).to_pylist()}
    with pytest.raises(
        ConfigError, match=rf"\d+ of the {len(used)} requests .* --queries, to which others may be added"
    ):
        build(make_config(folder / "store", few, build="few", **on_top(base[0], "first")))


def test_rows_that_another_build_has_too_are_refused(
    folder: Path, queries: Path, base: tuple[Built, Counter[str]]
) -> None:
    fields = on_top(base[0], "only", disjoint_from=[str(base[0].folder)], build="shared")
    with pytest.raises(ConfigError, match=f"{ROWS} of its {ROWS} rows have something in common"):
        build(make_config(folder / "store", queries, **fields))


def test_a_damaged_base_is_refused(queries: Path, base: tuple[Built, Counter[str]], tmp_path: Path) -> None:
    copied = tmp_path / "tpi-train" / "base"
    shutil.copytree(base[0].folder, copied)
    shard = copied / base[0].outcome.manifest.shards[0].file
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(BuildError, match="does not match its manifest; build it again, or copy it whole"):
        build(make_config(tmp_path / "store", queries, on_top_of__build=str(copied), on_top_of__rows="only"))


def test_a_bench_under_another_pack_keeps_its_splits(tmp_path: Path) -> None:
    queries = write_queries(tmp_path / "queries.jsonl")
    few = {"stages__draw_scenarios__scenarios": ["endorsement", "priority_alert", "modification"]}
    bench = build_bench(make_bench_config(tmp_path / "store", queries, 20, build="bench", **few))
    pack = write_four_class_pack(tmp_path / "strict")
    short = {"stages__write_replies__max_words": SHORT_REPLY}
    fields = on_top(bench, "only", build="strict", pack=str(pack), **few, **short)
    with counting_calls() as calls:
        other = build_bench(make_bench_config(tmp_path / "store", queries, **fields))
    assert calls["synthesise"] == calls["recognise"] == 0
    old, new = read_by_id(bench), read_by_id(other)
    manifest = other.outcome.manifest
    assert manifest.counts.by_split["janus_test"] == bench.outcome.manifest.counts.by_split["janus_test"] == 10
    assert 0 < manifest.counts.by_split["tpi_test"] < 10
    assert all(leave_out(new[i], OF_THE_PACK | LINKS) == leave_out(old[i], OF_THE_PACK | LINKS) for i in new)
    assert verify_build(other.folder) == []
    growing = make_bench_config(tmp_path / "store", queries, 60, **on_top(bench, "first", **few))
    assert "a bench cannot be grown" in refuse(growing)
