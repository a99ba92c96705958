"""From the columns in which a row differs to the stage whose settings made them differ."""

from __future__ import annotations

from typing import Any

import pytest

from bystander.schemas.build_differences import PROVENANCE, Cause
from bystander.schemas.sid import SID_FINAL
from bystander.schemas.tpi import FINAL
from bystander.tasks.row_ways import REWRITES, choose_way
from bystander.tasks.stages import HARD_NEGATIVE_STAGES, PAIR_STAGES, QUERY_STAGES, get_stage
from bystander.tasks.trace_causes import CauseTracer, StageChanges
from final_rows import make_manifest, make_rows

STAGES = tuple(dict.fromkeys((*QUERY_STAGES, *PAIR_STAGES, *HARD_NEGATIVE_STAGES)))
PAIR, SINGLE = ({"n_speakers": n} for n in (2, 1))
ROWS = make_rows(2, 0)


def describe(changes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        stage: {"version": 1, "build_seed": 1, "params": {}, "prompts": {}, "engines": {}} | changes.get(stage, {})
        for stage in STAGES
    }


def trace(changes: dict[str, dict[str, Any]], columns: set[str], row: dict[str, int] = PAIR) -> list[tuple[str, str]]:
    before, after = (make_manifest(ROWS, fingerprints=describe(one)) for one in ({}, changes))
    causes = CauseTracer(StageChanges(before, after)).trace(choose_way("tpi_train", row), frozenset(columns))
    return [(cause.stage, cause.field or cause.code) for cause in causes]


VOICES = {"engines": {"speech": {"settings": {"voices": "a,b"}}}}
MIX = {"mix_speakers": {"params": {"offset_mean_s": -0.3}}}
TEMPLATE = {"write_replies": {"prompts": {"write_reply": "x"}}}
SEED = {stage: {"build_seed": 2} for stage in STAGES}


@pytest.mark.parametrize(
    ("changes", "columns", "causes"),
    [
        pytest.param(TEMPLATE, {"reply"}, [("write_replies", "prompts.write_reply")], id="reply template"),
        pytest.param(
            {**TEMPLATE, "label_actionability": {"version": 2}},
            {"label", "reply"},
            [("label_actionability", "version"), ("write_replies", "prompts.write_reply")],
            id="label and template",
        ),
        pytest.param(
            {**TEMPLATE, "label_actionability": {"version": 2}},
            {"reply"},
            [("write_replies", "prompts.write_reply")],
            id="a label that did not change changes no reply",
        ),
        pytest.param(
            {"label_actionability": {"version": 2}},
            {"label", "label_score", "reply"},
            [("label_actionability", "version")],
            id="reply to another label",
        ),
        pytest.param(MIX, {"audio", "segments"}, [("mix_speakers", "params.offset_mean_s")], id="mixture"),
        pytest.param(
            {"synthesise_speech": {"params": {"max_wer": 0.5}}},
            {"audio", "duration_s"},
            [("synthesise_speech", "params.max_wer")],
            id="speech that only the mixture shows",
        ),
        pytest.param(
            {"choose_voices": VOICES, "synthesise_speech": VOICES},
            {"primary_voice", "primary_recognised", "audio"},
            [("choose_voices", "engines.speech")],
            id="voices are named once",
        ),
        pytest.param(
            {**MIX, **TEMPLATE},
            {"audio", "reply"},
            [("write_replies", "prompts.write_reply"), ("mix_speakers", "params.offset_mean_s")],
            id="two causes",
        ),
        pytest.param(SEED, {"scenario", "third_party_text", "audio"}, [("draw_scenarios", "build_seed")], id="seed"),
        pytest.param({}, {"reply"}, [("write_replies", "unexplained")], id="unexplained"),
        pytest.param(
            TEMPLATE,
            {"reply", "audio"},
            [("write_replies", "prompts.write_reply"), ("mix_speakers", "unexplained")],
            id="an explained change hides no unexplained one",
        ),
        pytest.param({}, {"label", "reply"}, [("label_actionability", "unexplained")], id="what follows from it"),
        pytest.param({}, {"twin_id"}, [("select_quotas", "twin_id")], id="twin"),
        pytest.param({}, {"query_text"}, [("input", "input")], id="input"),
        pytest.param(TEMPLATE, {"query_text", "reply"}, [("write_replies", "prompts.write_reply")], id="input aside"),
        pytest.param({"write_replies": {"pack": "x"}}, {"pack_digest", "engines", "seed"}, [], id="provenance"),
        pytest.param(
            {"write_replies": {"pack": "x"}}, {"reply"}, [("write_replies", "unexplained")], id="pack decides no reply"
        ),
    ],
)
def test_columns_are_traced_to_what_changed(
    changes: dict[str, dict[str, Any]], columns: set[str], causes: list[tuple[str, str]]
) -> None:
    assert trace(changes, columns) == causes


def test_another_pack_is_one_change_for_all_that_it_changes() -> None:
    before = make_manifest(ROWS, fingerprints=describe({}))
    other = {"label_actionability": {"prompts": {"label_class": "x"}, "version": 2}, **TEMPLATE}
    pack = before.pack.model_copy(update={"name": "household"})
    after = make_manifest(ROWS, fingerprints=describe(other), pack=pack)
    causes = CauseTracer(StageChanges(before, after)).trace(
        choose_way("tpi_train", PAIR), frozenset({"label", "reply", "pack"})
    )
    assert [(cause.stage, cause.sentence) for cause in causes] == [
        (
            "label_actionability",
            "label_actionability: the stage's version: 1 -> 2; pack.name: reference -> household",
        ),
    ]


def test_hard_negative_has_a_reply_of_its_own() -> None:
    own = {"build_hard_negatives": {"prompts": {"write_one_speaker_reply": "x"}}}
    assert trace({**TEMPLATE, **own}, {"reply"}, SINGLE) == [
        ("build_hard_negatives", "prompts.write_one_speaker_reply")
    ]
    assert trace(TEMPLATE, {"reply"}, SINGLE) == [("build_hard_negatives", "unexplained")]


def test_unexplained_change_names_the_engines_that_may_be_at_fault_and_other_versions() -> None:
    before = make_manifest(ROWS, fingerprints=describe({}))
    after = before.model_copy(update={"packages": {**before.packages, "numpy": "9.0"}})
    (cause,) = CauseTracer(StageChanges(before, after)).trace(choose_way("tpi_train", PAIR), frozenset({"audio"}))
    assert cause.code == "unexplained"
    assert "an engine is not deterministic (kokoro kokoro-v1.0-int8)" in cause.sentence
    assert "versions differ: numpy: 2.3.0 -> 9.0" in cause.sentence


def test_without_fingerprints_the_stage_is_named_and_no_more() -> None:
    before, after = make_manifest(ROWS, build="old"), make_manifest(ROWS, fingerprints=describe(TEMPLATE))
    causes = CauseTracer(StageChanges(before, after)).trace(
        choose_way("tpi_train", PAIR), frozenset({"reply", "audio"})
    )
    assert causes == (
        Cause(
            "no_fingerprints",
            "write_replies",
            "",
            "write_replies: what of it changed cannot be known, since the manifest of old has no fingerprints",
        ),
    )


def test_stage_that_only_one_build_has_is_a_change() -> None:
    fingerprints = describe({})
    before = make_manifest(ROWS, fingerprints=fingerprints)
    after = make_manifest(ROWS, fingerprints={k: v for k, v in fingerprints.items() if k != "check_realism"})
    (change,) = StageChanges(before, after).of("check_realism")
    assert change.sentence == "stage: check_realism -> absent"


@pytest.mark.parametrize(
    ("kind", "traits", "schema"),
    [
        ("tpi_train", PAIR, FINAL),
        ("tpi_bench", SINGLE, FINAL),
        ("sid_bench", {"category": "middle", "synthetic": True}, SID_FINAL),
        ("sid_bench", {"category": "middle", "synthetic": False}, SID_FINAL),
    ],
)
def test_each_published_column_has_a_stage_that_gives_it_its_value(kind: str, traits: Any, schema: Any) -> None:
    way = choose_way(kind, traits)
    written = {name for step in way.steps for name in step.writes} | way.inputs
    columns = {way.sources.get(name, name) for name in schema.names}
    assert columns - written - PROVENANCE == set()


def test_silence_comes_from_recordings_and_noise_from_nothing_before_it() -> None:
    names = [
        [step.name for step in choose_way("sid_bench", {"category": category, "synthetic": True}).steps]
        for category in ("silence", "noise")
    ]
    assert names == [
        ["write_conversations", "speak_conversations", "find_turns", "plan_silences", "make_noise_clips", "split"],
        ["make_noise_clips", "split"],
    ]


@pytest.mark.parametrize(("stage", "columns"), REWRITES.items())
def test_columns_that_are_rewritten_are_read_and_written(stage: str, columns: tuple[str, ...]) -> None:
    assert {*columns} <= {*get_stage(stage).reads.names} & {*get_stage(stage).writes.names}
