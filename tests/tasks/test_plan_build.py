"""A plan against the build that it plans: what a finished build of the same settings really took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bystander.flows.pack_targets import fit_to_pack
from bystander.prompts.load import load_pack
from bystander.schemas.config import TpiTrainConfig, load_config, resize
from bystander.schemas.engines import TextRequest
from bystander.schemas.errors import BuildError, InputError
from bystander.schemas.plan import Estimate, PlanReport
from bystander.storage.build_measures import measure_build
from bystander.storage.filesystem import open_store
from bystander.tasks.engines.fake_text import FakeTextEngine
from bystander.tasks.plan_build import plan_build
from bystander.tasks.plan_costs import Resources, count_calls
from bystander.tasks.plan_rows import PlannedRows
from tpi_builds import Built, build, build_bench, make_bench_config, make_config, write_queries

ROWS = 88


class Planned:
    """A finished build, the calls that it made by task, and what was planned from its own yields."""

    def __init__(self, folder: Path) -> None:
        self.config: TpiTrainConfig = make_config(
            folder / "store", write_queries(folder / "queries.jsonl", 100), ROWS, partition_rows=50
        )
        self.calls: Counter[str] = Counter()
        self.built: Built = build(self.config)
        self.report: PlanReport = plan_build(self.config, str(self.built.folder), Resources())

    @property
    def rows_in(self) -> dict[str, int]:
        return {stage.stage: stage.rows_in for stage in self.built.outcome.manifest.stages}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory, prefect_server: None) -> Planned:
    counted: Counter[str] = Counter()
    generate: Callable[..., Any] = FakeTextEngine.generate

    def count(self: FakeTextEngine, requests: Sequence[TextRequest], *more: Any) -> Any:
        counted.update(request.task for request in requests)
        return generate(self, requests, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeTextEngine, "generate", count)
        done = Planned(tmp_path_factory.mktemp("planned"))
    done.calls = counted
    return done


def holds(estimate: Estimate, actual: float, slack: float = 0.0) -> bool:
    return estimate.low * (1 - slack) <= actual <= estimate.high * (1 + slack)


def test_rows_of_every_stage_lie_in_the_range(planned: Planned) -> None:
    rows_in = planned.rows_in
    assert set(planned.report.stages) == set(rows_in) - {"normalise_queries", "select_quotas"}
    for stage, estimate in planned.report.stages.items():
        assert holds(estimate, rows_in[stage]), (stage, estimate, rows_in[stage])
    assert holds(planned.report.candidates, rows_in["draw_scenarios"])


def test_calls_of_every_task_lie_in_the_range(planned: Planned) -> None:
    assert {call.task for call in planned.report.calls} == set(planned.calls)
    for call in planned.report.calls:
        assert holds(call.calls, planned.calls[call.task]), (call.task, call.calls, planned.calls)


def test_arithmetic_gives_the_calls_of_the_rows_that_there_were(planned: Planned) -> None:
    stages = planned.built.outcome.manifest.stages
    measures, _ = measure_build(open_store(str(planned.built.folder)), 4.0)
    rows = PlannedRows(
        stages=Counter({stage.stage: stage.rows_in for stage in stages}),
        kept=Counter({stage.stage: stage.kept for stage in stages}),
        labelled=Counter(measures.labels),
    )
    found = count_calls(planned.config, load_pack("reference"), measures, rows)
    assert {task: round(calls) for (_, task), calls in found.items()} == dict(planned.calls)


def test_task_runs_lie_in_the_range(planned: Planned) -> None:
    made = sum(planned.built.heard.made.values())
    assert holds(planned.report.task_runs, made), (planned.report.task_runs, made)


def test_shards_and_audio_are_as_large_as_planned(planned: Planned) -> None:
    manifest = planned.built.outcome.manifest
    assert planned.report.shards_gb.expected * 1e9 == pytest.approx(sum(s.bytes for s in manifest.shards), rel=0.05)
    assert planned.report.published_hours.expected * 3600 == pytest.approx(manifest.counts.speech_s, rel=0.05)


def test_measures_are_those_of_the_build(planned: Planned) -> None:
    measures, texts = measure_build(open_store(str(planned.built.folder)), 4.0)
    table = planned.built.read_rows()
    surplus = planned.built.read_rejects("select_quotas")
    pairs = [row for row in table.to_pylist() if row["n_speakers"] == 2]
    accepted = pairs + [row for row in surplus if row["n_speakers"] == 2]
    assert measures.labels == dict(Counter(row["label"] for row in accepted))
    assert measures.ambiguous.rows_in == len(accepted) == planned.rows_in["choose_voices"]
    assert measures.ambiguous.kept == sum(row["ambiguity_score"] >= 4 for row in accepted)
    assert measures.write_tries == sum(row["write_attempts"] for row in pairs) / len(pairs)
    assert measures.yields["check_realism"].rows_in == planned.rows_in["check_realism"]
    assert "select_quotas" not in measures.yields
    assert texts[0]["third_party_text"] == pairs[0]["third_party_text"]
    stricter, _ = measure_build(open_store(str(planned.built.folder)), 5.0)
    assert stricter.ambiguous.kept < measures.ambiguous.kept


def test_a_small_build_plans_a_larger_one(planned: Planned) -> None:
    config = resize(planned.config, 20_000)
    report = plan_build(config, str(planned.built.folder), Resources())
    assert report.rows == 20_000
    # 18,182 pairs with a surplus of 1.3 are tried at least.
    assert report.candidates.low >= 18_182 * 1.3
    assert report.requests_there == 100
    short, partitions = report.warnings
    assert short.startswith(f"{report.requests.expected:,.0f} requests are needed, and ")
    assert "partition_rows=" in partitions
    size = int(partitions.rpartition("partition_rows=")[2].split()[0])
    better = plan_build(config.model_copy(update={"partition_rows": size}), str(planned.built.folder), Resources())
    assert better.task_run_share < 0.01 <= report.task_run_share


def test_yields_of_other_engines_are_minded(planned: Planned) -> None:
    (said, *_) = plan_build(load_config("playbook"), str(planned.built.folder), Resources()).warnings
    assert said.startswith("the yields, measured in tpi-train/")
    assert "are those of other engines (writer: fake_text fake; judge: fake_text fake; speech: fake_speech " in said


def test_yields_of_another_packs_classes_are_minded(planned: Planned) -> None:
    config = fit_to_pack(load_config("fake", overrides={"pack": "household"}))
    report = plan_build(config, str(planned.built.folder), Resources())
    (said,) = [line for line in report.warnings if "pack" in line]
    assert "a pack with other classes (actionable, ignorable): defer, confirm, act, ignore are taken for" in said
    calls = {call.task: call.calls.expected for call in report.calls}
    assert calls["label_class"] == 3 * report.stages["label_actionability"].expected


def test_unknown_rate_is_said_and_can_be_given() -> None:
    config = load_config(
        "fake", overrides={"engines.speech": {"engine": "kokoro"}, "engines.recogniser": {"engine": "faster_whisper"}}
    )
    report = plan_build(config, None, Resources(rates={"speech": 2.0}, devices={"speech": 3}))
    speech = next(role for role in report.roles if role.role == "speech")
    assert speech.hours is not None
    assert speech.hours.expected == pytest.approx(report.spoken_hours.expected / 2)
    assert report.slowest == "recogniser"  # 5 s of audio a second, against three times 2
    assert report.yields_from.startswith("no build measured")


def test_a_bench_is_no_build_to_measure(tmp_path: Path, prefect_server: None) -> None:
    bench = build_bench(make_bench_config(tmp_path / "store", write_queries(tmp_path / "queries.jsonl"), 8))
    with pytest.raises(InputError, match="is of kind tpi_bench; yields are measured in a build of TPI-Train"):
        plan_build(load_config("fake"), str(bench.folder), Resources())


def test_what_is_no_build_is_said(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"manifest\.json: is missing, so this is not a finished build"):
        plan_build(load_config("fake"), str(tmp_path), Resources())
