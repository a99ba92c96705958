"""Calls, tokens, hours and money against figures worked out by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from bystander.prompts.load import load_pack
from bystander.schemas.config import TpiConfig, load_config
from bystander.schemas.plan import BuildMeasures, Estimate, PlanAssumptions, RolePlan, Yield, load_assumptions
from bystander.schemas.taxonomy import load_taxonomy
from bystander.tasks.plan_costs import (
    Resources,
    add_gpu_hours,
    count_calls,
    count_tracks,
    measure_wall_clock,
    plan_calls,
    plan_roles,
)
from bystander.tasks.plan_rows import PlannedRows
from bystander.tasks.plan_texts import PromptSize, list_example_texts, measure_prompts

TASKS = (
    "write_interruption",
    "check_realism",
    "label_class",
    "label_kind",
    "write_reply",
    "score_ambiguity",
    "write_one_speaker_reply",
)
OPENAI = {"engine": "openai", "base_url": "http://localhost:1/v1", "model": "m"}
MEASURES = BuildMeasures(
    source="made up",
    ambiguous=Yield(rows_in=10, kept=1),
    write_tries=1.5,
    reply_tries=1.25,
    one_speaker_reply_tries=1.0,
    track_tries=1.5,
    primary_characters=40,
    third_party_characters=60,
    reply_characters=88,
    speech_s_per_character=0.05,
    flac_bytes_per_s=20_000,
)


def configure(**engines: Any) -> TpiConfig:
    return load_config("fake", overrides={f"engines.{name}": value for name, value in engines.items()})


def make_build() -> PlannedRows:
    """Return a build of 100 candidates: 20 are not written, 10 not heard; 10 are hard negatives, 2 not replied to."""
    return PlannedRows(
        stages=Counter(
            write_interruptions=100,
            check_realism=80,
            label_actionability=80,
            write_replies=80,
            score_ambiguity=80,
            build_hard_negatives=10,
            synthesise_speech=88,
        ),
        kept=Counter(
            write_interruptions=80,
            check_realism=80,
            label_actionability=80,
            write_replies=80,
            score_ambiguity=80,
            build_hard_negatives=8,
            synthesise_speech=78,
        ),
        candidates=100,
        labelled=Counter(actionable=30, ignorable=50),
        pairs_spoken=80,
        singles_spoken=8,
        lost_pairs=10,
        lost_singles=0,
    )


def assume(**fields: Any) -> PlanAssumptions:
    given = {"tokens_per_character": 0.25, "template_tokens_per_message": 5, "thinking_share": (0.1, 0.5, 1.0)}
    return load_assumptions().model_copy(update={**given, **fields})


def test_calls_by_hand() -> None:
    calls = count_calls(configure(), load_pack("reference"), MEASURES, make_build())
    assert calls == {
        ("writer", "write_interruption"): 80 * 1.5 + 20 * 3,  # three tries before a row is given up
        ("judge", "check_realism"): 80,
        ("judge", "label_class"): 80,  # two classes: one question
        ("judge", "label_kind"): 30,  # only actionable has kinds
        ("writer", "write_reply"): 80 * 1.25,
        ("judge", "score_ambiguity"): 80,
        ("writer", "write_one_speaker_reply"): 8 * 1 + 2 * 3,
    }


def test_candidates_a_row_are_counted() -> None:
    config = load_config("fake", overrides={"stages.write_interruptions.candidates": 4})
    calls = count_calls(config, load_pack("reference"), MEASURES, make_build())
    assert calls["writer", "write_interruption"] == 80 * 4 + 20 * (4 + 2)


def test_tokens_by_hand() -> None:
    config = configure(writer=OPENAI, judge={**OPENAI, "reasoning_tokens": 1000})
    prompts = dict.fromkeys(TASKS, PromptSize(characters=1000, shared_characters=800, messages=4)) | {
        "write_one_speaker_reply": PromptSize(500, 0, 2)
    }
    plans = plan_calls(config, load_pack("reference"), MEASURES, [make_build()], prompts, assume())
    found = {plan.task: plan for plan in plans}
    realism = found["check_realism"]
    assert realism.prompt_tokens.expected == 80 * (1000 * 0.25 + 4 * 5)
    assert realism.cached_prompt_tokens.expected == pytest.approx(80 * 270 * 0.8)
    # 12 tokens of an answer in JSON, and a tenth, a half, all of 1000 tokens of thought.
    assert realism.generated_tokens == Estimate(low=80 * 112, expected=80 * 512, high=80 * 1012)
    # {"primary": "", "third_party": ""} has 34 characters, {"reply": ""} 13; one token ends the text.
    assert found["write_interruption"].generated_tokens.expected == pytest.approx(180 * ((100 + 34) * 0.25 + 1))
    assert found["write_one_speaker_reply"].generated_tokens.expected == pytest.approx(14 * ((88 + 13) * 0.25 + 1))
    assert found["write_one_speaker_reply"].cached_prompt_tokens.expected == 0


def test_thinking_that_was_measured_takes_the_place_of_the_range() -> None:
    config = configure(judge={**OPENAI, "reasoning_tokens": 1000})
    prompts = dict.fromkeys(TASKS, PromptSize(1000, 800, 4))
    pack = load_pack("reference")

    def generated(thinking: float) -> Estimate:
        plans = plan_calls(config, pack, MEASURES, [make_build()], prompts, assume(), thinking)
        return next(plan.generated_tokens for plan in plans if plan.task == "check_realism")

    assert generated(300) == Estimate(low=80 * 312, expected=80 * 312, high=80 * 312)
    assert generated(5000).expected == 80 * 1012  # no more than the budget


def test_a_choice_by_log_probabilities_is_one_token() -> None:
    prompts = dict.fromkeys(TASKS, PromptSize(1000, 800, 4))
    pack = load_pack("reference")
    for engine, tokens in ((OPENAI, 1), ({**OPENAI, "logprobs": False}, 12)):
        plans = plan_calls(configure(judge=engine), pack, MEASURES, [make_build()], prompts, assume())
        assert next(p.generated_tokens.expected for p in plans if p.task == "label_class") == 80 * tokens


def test_tracks_by_hand() -> None:
    # 70 pairs heard at 1.5 tries a track; of 10 pairs lost (fake profile: 4 tries), one track had all, one 1.5 on
    # average; 8 singles at 1.5 tries. A row's texts take 100 characters * .05 s.
    tracks, seconds = count_tracks(configure(), MEASURES, make_build())
    assert tracks == 2 * (70 * 1.5 + 10 * 2.75) + 8 * 1.5
    assert seconds == pytest.approx((70 * 1.5 + 10 * 2.75 + 8 * 1.5) * 5)


def test_hours_devices_and_the_slowest() -> None:
    config = configure(writer=OPENAI, judge=OPENAI)
    rates = {"writer": 100.0, "writer_prompt": 1000.0, "judge": 10.0, "judge_prompt": 500.0, "speech": 2.0}
    prompts = dict.fromkeys(TASKS, PromptSize(1000, 800, 4))
    calls = plan_calls(config, load_pack("reference"), MEASURES, [make_build()], prompts, assume())
    given = Resources(rates=rates, devices={"judge": 4})
    spoken = Estimate(expected=7200, low=3600, high=14400)
    roles = {role.role: role for role in plan_roles(config, calls, spoken, assume(), given)}
    questions = 80 + 80 + 30 + 80
    judge_s = questions * 1 / 10 + questions * 270 * 0.2 / 500
    assert roles["judge"].hours is not None
    assert roles["judge"].hours.expected == pytest.approx(judge_s / 3600)
    assert roles["judge"].devices == 4
    assert roles["speech"].hours == Estimate(expected=1, low=0.5, high=2)
    assert roles["speech"].device == "gpu"  # a fake that is given a rate stands for what will be there
    assert roles["recogniser"].hours == Estimate(expected=0, low=0, high=0)
    assert "--rate judge, judge_prompt" in roles["judge"].rate
    hours, slowest = measure_wall_clock(list(roles.values()))
    assert slowest == "speech"
    assert hours is not None
    assert hours.expected == 1
    assert hours.high == pytest.approx(
        2 + sum(r.hours.high / r.devices for n, r in roles.items() if r.hours and n != "speech")
    )


def make_role(role: str, hours: float | None, device: str = "gpu", devices: int = 1) -> RolePlan:
    given = None if hours is None else Estimate(expected=hours, low=hours / 2, high=hours * 2)
    return RolePlan.model_validate(
        {"role": role, "engine": "x", "model": "", "device": device, "devices": devices, "hours": given, "rate": ""}
    )


def test_gpu_hours_at_work_and_held() -> None:
    roles = [make_role("writer", 10, devices=5), make_role("speech", 8, devices=2), make_role("recogniser", 6, "cpu")]
    hours, slowest = measure_wall_clock(roles)
    assert (hours, slowest) == (Estimate(low=3, expected=6, high=4 + 8 + 12), "recogniser")
    assert add_gpu_hours(roles, hours) == (
        Estimate(expected=18, low=9, high=36),
        Estimate(expected=6 * 7, low=3 * 7, high=24 * 7),
    )
    assert add_gpu_hours([make_role("writer", 1, "cpu")], hours) == (None, None)


def test_without_a_rate_there_are_no_hours() -> None:
    assert measure_wall_clock([make_role("writer", 10), make_role("speech", None)]) == (None, None)


def test_writer_that_judges_too_has_all_calls() -> None:
    config = configure(writer=OPENAI)
    prompts = dict.fromkeys(TASKS, PromptSize(1000, 1000, 4))
    calls = plan_calls(config, load_pack("reference"), MEASURES, [make_build()], prompts, assume())
    roles = plan_roles(config, calls, Estimate(expected=0, low=0, high=0), assume(), Resources({"writer": 1.0}))
    assert [role.role for role in roles] == ["writer", "speech", "recogniser"]
    assert roles[0].hours is not None
    assert roles[0].hours.expected == pytest.approx(sum(call.generated_tokens.expected for call in calls) / 3600)


def test_prompts_share_their_constant_beginning() -> None:
    pack, taxonomy = load_pack("reference"), load_taxonomy()
    texts = [
        {"primary_complete": "Play jazz.", "primary_text": "Play...", "third_party_text": "Not now."},
        {"primary_complete": "Call Ann.", "primary_text": "Call...", "third_party_text": "She is out."},
    ]
    sizes = measure_prompts(pack, taxonomy, taxonomy.scenarios[:2], ["play jazz", "call ann"], texts)
    assert set(sizes) == set(TASKS)
    messages = pack.messages("score_ambiguity", {"primary": "Play...", "third_party": "Not now."})
    constant = sum(len(message.content) for message in messages[:-1])
    assert sizes["score_ambiguity"].messages == len(messages)
    assert sizes["score_ambiguity"].shared_characters == constant + len('First: "')
    for size in sizes.values():
        assert 0.5 * size.characters < size.shared_characters < size.characters
    # The two requests differ from their first letter: all before them is shared in each scenario.
    last = [len("play jazz"), len("call ann")]
    assert sizes["write_interruption"].characters - sizes["write_interruption"].shared_characters == sum(last) / 2


def test_examples_stand_in_for_a_builds_texts() -> None:
    texts = list_example_texts(load_taxonomy())
    assert len(texts) > 26
    assert all(text["primary_text"] and text["third_party_text"] for text in texts)


def test_assumptions_that_ship_name_their_sources() -> None:
    assumptions = load_assumptions()
    assert all(rate.source for rate in assumptions.rates.values())
    assert {"openai", "llama_cpp", "chatterbox", "openai_whisper", "kokoro", "faster_whisper"} <= set(assumptions.rates)
    assert assumptions.measures.source
    low, middle, high = assumptions.thinking_share
    assert 0 < low < middle < high == 1
