"""From planned rows to calls, tokens, hours, bytes and money: arithmetic only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bystander.schemas.config import TpiConfig
from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.packs import PromptPack
from bystander.schemas.plan import (
    PLANNED_ROLES,
    BuildMeasures,
    CallPlan,
    EngineRate,
    Estimate,
    PlanAssumptions,
    PlannedRole,
    RolePlan,
)
from bystander.schemas.text_tasks import (
    CHECK_REALISM,
    LABEL_CLASS,
    LABEL_KIND,
    SCORE_AMBIGUITY,
    WRITE_INTERRUPTION,
    WRITE_ONE_SPEAKER_REPLY,
    WRITE_REPLY,
)
from bystander.tasks.plan_rows import PlannedRows, estimate
from bystander.tasks.plan_texts import PromptSize, list_classes_with_kinds

_ANSWER_TOKENS = 12
"""Of a choice that is written as JSON instead of read from log-probabilities: `{"answer": "A"}` and its end."""
_WRITE_KEYS = len(json.dumps({"primary": "", "third_party": ""}))
_REPLY_KEYS = len(json.dumps({"reply": ""}))
RATE_KEYS = ("writer", "writer_prompt", "judge", "judge_prompt", "speech", "recogniser")


@dataclass(frozen=True, slots=True)
class Resources:
    """What the user says of their machines: rates by `RATE_KEYS`, devices by role, and what a GPU costs an hour."""

    rates: Mapping[str, float] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)
    thinking_tokens: float | None = None
    price_per_gpu_hour: float | None = None


def count_calls(
    config: TpiConfig, pack: PromptPack, measures: BuildMeasures, build: PlannedRows
) -> dict[tuple[Literal["writer", "judge"], str], float]:
    """Return the calls of each task in one simulated build, by role and task.

    A row that passes a writing stage takes the mean tries; one that fails takes all. Questions are asked once a row: of
    each class but the last, and of the kind where the label has several.
    """
    write, replies = config.stages.write_interruptions, config.stages.write_replies
    twins = config.stages.build_hard_negatives.reply

    def count_tries(stage: str, tries: float, most: int) -> float:
        kept = build.kept[stage]
        return kept * tries + (build.stages[stage] - kept) * most

    kinds = {item.key for item in list_classes_with_kinds(pack)}
    return {
        ("writer", WRITE_INTERRUPTION.name): count_tries(
            "write_interruptions",
            max(measures.write_tries, write.candidates),
            write.candidates + write.max_attempts - 1,
        ),
        ("judge", CHECK_REALISM.name): build.stages["check_realism"],
        ("judge", LABEL_CLASS.name): build.stages["label_actionability"] * (len(pack.classes) - 1),
        ("judge", LABEL_KIND.name): sum(count for label, count in build.labelled.items() if label in kinds),
        ("writer", WRITE_REPLY.name): count_tries("write_replies", measures.reply_tries, replies.max_attempts),
        ("judge", SCORE_AMBIGUITY.name): build.stages["score_ambiguity"],
        ("writer", WRITE_ONE_SPEAKER_REPLY.name): count_tries(
            "build_hard_negatives", measures.one_speaker_reply_tries, twins.max_attempts
        ),
    }


def plan_calls(
    config: TpiConfig,
    pack: PromptPack,
    measures: BuildMeasures,
    builds: Sequence[PlannedRows],
    prompts: Mapping[str, PromptSize],
    assumptions: PlanAssumptions,
    thinking_tokens: float | None = None,
) -> list[CallPlan]:
    """Return the calls of every task with their tokens."""
    per_build = [count_calls(config, pack, measures, build) for build in builds]
    texts = measures.primary_characters + measures.third_party_characters
    written = {
        WRITE_INTERRUPTION.name: texts + _WRITE_KEYS,
        WRITE_REPLY.name: measures.reply_characters + _REPLY_KEYS,
        WRITE_ONE_SPEAKER_REPLY.name: measures.reply_characters + _REPLY_KEYS,
    }
    plans = []
    for key in per_build[0]:
        role, task = key
        calls = estimate([counts[key] for counts in per_build])
        size = prompts[task]
        rate = assumptions.tokens_per_character
        prompt = size.characters * rate + size.messages * assumptions.template_tokens_per_message
        shared = prompt * size.shared_characters / size.characters
        engine = _engine_of(config, role)
        answer = written[task] * rate + 1 if task in written else _count_answer_tokens(engine)
        low, middle, high = _list_thinking(engine, assumptions, thinking_tokens)
        plans.append(
            CallPlan(
                role=role,
                task=task,
                calls=calls,
                prompt_tokens=_times(calls, prompt),
                cached_prompt_tokens=_times(calls, shared),
                generated_tokens=Estimate(
                    low=calls.low * (answer + low),
                    expected=calls.expected * (answer + middle),
                    high=calls.high * (answer + high),
                ),
            )
        )
    return plans


def count_tracks(config: TpiConfig, measures: BuildMeasures, build: PlannedRows) -> tuple[float, float]:
    """Return how many tracks one simulated build speaks, tries included, and their seconds.

    Both tracks of a pair that is lost are taken to have had all tries, though one of them may have passed.
    """
    tries, most = measures.track_tries, config.stages.synthesise_speech.max_attempts
    pairs = (build.pairs_spoken - build.lost_pairs) * tries + build.lost_pairs * (most + tries) / 2
    singles = (build.singles_spoken - build.lost_singles) * tries + build.lost_singles * most
    seconds = (measures.primary_characters + measures.third_party_characters) * measures.speech_s_per_character
    return 2 * pairs + singles, (pairs + singles) * seconds


def plan_roles(
    config: TpiConfig, calls: Sequence[CallPlan], spoken_s: Estimate, assumptions: PlanAssumptions, given: Resources
) -> list[RolePlan]:
    """Return what each engine has to do, and how long its devices take."""
    roles = []
    for role in PLANNED_ROLES:
        engine = _engine_of(config, role)
        if role == "judge" and config.engines.judge is None:
            continue  # the writer answers its questions too
        mine = [call for call in calls if call.role == role or (config.engines.judge is None and role == "writer")]
        rate, words = _find_rate(role, engine, assumptions, given)
        hours = None
        if rate is not None and rate.device == "none":
            hours = Estimate(expected=0, low=0, high=0)
        elif rate is not None and role in ("writer", "judge"):
            hours = _measure_text_hours(mine, rate)
        elif rate is not None and rate.audio_s_per_s:
            hours = _times(spoken_s, 1 / rate.audio_s_per_s / 3600)
        roles.append(
            RolePlan(
                role=role,
                engine=_name_kind(engine),
                model=str(getattr(engine, "model", "")),
                device=rate.device if rate is not None else "gpu",
                devices=given.devices.get(role, 1),
                hours=hours,
                rate=words,
            )
        )
    return roles


def measure_wall_clock(roles: Sequence[RolePlan]) -> tuple[Estimate | None, PlannedRole | None]:
    """Return the hours from start to end, and the slowest engine; None where a rate is missing.

    At least and as expected, engines are busy side by side, and the slowest decides; at most they take turns.
    """
    if any(role.hours is None for role in roles):
        return None, None
    shares = {role.role: _times(role.hours, 1 / role.devices) for role in roles if role.hours is not None}
    slowest = max(shares, key=lambda role: shares[role].expected)
    return (
        Estimate(
            low=max(share.low for share in shares.values()),
            expected=shares[slowest].expected,
            high=sum(share.high for share in shares.values()),
        ),
        slowest,
    )


def add_gpu_hours(roles: Sequence[RolePlan], wall_clock: Estimate | None) -> tuple[Estimate | None, Estimate | None]:
    """Return the hours of GPUs at work, and of all GPUs from start to end; None without GPUs, or without a rate."""
    gpus = [role for role in roles if role.device == "gpu" and role.hours is not None]
    if wall_clock is None or not gpus:
        return None, None
    busy = _add([role.hours for role in gpus if role.hours is not None])
    return busy, _times(wall_clock, sum(role.devices for role in gpus))


def combine(builds: Sequence[PlannedRows], measure: Callable[[PlannedRows], float]) -> Estimate:
    """Return the estimate of a figure of each simulated build."""
    return estimate([measure(build) for build in builds])


def _times(value: Estimate, factor: float) -> Estimate:
    return Estimate(expected=value.expected * factor, low=value.low * factor, high=value.high * factor)


def _add(values: Sequence[Estimate]) -> Estimate:
    return Estimate(
        expected=sum(value.expected for value in values),
        low=sum(value.low for value in values),
        high=sum(value.high for value in values),
    )


def _engine_of(config: TpiConfig, role: PlannedRole) -> EngineConfig:
    engine = getattr(config.engines, role)
    found: EngineConfig = config.engines.writer if engine is None else engine
    return found


def _name_kind(engine: EngineConfig) -> str:
    kind: str = getattr(engine, "engine", "")
    return kind


def _count_answer_tokens(engine: EngineConfig) -> float:
    """Return the tokens of a choice: one where its log-probabilities are read, else a short JSON object."""
    reads_logprobs = getattr(engine, "logprobs", True) and not getattr(engine, "reasoning_tokens", 0)
    return 1 if reads_logprobs else _ANSWER_TOKENS


def _list_thinking(
    engine: EngineConfig, assumptions: PlanAssumptions, given: float | None
) -> tuple[float, float, float]:
    budget = getattr(engine, "reasoning_tokens", 0)
    if not budget:
        return 0.0, 0.0, 0.0
    if given is not None:
        used = min(given, budget)
        return used, used, used
    low, middle, high = assumptions.thinking_share
    return low * budget, middle * budget, high * budget


def _find_rate(
    role: PlannedRole, engine: EngineConfig, assumptions: PlanAssumptions, given: Resources
) -> tuple[EngineRate | None, str]:
    """Return the rate of one device, the user's own figures over the assumed ones, and where it comes from in words."""
    kind = _name_kind(engine)
    base = assumptions.rates.get(kind)
    own = {name: value for name, value in given.rates.items() if name in (role, f"{role}_prompt")}
    if base is None and not own:
        return None, f"no rate is known for {kind}; give one with --rate {role}=..."
    rate = base or EngineRate(device="gpu", source="given")
    if role in ("writer", "judge"):
        fields = {"generated_tokens_per_s": own.get(role), "prompt_tokens_per_s": own.get(f"{role}_prompt")}
    else:
        fields = {"audio_s_per_s": own.get(role)}
    changes = {name: value for name, value in fields.items() if value is not None}
    if changes:
        device = "gpu" if rate.device == "none" else rate.device
        rate = rate.model_copy(update={**changes, "device": device, "source": _join_sources(rate.source, own)})
    return rate, f"{_describe_rate(rate)} ({rate.source})"


def _join_sources(source: str, own: Mapping[str, float]) -> str:
    return f"--rate {', '.join(sorted(own))}; otherwise {source}" if source != "given" else "given"


def _describe_rate(rate: EngineRate) -> str:
    parts = [
        f"{value:g} {unit}"
        for value, unit in (
            (rate.generated_tokens_per_s, "generated tokens/s"),
            (rate.prompt_tokens_per_s, "prompt tokens/s"),
            (rate.audio_s_per_s, "s of audio/s"),
        )
        if value is not None
    ]
    return ", ".join(parts) or "no time"


def _measure_text_hours(calls: Sequence[CallPlan], rate: EngineRate) -> Estimate | None:
    if rate.generated_tokens_per_s is None:
        return None
    generated = _times(_add([call.generated_tokens for call in calls]), 1 / rate.generated_tokens_per_s / 3600)
    if rate.prompt_tokens_per_s is None:
        return generated
    fresh = _add(
        [
            Estimate(
                expected=call.prompt_tokens.expected - call.cached_prompt_tokens.expected,
                low=call.prompt_tokens.low - call.cached_prompt_tokens.low,
                high=call.prompt_tokens.high - call.cached_prompt_tokens.high,
            )
            for call in calls
        ]
    )
    return _add([generated, _times(fresh, 1 / rate.prompt_tokens_per_s / 3600)])
