"""What changes x what is redone: a plan says it beforehand, and the build then does it."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections import Counter
from collections.abc import Callable
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from bystander.flows.build_tpi_train import foresee_build_tpi_train
from bystander.prompts.new_pack import write_new_pack
from bystander.schemas.config import TpiTrainConfig
from bystander.schemas.engines import TextRequest
from bystander.schemas.identity import digest_json
from bystander.schemas.rebuild import RebuildPlan
from bystander.tasks.engines import fake_text
from bystander.tasks.engines.fake_speech import FakeRecogniser, FakeSpeechEngine, FakeVerifier
from bystander.tasks.engines.fake_text import FakeTextEngine
from bystander.tasks.stages import HARD_NEGATIVE_STAGES, PAIR_STAGES, QUERY_STAGES
from direct_builds import build_directly
from tpi_builds import Built, make_config, write_queries

STAGES = list(dict.fromkeys([*QUERY_STAGES, *PAIR_STAGES, *HARD_NEGATIVE_STAGES]))
STAGES.remove("check_disjointness")
SPEECH = {"synthesise_speech", "verify_speakers", "mix_speakers", "verify_mixture"}
FROM_TEXTS = {*STAGES} - {"normalise_queries", "draw_scenarios", "choose_voices"}
"""All that follows from the texts."""


@dataclasses.dataclass
class Setting:
    """What a case may change before the build is made again."""

    folder: Path
    patch: pytest.MonkeyPatch
    queries: Path
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def pack(self) -> Path:
        return self.folder / "pack"

    def edit_template(self, task: str) -> None:
        path = self.pack / f"{task}.j2"
        path.write_text(path.read_text("utf-8").replace("=== system\n", "=== system\nBe exact. ", 1), "utf-8")

    def edit_manifest(self, change: Callable[[dict[str, Any]], None]) -> None:
        path = self.pack / "pack.yaml"
        data = yaml.safe_load(path.read_text("utf-8"))
        change(data)
        path.write_text(yaml.safe_dump(data, sort_keys=False), "utf-8")

    def edit_class(self, **fields: Any) -> None:
        self.edit_manifest(lambda data: data["classes"][0].update(fields))

    def add_class(self, key: str) -> None:
        added = {"key": key, "criteria": "It hurries the user.", "policy": "Hurry.", "mentions_third_party": False}
        self.edit_manifest(lambda data: data["classes"].insert(1, added))
        self.fields["stages__label_actionability__thresholds"] = {key: 0.9999}  # no row is of it
        self.fields["targets"] = {"labels": {"actionable": 5, key: 0, "ignorable": 5}, "hard_negatives": 1}

    def raise_version(self, stage: str) -> None:
        module = import_module(f"bystander.tasks.stages.{stage}")
        self.patch.setattr(module, "STAGE", dataclasses.replace(module.STAGE, version=module.STAGE.version + 1))

    def revise(self, engine: type) -> None:
        """Let an engine be another model, which answers as this one does."""
        identity = engine.identity.fget  # type: ignore[attr-defined]
        self.patch.setattr(
            engine, "identity", property(lambda self: dataclasses.replace(identity(self), revision="other"))
        )

    def edit_taxonomy(self) -> None:
        text = (resources.files("bystander.schemas") / "data" / "taxonomy.yaml").read_text("utf-8")
        data = yaml.safe_load(text)
        for scenario in data["scenarios"]:
            scenario["definition"] += " It is short."
        path = self.folder / "taxonomy.yaml"
        path.write_text(yaml.safe_dump(data, sort_keys=False), "utf-8")
        self.fields["taxonomy"] = str(path)

    def add_queries(self) -> None:
        self.queries = write_queries(self.folder / "more.jsonl", 44)


@dataclasses.dataclass(frozen=True)
class Case:
    """A change, the stages that are then run again, and those of which the plan must reckon with it.

    These are more where a stage's results come out as they were: that is only known once they are there.
    """

    change: Callable[[Setting], Any]
    made: set[str]
    planned: set[str] | None = None
    cause: str = ""
    """The field that the plan must name."""


def set_fields(**fields: Any) -> Callable[[Setting], None]:
    return lambda setting: setting.fields.update(fields)


CASES = {
    "nothing": Case(lambda setting: None, set()),
    "reply template": Case(
        lambda s: s.edit_template("write_reply"), {"write_replies"}, cause="prompts.write_reply.template"
    ),
    "reply template for one speaker": Case(
        lambda s: s.edit_template("write_one_speaker_reply"),
        {"build_hard_negatives"},
        cause="prompts.write_one_speaker_reply.template",
    ),
    "rubric": Case(lambda s: s.edit_template("judge_strategy"), set()),
    "criteria of a class": Case(
        lambda s: s.edit_class(criteria="It corrects the request."),
        {"label_actionability", "write_replies"},
        cause="prompts.label_class.classes.actionable.criteria",
    ),
    "policy of a class": Case(
        lambda s: s.edit_class(policy="Ask back."),
        {"write_replies"},
        cause="prompts.write_reply.classes.actionable.policy",
    ),
    "share of a class": Case(lambda s: s.edit_class(share=3.0), set()),
    "what replies of a class must mention": Case(
        lambda s: s.edit_class(requires_mention=False), {"write_replies"}, cause="classes.actionable"
    ),
    "another class": Case(
        lambda s: s.add_class("hurry"),
        {"label_actionability", "write_replies", "build_hard_negatives"},
        cause="classes.hurry",
    ),
    "another class, whose key no text may hold": Case(
        lambda s: s.add_class("hurry_up"),
        {"write_interruptions", "label_actionability", "write_replies", "build_hard_negatives"},
        FROM_TEXTS,
        "classes.hurry_up",
    ),
    "name of the pack": Case(lambda s: s.edit_manifest(lambda data: data.update(name="renamed")), set()),
    "template of interruptions": Case(
        lambda s: s.edit_template("write_interruption"), FROM_TEXTS, cause="prompts.write_interruption.template"
    ),
    "template of realism": Case(
        lambda s: s.edit_template("check_realism"), {"check_realism"}, cause="prompts.check_realism.template"
    ),
    "template of ambiguity": Case(
        lambda s: s.edit_template("score_ambiguity"),
        {"score_ambiguity"},
        {"score_ambiguity", "build_hard_negatives", *SPEECH},
        "prompts.score_ambiguity.template",
    ),
    "threshold of a class": Case(
        set_fields(stages__label_actionability__thresholds={"actionable": 0.4999}),
        {"label_actionability"},
        {"label_actionability", "write_replies"},
        "params.thresholds.actionable",
    ),
    "scenarios": Case(
        set_fields(stages__draw_scenarios__scenarios=["alignment", "social_engagement", "priority_alert"]),
        {*STAGES} - {"normalise_queries"},
        cause="params.scenarios",
    ),
    "taxonomy": Case(lambda s: s.edit_taxonomy(), FROM_TEXTS | {"draw_scenarios"}, cause="taxonomy"),
    "seed": Case(set_fields(seed=5), {*STAGES}, cause="build_seed"),
    "length of replies": Case(
        set_fields(stages__write_replies__max_words=60), {"write_replies"}, None, "params.max_words"
    ),
    "spread of offsets": Case(
        set_fields(stages__mix_speakers__offset_sd_s=0.2),
        {"mix_speakers", "verify_mixture"},
        cause="params.offset_sd_s",
    ),
    "word error rate": Case(
        set_fields(stages__synthesise_speech__max_wer=0.2), {"synthesise_speech"}, SPEECH, "params.max_wer"
    ),
    "voices": Case(
        set_fields(engines__speech__voices=12),
        {"choose_voices", *SPEECH},
        cause="engines.speech.settings.voices",
    ),
    "speech engine": Case(
        lambda s: s.revise(FakeSpeechEngine),
        {"choose_voices", "synthesise_speech"},
        {"choose_voices", *SPEECH},
        "engines.speech.revision",
    ),
    "recogniser": Case(
        lambda s: s.revise(FakeRecogniser), {"synthesise_speech"}, SPEECH, "engines.recogniser.revision"
    ),
    "verifier": Case(
        lambda s: s.revise(FakeVerifier), {"verify_speakers", "verify_mixture"}, cause="engines.verifier.revision"
    ),
    "rows of the report, workers": Case(set_fields(report_rows=5, workers=1), set()),
    "version of draw_scenarios": Case(lambda s: s.raise_version("draw_scenarios"), {"draw_scenarios"}, cause="version"),
    "version of label_actionability": Case(
        lambda s: s.raise_version("label_actionability"),
        {"label_actionability"},
        {"label_actionability", "write_replies"},
        "version",
    ),
    "version of mix_speakers": Case(
        lambda s: s.raise_version("mix_speakers"), {"mix_speakers"}, {"mix_speakers", "verify_mixture"}, "version"
    ),
    "version of verify_mixture": Case(lambda s: s.raise_version("verify_mixture"), {"verify_mixture"}, cause="version"),
}


def _hear_prompt(request: TextRequest, *purpose: str) -> Any:
    """Draw from what a request says to a model, so that another prompt has another answer.

    What becomes of a row does not depend on what its bystander says: the quotas hold.
    """
    said = [message.content for message in request.messages[:-1]] if request.task in _HEARD else []
    known = {name: value for name, value in request.variables.items() if name != "third_party"}
    return fake_text.make_rng(request.seed if purpose else 0, digest_json([known, said]), request.task, *purpose)


ROWS = 11
_FIELDS = {
    "wave_surplus": 3.0,
    "stages__draw_scenarios__scenarios": [
        "alignment",
        "priority_alert",
        "knowledge_display",
        "veto_with_justification",
    ],
}
"""One wave brings enough rows, whatever labels they get."""
_HEARD = ("write_interruption", "label_class")


@pytest.fixture(scope="module", autouse=True)
def hearing_fakes() -> Any:
    """Let the fake text engine hear its prompts, where this changes labels or texts and no row's fate."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_text, "_make_rng", _hear_prompt)
        patch.setattr(fake_text, "_make_rng_of_texts", _hear_prompt)
        yield


def write_pack(folder: Path) -> Path:
    """Write a pack like the reference pack, whose judge is shown the criteria of every class."""
    write_new_pack("like-reference", "reference", folder)
    (folder / "label_class.j2").write_text(
        "=== system\nA: {{ class.criteria }} B: anything else.\n=== user\n{{ primary }}\n{{ third_party }}\n", "utf-8"
    )
    return folder


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with queries, a pack and the store of a first build."""
    folder = tmp_path_factory.mktemp("origin")
    queries = write_queries(folder / "queries.jsonl", 40)
    write_pack(folder / "pack")
    build_directly(make_config(folder / "store", queries, ROWS, build="first", pack=str(folder / "pack"), **_FIELDS))
    return folder


def copy_linked(source: Path, target: Path) -> None:
    """Copy a folder by links: a store's files are replaced, never written into."""
    shutil.copytree(source, target, copy_function=os.link)


@pytest.fixture
def setting(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    copy_linked(origin / "store", tmp_path / "store")
    shutil.copytree(origin / "pack", tmp_path / "pack")
    return Setting(tmp_path, monkeypatch, origin / "queries.jsonl")


def configure(setting: Setting) -> TpiTrainConfig:
    fields = {"build": "again", "pack": str(setting.pack), **_FIELDS, **setting.fields}
    return make_config(setting.folder / "store", setting.queries, ROWS, **fields)


def count_rows(built: Built) -> tuple[Counter[str], Counter[str]]:
    """Return the rows that each stage found, and those that it was run for."""
    found: Counter[str] = Counter()
    made: Counter[str] = Counter()
    for stage, result, reused in built.heard.results:
        (found if reused else made)[stage] += result.rows_in
    return +found, +made


def count_calls(patch: pytest.MonkeyPatch) -> Counter[str]:
    calls: Counter[str] = Counter()

    def watch(engine: type, method: str) -> None:
        inner = getattr(engine, method)

        def counting(self: Any, requests: Any, *rest: Any, **more: Any) -> Any:
            calls[method] += len(requests)
            return inner(self, requests, *rest, **more)

        patch.setattr(engine, method, counting)

    watch(FakeTextEngine, "generate")
    watch(FakeSpeechEngine, "synthesise")
    watch(FakeRecogniser, "recognise")
    watch(FakeVerifier, "embed")
    return calls


def list_made(plan: RebuildPlan) -> set[str]:
    return {stage.stage for stage in plan.stages if stage.made}


@pytest.mark.parametrize("name", CASES)
def test_plan_says_what_the_build_then_does(setting: Setting, name: str) -> None:
    case = CASES[name]
    case.change(setting)
    calls = count_calls(setting.patch)
    stored = sorted(path for path in setting.folder.rglob("*") if path.is_file())
    config = configure(setting)
    plan = foresee_build_tpi_train(config)
    assert not calls
    assert sorted(path for path in setting.folder.rglob("*") if path.is_file()) == stored  # nothing is written
    assert plan.against == "first"
    planned = case.made if case.planned is None else case.planned
    assert list_made(plan) == planned
    assert plan.verdict == ("rebuilt" if planned else "published_anew")
    named = {cause.field for stage in plan.stages for cause in stage.causes}
    assert any(field.startswith(case.cause) for field in named) if case.cause else not named

    built = build_directly(config)
    assert built.heard.plans == [plan]
    found, made = count_rows(built)
    assert {*made} == case.made
    for stage in plan.stages:
        if stage.exact:
            assert (stage.reused, stage.made) == (found[stage.stage], made[stage.stage]), stage
    for engine, stages in (("synthesise", {"synthesise_speech"}), ("recognise", {"synthesise_speech"})):
        assert bool(calls[engine]) == bool(stages & case.made)
    if not case.made:
        assert not calls


@pytest.mark.parametrize("name", ["policy of a class", "version of mix_speakers"])
def test_counts_hold_where_the_same_rows_pass(setting: Setting, name: str) -> None:
    CASES[name].change(setting)
    config = configure(setting)
    plan = foresee_build_tpi_train(config)
    found, made = count_rows(build_directly(config))
    assert {stage.stage: stage.rows for stage in plan.stages} == {stage: found[stage] + made[stage] for stage in STAGES}
    for stage in made:
        (forecast,) = (one for one in plan.stages if one.stage == stage)
        assert (forecast.redone, forecast.new, forecast.regrouped) == (made[stage], 0, 0)


def test_added_queries_add_rows_and_change_none(setting: Setting) -> None:
    setting.add_queries()
    config = configure(setting)
    plan = foresee_build_tpi_train(config)
    counts = {stage.stage: stage for stage in plan.stages}
    written = counts["write_interruptions"]
    assert (written.reused, written.redone) == (0, 0)
    assert written.new  # candidates of the four queries
    assert written.regrouped == written.rows - written.new
    assert not any(stage.causes for stage in plan.stages)
    assert any("model calls are remembered" in note for note in plan.notes)
    built = build_directly(config)
    before = {row["id"]: row for row in read_rows(setting.folder / "store" / "tpi-train" / "first")}
    after = {row["id"]: row for row in built.read_rows().to_pylist()}
    shared = before.keys() & after.keys()
    assert shared
    names = ("primary_text", "third_party_text", "label", "reply", "primary_voice", "third_party_voice", "audio")
    assert all(before[row_id][name] == after[row_id][name] for row_id in shared for name in names)


@pytest.mark.parametrize("moved", [False, True])
def test_rows_that_a_grown_build_took_over_are_known(setting: Setting, moved: bool) -> None:
    store = setting.folder / "store"
    setting.add_queries()
    fields = {**_FIELDS, "pack": str(setting.pack)}
    base = f"{store}/tpi-train/first"
    build_directly(make_config(store, setting.queries, ROWS + 4, build="grown", on_top_of__build=base, **fields))
    if moved:
        store = store.rename(setting.folder / "elsewhere")
    setting.edit_template("write_reply")

    plan = foresee_build_tpi_train(make_config(store, setting.queries, ROWS, build="again", **fields), "grown")
    counts = {stage.stage: stage for stage in plan.stages}
    replies = counts["write_replies"]
    assert (replies.reused, replies.regrouped, replies.redone, replies.new) == (0, 0, replies.rows, 0)
    assert counts["write_interruptions"].new == 0
    assert replies.rows >= 10
    assert [cause.field for cause in replies.causes] == ["prompts.write_reply.template"]
    assert not any("not known" in note for note in plan.notes)

    shutil.rmtree(store / "tpi-train" / "first")
    (store / "cache" / "builds" / "tpi-train" / "first.json").unlink()
    plan = foresee_build_tpi_train(make_config(store, setting.queries, ROWS, build="again", **fields), "grown")
    counts = {stage.stage: stage for stage in plan.stages}
    assert any(note.startswith("Which rows first has is not known") for note in plan.notes)
    assert counts["write_replies"].new > 0
    assert "changed" in counts["write_replies"].as_row()["why"]


def test_rows_in_other_partitions_are_regrouped(setting: Setting) -> None:
    setting.fields["partition_rows"] = 5
    plan = foresee_build_tpi_train(configure(setting))
    counts = {stage.stage: stage for stage in plan.stages}
    assert counts["normalise_queries"].reused == counts["normalise_queries"].rows
    assert counts["write_interruptions"].regrouped == counts["write_interruptions"].rows
    assert all((stage.redone, stage.new, stage.exact) == (0, 0, True) for stage in plan.stages)
    _, made = count_rows(build_directly(configure(setting)))
    assert made == Counter({stage.stage: stage.regrouped for stage in plan.stages if stage.regrouped})


def test_second_run_has_nothing_new_and_says_so(setting: Setting, origin: Path) -> None:
    setting.fields.update(build="first", pack=str(origin / "pack"))
    built = build_directly(configure(setting))
    assert built.heard.plans[0].verdict == "nothing_new"
    assert built.heard.plans[0].headline == "tpi-train/first: nothing new, all is there already"
    assert not built.heard.made


def read_rows(folder: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(folder.glob("data/*.parquet")) for row in pq.read_table(path).to_pylist()]
