"""What the texts of two builds took: calls by task, tries, and the size of the prompts where their packs can be had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from bystander.prompts.load import LoadedPack, load_pack
from bystander.schemas.errors import PackError, TaxonomyError
from bystander.schemas.pack_diff import Cost, StageRejects, TaskCost
from bystander.schemas.plan import load_assumptions
from bystander.schemas.taxonomy import Taxonomy, load_taxonomy
from bystander.schemas.text_tasks import (
    CHECK_REALISM,
    LABEL_CLASS,
    LABEL_KIND,
    SCORE_AMBIGUITY,
    WRITE_INTERRUPTION,
    WRITE_ONE_SPEAKER_REPLY,
    WRITE_REPLY,
)
from bystander.schemas.tpi_params import TpiStages
from bystander.storage.build_manifest import StageCounts
from bystander.tasks.compare_texts import estimate_tries
from bystander.tasks.compared_rows import ComparedBuild
from bystander.tasks.plan_texts import PromptSize, measure_prompts
from bystander.tasks.stages import TEXT_STAGES

STAGES_OF_TEXTS = (
    *(stage for stage in TEXT_STAGES if stage not in ("draw_scenarios", "choose_voices")),
    "build_hard_negatives",
)
"""Stages whose rejects have to do with texts, in the order in which a row comes to them."""

_ROLES = {
    WRITE_INTERRUPTION.name: "writer",
    CHECK_REALISM.name: "judge",
    LABEL_CLASS.name: "judge",
    LABEL_KIND.name: "judge",
    WRITE_REPLY.name: "writer",
    SCORE_AMBIGUITY.name: "judge",
    WRITE_ONE_SPEAKER_REPLY.name: "writer",
}
_SAMPLE_TEXTS = 100
_SAMPLE_REQUESTS = 8


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes of a build's prompts by task, or why they cannot be known."""

    by_task: Mapping[str, PromptSize]
    fault: str | None


def compare_rejects(first: ComparedBuild, second: ComparedBuild) -> list[StageRejects]:
    """Return the rejects of the stages of texts by reason, in the stages' order."""
    stages_a, stages_b = ({counts.stage: counts for counts in b.manifest.stages} for b in (first, second))
    nothing = StageCounts(stage="", rows_in=0, kept=0)
    found = []
    for stage in STAGES_OF_TEXTS:
        a, b = stages_a.get(stage, nothing), stages_b.get(stage, nothing)
        for reason in sorted({*a.reasons, *b.reasons}):
            one, other = a.reasons.get(reason, 0), b.reasons.get(reason, 0)
            found.append(
                StageRejects(
                    stage=stage,
                    reason=reason,
                    a=one,
                    b=other,
                    share_a=one / a.rows_in if a.rows_in else None,
                    share_b=other / b.rows_in if b.rows_in else None,
                )
            )
    return found


def compare_costs(first: ComparedBuild, second: ComparedBuild) -> Cost:
    """Return what both builds asked of their text engines."""
    calls_a, calls_b = count_calls(first), count_calls(second)
    sizes_a, sizes_b = _measure_prompts(first), _measure_prompts(second)
    tasks = [
        TaskCost(
            role=role,
            task=task,
            calls_a=calls_a[task],
            calls_b=calls_b[task],
            characters_a=_get_characters(sizes_a, task),
            characters_b=_get_characters(sizes_b, task),
            tokens_a=_estimate_tokens(sizes_a, task),
            tokens_b=_estimate_tokens(sizes_b, task),
        )
        for task, role in _ROLES.items()
    ]
    return Cost(
        tasks=tuple(tasks),
        tries_a=estimate_tries(first),
        tries_b=estimate_tries(second),
        pack_fault_a=sizes_a.fault,
        pack_fault_b=sizes_b.fault,
        tokens_per_row_a=_sum_tokens([(task.calls_a, task.tokens_a) for task in tasks], first, sizes_a),
        tokens_per_row_b=_sum_tokens([(task.calls_b, task.tokens_b) for task in tasks], second, sizes_b),
    )


def count_calls(build: ComparedBuild) -> dict[str, float]:
    """Return the calls of each task: from the rows that each stage read, the tries that rows keep, and the settings.

    A row that its stage rejects was asked as often as the settings allow. Calls for rows that ended as a fault of the
    engine before their kind was asked are not known, and not counted.
    """
    manifest = build.manifest
    stages = {counts.stage: counts for counts in manifest.stages}
    nothing = StageCounts(stage="", rows_in=0, kept=0)
    params = _read_params(manifest.config)
    pairs, singles = list(build.pairs.values()), list(build.singles.values())
    kinds = {key for key, of_class in manifest.pack.classes.items() if len(of_class) > 1}

    def count_tries(stage: str, kept_tries: Sequence[int | None], most: int, unasked: str = "") -> float:
        counts = stages.get(stage, nothing)
        known = [tries for tries in kept_tries if tries is not None]
        failed = counts.rejected - counts.reasons.get(unasked, 0)
        return counts.kept * (sum(known) / len(known) if known else 1.0) + failed * most

    write = params.write_interruptions
    return {
        WRITE_INTERRUPTION.name: count_tries(
            "write_interruptions", [row.write_attempts for row in pairs], write.candidates + write.max_attempts - 1
        ),
        CHECK_REALISM.name: float(stages.get("check_realism", nothing).rows_in),
        LABEL_CLASS.name: float(stages.get("label_actionability", nothing).rows_in * (len(manifest.pack.classes) - 1)),
        LABEL_KIND.name: float(sum(row.label in kinds for row in pairs)),
        WRITE_REPLY.name: count_tries(
            "write_replies", [row.reply_attempts for row in pairs], params.write_replies.max_attempts
        ),
        SCORE_AMBIGUITY.name: float(stages.get("score_ambiguity", nothing).rows_in),
        WRITE_ONE_SPEAKER_REPLY.name: count_tries(
            "build_hard_negatives",
            [row.reply_attempts for row in singles],
            params.build_hard_negatives.reply.max_attempts,
            unasked="not_ambiguous",
        ),
    }


def _read_params(config: Mapping[str, Any]) -> TpiStages:
    """Return the settings of a build's stages; those of today where another version has others."""
    try:
        return TpiStages.model_validate(config.get("stages", {}))
    except ValidationError:
        return TpiStages()


def _measure_prompts(build: ComparedBuild) -> _Sizes:
    loaded = _load_its_pack(build)
    if isinstance(loaded, str):
        return _Sizes({}, loaded)
    pack, taxonomy = loaded
    written = [row for row in build.pairs.values() if None not in row.words]
    texts = [
        {
            "primary_complete": row.primary_complete or "",
            "primary_text": row.primary_text or "",
            "third_party_text": row.third_party_text or "",
        }
        for row in sorted(written, key=lambda row: row.id)[:_SAMPLE_TEXTS]
    ]
    requests = sorted({row.request for row in build.pairs.values()})[:_SAMPLE_REQUESTS]
    if not texts:
        return _Sizes({}, "the build has no two-speaker row that prompts could be rendered for")
    used = {row.scenario for row in build.pairs.values()}
    scenarios = [scenario for scenario in taxonomy.scenarios if scenario.key in used]
    return _Sizes(measure_prompts(pack, taxonomy, scenarios, requests, texts), None)


def _load_its_pack(build: ComparedBuild) -> tuple[LoadedPack, Taxonomy] | str:
    """Return the pack and the taxonomy that a build was made with, or why they cannot be had."""
    manifest = build.manifest
    address = str(manifest.config.get("pack", manifest.pack.name))
    try:
        pack, taxonomy = load_pack(address), load_taxonomy(manifest.config.get("taxonomy"))
    except (PackError, TaxonomyError) as exc:
        return f"the pack of {manifest.build} cannot be loaded any more ({exc})"
    if pack.digest != manifest.pack.digest:
        return f"pack {address} has changed since {manifest.build} was made with it"
    if taxonomy.digest() != manifest.taxonomy.digest:
        return f"the taxonomy has changed since {manifest.build} was made with it"
    return pack, taxonomy


def _get_characters(sizes: _Sizes, task: str) -> float | None:
    return sizes.by_task[task].characters if task in sizes.by_task else None


def _estimate_tokens(sizes: _Sizes, task: str) -> float | None:
    if task not in sizes.by_task:
        return None
    assumptions, size = load_assumptions(), sizes.by_task[task]
    return size.characters * assumptions.tokens_per_character + size.messages * assumptions.template_tokens_per_message


def _sum_tokens(tasks: Sequence[tuple[float, float | None]], build: ComparedBuild, sizes: _Sizes) -> float | None:
    """Return the prompt tokens of all calls by published row."""
    if sizes.fault is not None or not build.manifest.counts.rows:
        return None
    return sum(calls * tokens for calls, tokens in tasks if tokens is not None) / build.manifest.counts.rows
