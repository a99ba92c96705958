"""The whole evaluation: stand-ins whose scores are known, missing and unreadable answers, resuming, equal bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from bystander.schemas.errors import BuildError, BystanderError, InputError
from bystander.schemas.evaluation_scores import EvaluationScores
from bystander.storage.evaluation_manifest import read_evaluation
from bystander.storage.filesystem import open_store
from evaluations import PAIRS, STAND_INS, TWINS, Evaluated, configure, evaluate, make_bench_rows, write_bench
from tasks.engines.scripted_chat_server import Scripted, answer_well, serve_script

pytestmark = pytest.mark.usefixtures("prefect_server")

ROWS = PAIRS + TWINS


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bench(tmp_path_factory.mktemp("benches") / "bench")


@pytest.fixture(scope="module")
def first(bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    return evaluate(configure(bench, tmp_path_factory.mktemp("store"), workers=1))


def write_predictions(path: Path, replies: list[tuple[str, str | None]]) -> dict[str, Any]:
    path.write_text("".join(json.dumps({"id": i, "reply": reply}) + "\n" for i, reply in replies), "utf-8")
    return {"engine": "predictions", "path": str(path)}


def test_a_system_that_follows_the_strategy_scores_full_marks(first: Evaluated) -> None:
    assert first.score("policy", "tpi_test", "rsf").estimate.mean == 1.0
    assert first.score("policy", "tpi_test", "oh").estimate.mean == 5.0
    assert first.score("policy", "janus_test", "rsf").estimate.mean == 0.0
    assert first.score("policy", "tpi_test", "rsf").estimate.n == PAIRS
    assert first.score("policy", "janus_test", "oh").estimate.n == TWINS


def test_systems_without_ears_answer_twins_alike_and_follow_the_strategy_by_chance(first: Evaluated) -> None:
    pairs = {score.system: score.pairs for score in first.outcome.scores.scores}
    assert pairs["transcript"].pairs == TWINS
    assert pairs["transcript"].bleu.mean == pairs["transcript"].rouge_l.mean == 1.0
    assert pairs["policy"].bleu.mean < 0.5
    # Half of the rows are ignorable, and answering the request alone is right there.
    assert first.score("ignore_second", "tpi_test", "rsf").estimate.mean == 0.5
    assert first.score("ignore_second", "janus_test", "rsf").estimate.mean == 0.0


def test_breakdowns_comparisons_and_examples(first: Evaluated) -> None:
    scores = first.outcome.scores
    [ignoring] = [score for score in scores.scores if score.system == "ignore_second"]
    by_key = {breakdown.key: breakdown.values for breakdown in ignoring.tests[0].breakdowns}
    assert {label: figures["rsf"].mean for label, figures in by_key["label"].items()} == {
        "actionable": 0.0,
        "ignorable": 1.0,
    }
    assert set(by_key) == {"scenario", "category", "label", "timing", "overlap"}
    comparison = next(
        c
        for c in scores.comparisons
        if (c.first, c.second, c.test, c.metric) == ("policy", "ignore_second", "tpi_test", "rsf")
    )
    # Four rows for the one and none for the other: 2 / 2^4.
    assert (comparison.p, comparison.difference, comparison.n) == (0.125, 0.5, PAIRS)
    assert len(scores.comparisons) == 3 * 4
    worst = [example for example in scores.examples if example.system == "ignore_second" and example.test == "tpi_test"]
    assert [example.rsf for example in worst] == [0] * 4
    assert not [example for example in scores.examples if example.system == "policy" and example.test == "tpi_test"]


def test_everything_is_written_and_listed(first: Evaluated) -> None:
    manifest, scores = read_evaluation(open_store(first.folder), EvaluationScores)
    assert scores == first.outcome.scores
    assert {info.file for info in manifest.files} == set(first.files)
    assert {"table.md", "table.csv", "table.json", "report.html", "scores.json"} <= set(first.files)
    answers = pq.read_table(first.folder / "answers" / "policy.parquet").to_pylist()
    assert [row["answer"] for row in answers] == [row["reply"] for row in answers]
    assert len(answers) == ROWS
    verdicts = pq.read_table(first.folder / "verdicts" / "policy.rules.parquet").to_pylist()
    assert [row["id"] for row in verdicts] == [row["id"] for row in answers]
    assert all(row["rsf"]["rationale"].startswith("By rule:") for row in verdicts)
    assert [control.hears for control in scores.controls].count(True) == 2
    assert "policy" in (first.folder / "table.md").read_text("utf-8")


def test_a_second_run_makes_nothing(first: Evaluated, bench: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*") if path.is_file()}
    again = evaluate(configure(bench, first.folder.parent.parent, workers=1))
    assert not again.heard.made
    assert again.outcome.scores == first.outcome.scores
    assert {path: path.stat().st_mtime_ns for path in first.folder.rglob("*") if path.is_file()} == before


def test_neither_workers_nor_partitions_change_a_byte(first: Evaluated, bench: Path, tmp_path: Path) -> None:
    other = evaluate(configure(bench, tmp_path / "store", workers=4, partition_rows=3))
    assert other.files == first.files


def test_missing_answers_are_an_error_that_names_them_or_count_as_the_worst(bench: Path, tmp_path: Path) -> None:
    rows = make_bench_rows()
    gone = ["row-0001", "hn-0000"]
    replies = [(row["id"], None if row["id"] == "row-0002" else row["reply"]) for row in rows if row["id"] not in gone]
    replies[0] = (replies[0][0], "  ")
    systems = {"partial": write_predictions(tmp_path / "partial.jsonl", replies)}
    with pytest.raises(InputError, match="system partial: 4 of 11 rows have no answer") as fault:
        evaluate(configure(bench, tmp_path / "store", systems=systems))
    assert "row-0000, row-0001, row-0002, hn-0000" in str(fault.value)
    assert "--allow-missing" in str(fault.value)
    allowed = evaluate(configure(bench, tmp_path / "store", systems=systems, allow_missing=True))
    rsf, oh = (allowed.score("partial", "tpi_test", metric) for metric in ("rsf", "oh"))
    assert (rsf.missing, rsf.unparsable, rsf.estimate.n, rsf.estimate.mean) == (3, 0, PAIRS, 5 / PAIRS)
    assert oh.estimate.mean == (5 * 5 + 3 * 1) / PAIRS
    wrongly = allowed.score("partial", "janus_test", "rsf")
    assert (wrongly.missing, wrongly.estimate.mean) == (1, 1 / TWINS)
    # Twins 0 and 1 lack an answer and twin 2 too: each counts as answered alike.
    [score] = allowed.outcome.scores.scores
    assert score.pairs.bleu.mean == score.pairs.rouge_l.mean == 1.0


def test_doubled_and_unknown_predictions_are_errors(bench: Path, tmp_path: Path) -> None:
    replies = [(row["id"], row["reply"]) for row in make_bench_rows()]
    doubled = {"double": write_predictions(tmp_path / "double.jsonl", [*replies, replies[3]])}
    with pytest.raises(InputError, match="row-0003"):
        evaluate(configure(bench, tmp_path / "store", systems=doubled))
    strange = {"strange": write_predictions(tmp_path / "strange.jsonl", [("nope", "Hello."), ("none", "Hello.")])}
    with pytest.raises(InputError, match=r"system strange: none of its 2 ids is that of a row .* the first is nope"):
        evaluate(configure(bench, tmp_path / "store", systems=strange))
    more = {"more": write_predictions(tmp_path / "more.jsonl", [*replies, ("nope", "Hello.")])}
    assert evaluate(configure(bench, tmp_path / "store", systems=more)).score("more", "tpi_test", "rsf").missing == 0


def test_verdicts_that_cannot_be_read_are_counted_and_left_out_and_no_call_is_made_twice(
    bench: Path, tmp_path: Path
) -> None:
    def script(body: dict[str, Any], number: int) -> Scripted:
        if "for 1 at eight" in body["messages"][-1]["content"]:
            return Scripted("I like this answer.")
        return answer_well(body, number)

    with serve_script(script) as server:
        judges = {"chat": {"engine": "openai", "base_url": server.base_url, "model": "judge", "max_retries": 0}}
        settings = {"systems": {"policy": STAND_INS["policy"]}, "judges": judges}
        made = evaluate(configure(bench, tmp_path / "store", **settings))
        calls = len(server.bodies)
        assert {body["temperature"] for body in server.bodies} == {0.0}
        for metric in ("rsf", "oh"):
            score = made.score("policy", "janus_test", metric, "chat")
            assert (score.unparsable, score.missing, score.estimate.n) == (1, 0, TWINS - 1)
        verdicts = pq.read_table(made.folder / "verdicts" / "policy.chat.parquet").to_pylist()
        [unread] = [row for row in verdicts if row["rsf"]["fault"]]
        assert unread["rsf"]["fault"] == "unparsable_verdict"
        assert unread["rsf"]["raw_output"] == "I like this answer."
        # Not even when all that was published and all stage results are lost: calls are kept.
        shutil.rmtree(made.folder)
        again = evaluate(configure(bench, tmp_path / "store", **settings))
        assert len(server.bodies) == calls
        assert again.files == made.files
        shutil.rmtree(tmp_path / "store" / "cache" / "stages")
        evaluate(configure(bench, tmp_path / "store", **settings, **{"workers": 1}))
        # Replies that could be read are remembered; what could not is asked again.
        repeated = server.bodies[calls:]
        assert all("for 1 at eight" in body["messages"][-1]["content"] for body in repeated)


def test_a_run_that_broke_off_goes_on_where_it_stood(bench: Path, tmp_path: Path) -> None:
    works = [False]

    def script(body: dict[str, Any], number: int) -> Scripted:
        return answer_well(body, number) if works[0] or number < 7 else Scripted(status=401)

    with serve_script(script) as server:
        chat = {"engine": "openai", "base_url": server.base_url, "model": "judge", "max_in_flight": 1}
        config = configure(
            bench, tmp_path / "store", systems={"policy": STAND_INS["policy"]}, judges={"chat": chat}, workers=1
        )
        with pytest.raises(BystanderError):
            evaluate(config)
        assert not (tmp_path / "store" / "evaluations" / "same" / "manifest.json").exists()
        refused, works[0] = len(server.bodies) - 7, True
        again = evaluate(config)
        asked = [json.dumps(body["messages"]) for body in server.bodies]
        assert len(set(asked)) == 2 * ROWS
        assert len(asked) == 2 * ROWS + refused
        assert "answer_clips" not in again.heard.made


def test_several_judges_and_people_are_held_against_each_other(bench: Path, tmp_path: Path) -> None:
    ratings = tmp_path / "people.csv"
    ids = [row["id"] for row in make_bench_rows() if row["n_speakers"] == 2]
    ratings.write_text(
        "id,system,rsf,oh\n" + "".join(f"{i},ignore_second,{n // 2 % 2},\n" for n, i in enumerate(ids)), "utf-8"
    )
    made = evaluate(
        configure(
            bench,
            tmp_path / "store",
            judges={"one": {"engine": "fake_text"}, "two": {"engine": "playbook"}},
            ratings=[{"name": "people", "path": str(ratings)}],
            controls__transcript_classifier=False,
            controls__verifier=None,
        )
    )
    agreements = {(a.first, a.second, a.system, a.test, a.metric): a for a in made.outcome.scores.agreements}
    judges = agreements["one", "two", "ignore_second", "tpi_test", "rsf"]
    assert (judges.n, judges.pearson, judges.kappa) == (PAIRS, pytest.approx(1.0), pytest.approx(1.0))
    people = agreements["one", "people", "ignore_second", "tpi_test", "rsf"]
    assert (people.n, people.pearson, people.kappa) == (PAIRS, pytest.approx(1.0), pytest.approx(1.0))
    assert agreements["one", "two", "policy", "tpi_test", "rsf"].pearson is None
    assert "every row" in (agreements["one", "two", "policy", "tpi_test", "rsf"].undefined or "")
    assert not [key for key in agreements if key[1] == "people" and key[4] == "oh"]
    assert made.outcome.scores.controls == ()
    ratings.write_text("id,system,rsf\nrow-9999,policy,1\n", "utf-8")
    with pytest.raises(InputError, match="none of its ids is that of a row that is evaluated"):
        evaluate(configure(bench, tmp_path / "store", ratings=[{"name": "people", "path": str(ratings)}]))


def test_embeddings_are_drawn_and_wrong_ones_refused_before_any_answer(bench: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", np.random.Generator(np.random.PCG64(1)).normal(size=(ROWS, 6)))
    np.save(tmp_path / "short.npy", np.zeros((ROWS - 1, 6)))
    systems = {"policy": STAND_INS["policy"]}
    with pytest.raises(InputError, match=r"short\.npy"):
        evaluate(
            configure(bench, tmp_path / "store", systems=systems, embeddings={"policy": str(tmp_path / "short.npy")})
        )
    made = evaluate(
        configure(bench, tmp_path / "store", systems=systems, embeddings={"policy": str(tmp_path / "good.npy")})
    )
    [projection] = made.outcome.scores.projections
    assert projection.ids == tuple(row["id"] for row in make_bench_rows())
    assert projection.groups.count("hard_negative") == TWINS


def test_rows_are_cut_with_linked_pairs_first_and_a_damaged_bench_is_refused(tmp_path: Path) -> None:
    bench = write_bench(tmp_path / "bench")
    cut = evaluate(configure(bench, tmp_path / "store", rows=2, systems={"policy": STAND_INS["policy"]}))
    assert cut.outcome.scores.bench.rows == {"tpi_test": 2, "janus_test": 2}
    assert cut.outcome.scores.bench.linked_pairs == 2
    [shard] = (bench / "data").glob("*.parquet")
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    with pytest.raises(BuildError, match="does not match its checksum"):
        evaluate(configure(bench, tmp_path / "store", rows=2))
