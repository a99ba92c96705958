"""Packs with other classes than the reference pack's, from requests to scores, with the fake engines."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bystander.flows.bench_pack import choose_pack, judge_by_bench_pack
from bystander.flows.check_evaluate_tpi import check_evaluate_tpi, describe_other_pack
from bystander.prompts.load import load_pack
from bystander.schemas.errors import ConfigError
from bystander.schemas.packs import ReplyConduct
from bystander.storage.bench_rows import open_bench
from bystander.storage.build_manifest import PackInfo
from bystander.storage.verify_build import verify_build
from bystander.tasks.texts.mentions import refers_to_other_person
from evaluations import STAND_INS, Evaluated, configure, evaluate, write_bench
from tpi_builds import Built, build, build_bench, make_bench_config, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")

SCENARIOS = 26
TRAIN = {"defer": 4, "confirm": 7, "act": 8, "ignore": 8, "hard_negative": 3}
BENCH = {"defer": 4, "confirm": 6, "act": 8, "ignore": 8, "hard_negative": 26}


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_queries(tmp_path_factory.mktemp("queries") / "queries.jsonl", 200)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def train(store: Path, queries: Path) -> Built:
    return build(make_config(store, queries, pack="household", build="four"))


@pytest.fixture(scope="module")
def bench(store: Path, queries: Path, train: Built) -> Built:
    del train  # what it wrote is found again
    return build_bench(make_bench_config(store, queries, 52, pack="household", build="bench"))


def read_pairs(built: Built) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = built.read_rows().drop_columns(["audio"]).to_pylist()
    return [row for row in rows if row["n_speakers"] == 2]


@pytest.mark.parametrize(("fixture", "labels"), [("train", TRAIN), ("bench", BENCH)])
def test_quotas_of_four_classes_and_26_scenarios_hold_exactly(
    fixture: str, labels: dict[str, int], request: pytest.FixtureRequest
) -> None:
    built: Built = request.getfixturevalue(fixture)
    manifest = built.outcome.manifest
    assert manifest.counts.by_label == labels
    assert not manifest.shortfalls
    scenarios = Counter(row["scenario"] for row in read_pairs(built))
    assert len(scenarios) == SCENARIOS
    assert max(scenarios.values()) - min(scenarios.values()) <= 1
    assert verify_build(built.folder) == []


def test_kinds_are_those_of_the_class(train: Built) -> None:
    kinds = {item.key: {kind.key for kind in item.kinds} for item in load_pack("household").classes}
    for row in read_pairs(train):
        assert row["kind"] in (kinds[row["label"]] or {None})
    assert len({row["kind"] for row in read_pairs(train)}) > 4


def test_replies_follow_what_their_class_asks(train: Built) -> None:
    conduct = {item.key: ReplyConduct.decode(item.conduct) for item in load_pack("household").classes}
    for row in read_pairs(train):
        asked = conduct[row["label"]]
        assert refers_to_other_person(row["reply"]) == asked.must_mention
        assert row["reply"].endswith("?") == asked.must_ask


def test_manifest_card_and_report_show_the_classes(train: Built) -> None:
    manifest = json.loads((train.folder / "manifest.json").read_text("utf-8"))
    two_speakers = {label: count for label, count in TRAIN.items() if label != "hard_negative"}
    assert manifest["config"]["targets"] == {"labels": two_speakers, "hard_negatives": 3}
    assert manifest["pack"]["name"] == manifest["config"]["pack"] == "household"
    assert list(manifest["pack"]["classes"]) == ["defer", "confirm", "act", "ignore"]
    card = (train.folder / "README.md").read_text("utf-8")
    report = (train.folder / "report.html").read_text("utf-8")
    for label, count in two_speakers.items():
        assert f"| {label} | {count} |" in card
        assert label in report
    assert "household" in report


@pytest.fixture(scope="module")
def evaluated(bench: Built, store: Path) -> Evaluated:
    return evaluate(configure(bench.folder, store))


def test_a_bench_is_judged_by_its_own_pack(evaluated: Evaluated, bench: Built) -> None:
    scores = evaluated.outcome.scores
    assert (scores.pack, scores.pack_digest) == ("household", bench.outcome.manifest.pack.digest)
    assert not [line for line in evaluated.outcome.summary if "warning" in line]


def test_who_follows_the_strategy_has_full_marks_in_every_class(evaluated: Evaluated) -> None:
    by_label = {
        score.system: next(one.values for one in score.tests[0].breakdowns if one.key == "label")
        for score in evaluated.outcome.scores.scores
    }
    assert {label: values["rsf"].mean for label, values in by_label["policy"].items()} == {
        "defer": 1.0,
        "confirm": 1.0,
        "act": 1.0,
        "ignore": 1.0,
    }
    # Who hears the first speaker alone is right where nothing is to be made of the second.
    assert {label: values["rsf"].mean for label, values in by_label["ignore_second"].items()} == {
        "defer": 0.0,
        "confirm": 0.0,
        "act": 0.0,
        "ignore": 1.0,
    }
    assert evaluated.score("policy", "tpi_test", "rsf").estimate.n == SCENARIOS
    assert evaluated.score("policy", "janus_test", "rsf").estimate.mean == 0.0
    assert "confirm" in (evaluated.folder / "report.html").read_text("utf-8")


def test_another_packs_classes_are_refused_before_anything_is_asked(bench: Built, store: Path) -> None:
    with pytest.raises(ConfigError, match="rows labelled act, confirm, defer, ignore, but pack 'reference'") as fault:
        check_evaluate_tpi(configure(bench.folder, store, pack="reference"))
    assert "leave --pack out to judge with the bench's own, 'household'" in str(fault.value)


def test_strict_primary_from_end_to_end(store: Path, queries: Path, train: Built) -> None:
    built = build(make_config(store, queries, pack="strict_primary", build="strict"))
    assert built.outcome.manifest.counts.by_label == {"contested": 16, "hard_negative": 3, "incidental": 11}
    assert not built.outcome.manifest.shortfalls
    assert verify_build(built.folder) == []
    assert not [row["reply"] for row in read_pairs(built) if refers_to_other_person(row["reply"])]
    # Both packs ask for requests in the words of the reference pack: rows in both builds say the same.
    others = {row["id"]: row for row in read_pairs(train)}
    shared = [(row, others[row["id"]]) for row in read_pairs(built) if row["id"] in others]
    assert shared
    for row, other in shared:
        for column in ("primary_text", "third_party_text", "ambiguity_score", "primary_voice", "third_party_voice"):
            assert row[column] == other[column]
    result = evaluate(configure(built.folder, store, name="strict", systems={"policy": STAND_INS["policy"]}))
    assert result.outcome.scores.pack == "strict_primary"
    assert result.score("policy", "tpi_test", "rsf").estimate.mean == 1.0


class TestChoiceOfAPack:
    """Of benches without audio: only the manifest is read."""

    def make(self, folder: Path, name: str, digest: str | None = None) -> Path:
        classes = {"actionable": ("only",), "ignorable": ()}
        digest = digest or load_pack(name).digest
        return write_bench(folder, pack=PackInfo(name=name, digest=digest, classes=classes))

    def test_the_one_that_is_named_comes_first(self, tmp_path: Path) -> None:
        bench = self.make(tmp_path / "bench", "reference")
        assert choose_pack(configure(bench, tmp_path, pack="household")) == "household"
        assert choose_pack(configure(bench, tmp_path)) == "reference"
        assert judge_by_bench_pack(configure(bench, tmp_path)).pack == "reference"

    def test_one_of_another_digest_is_told(self, tmp_path: Path) -> None:
        bench = self.make(tmp_path / "bench", "reference", "0" * 64)
        assert choose_pack(configure(bench, tmp_path)) == "reference"
        _, manifest = open_bench(str(bench))
        said = describe_other_pack(manifest, load_pack("reference"))
        assert said is not None
        assert said.startswith("warning: the bench was built with pack reference 000000000000, and is judged by pack")

    def test_one_that_is_not_here_has_to_be_named(self, tmp_path: Path) -> None:
        bench = self.make(tmp_path / "bench", "ours", "a" * 64)
        with pytest.raises(ConfigError, match=r"pack ours \(digest aaaaaaaaaaaa\), which is not found") as fault:
            choose_pack(configure(bench, tmp_path))
        assert "--pack" in str(fault.value)
