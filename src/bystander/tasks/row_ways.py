"""The way that each kind of row takes through the stages: which step gives which of its columns their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from bystander.schemas.sid import NOISE, SID_FINAL, SILENCE, TURN
from bystander.schemas.stages import Stage
from bystander.schemas.tpi import FINAL
from bystander.tasks.stages import (
    CONVERSATION_STAGES,
    HARD_NEGATIVE_STAGES,
    NOISE_STAGES,
    PAIR_STAGES,
    QUERY_STAGES,
    RECORDING_STAGES,
    TEXT_STAGES,
    TURN_STAGES,
    get_stage,
)

SELECT, SPLIT, CUT, PLAN_SILENCES = "select_quotas", "split", "cut_turns", "plan_silences"
"""Steps of the flows that are no stages, but give columns their values."""

REWRITES: Mapping[str, tuple[str, ...]] = {
    "build_hard_negatives": (
        "id",
        "label",
        "kind",
        "reply",
        "reply_attempts",
        "n_speakers",
        "third_party_voice",
        "twin_id",
    ),
    "transcribe_recordings": ("utterances", "transcript_source"),
}
"""Columns to which a stage gives new values though it reads them too."""

_READ_WHAT_THEY_REWRITE = frozenset({"transcribe_recordings"})
"""Of those, the ones whose results depend on the old values."""

_CARRIED_BY_CUT = frozenset({"recording_id", "source", "licence", "language", "transcript_source", "synthetic"})
_TRACK_COLUMNS = ("recognised", "wer_raw", "wer", "recognition_temperature", "attempts")
_TPI_SOURCES = {f"{speaker}_{name}": "tracks" for speaker in ("primary", "third_party") for name in _TRACK_COLUMNS}
_SID_SOURCES = {"words": "timed_words"}
_HIDDEN = frozenset({"tracks"})
"""Columns that are published in part only."""


@dataclass(frozen=True, slots=True)
class Step:
    """A stage or step: the columns that its results depend on, and those that it gives values to."""

    name: str
    uses: frozenset[str]
    writes: frozenset[str]
    roles: tuple[str, ...] = ()
    """The engines that it calls."""


@dataclass(frozen=True, slots=True)
class Way:
    """The steps of one kind of row, in order."""

    name: str
    inputs: frozenset[str]
    """Columns that the first step reads."""
    steps: tuple[Step, ...]
    sources: Mapping[str, str]
    """From a published column to the column of a stage that it is made from, where that is called otherwise."""
    visible: tuple[frozenset[str], ...]
    """For each step, the columns written that are published as they are: whether they changed can be seen."""

    def __hash__(self) -> int:
        return hash(self.name)


TPI_TRAITS = ("n_speakers",)
SID_TRAITS = ("category", "synthetic")


def choose_way(kind: str, traits: Mapping[str, Any]) -> Way:
    """Return the way of a row, from the kind of its build and the columns `TPI_TRAITS` or `SID_TRAITS`."""
    if kind.startswith("tpi"):
        return _tpi_way(traits["n_speakers"] == 1)
    return _sid_way(traits["category"], bool(traits["synthetic"]))


@cache
def _tpi_way(single: bool) -> Way:
    stages = (*QUERY_STAGES, *TEXT_STAGES, *HARD_NEGATIVE_STAGES) if single else (*QUERY_STAGES, *PAIR_STAGES)
    steps = [_step_of(get_stage(name)) for name in stages]
    steps += [Step(SELECT, frozenset(), frozenset({"twin_id"})), Step(SPLIT, frozenset(), frozenset({"split"}))]
    return _make_way("hard negative" if single else "pair", stages[0], steps, FINAL, _TPI_SOURCES)


@cache
def _sid_way(category: str, synthetic: bool) -> Way:
    noise = [_step_of(get_stage(name)) for name in NOISE_STAGES]
    split = Step(SPLIT, frozenset(), frozenset({"split"}))
    stages = CONVERSATION_STAGES if synthetic else RECORDING_STAGES
    recording = [_step_of(get_stage(name)) for name in stages]
    if category == SILENCE:
        plan = Step(
            PLAN_SILENCES,
            frozenset({"silences", "audio", "licence", "synthetic"}),
            frozenset({"id", "category", "source", "licence", "synthetic", "pieces"}),
        )
        steps, first = [*recording, plan, *noise, split], stages[0]
    elif category == NOISE:
        steps, first = [*noise, split], NOISE_STAGES[0]
    else:
        cut = Step(
            CUT,
            frozenset({"recording_id", "speakers", "audio", "sampling_rate", "turns", "truths"}),
            frozenset(TURN.names) - _CARRIED_BY_CUT,
        )
        steps, first = [*recording, cut, *(_step_of(get_stage(name)) for name in TURN_STAGES), split], stages[0]
    return _make_way(f"{category}{' synthetic' if synthetic else ''}", first, steps, SID_FINAL, _SID_SOURCES)


def _step_of(stage: Stage) -> Step:
    rewritten = {*REWRITES.get(stage.name, ())}
    replaced = set() if stage.name in _READ_WHAT_THEY_REWRITE else rewritten
    return Step(
        stage.name,
        frozenset({*stage.needed} - replaced),
        frozenset({*stage.writes.names} - {*stage.reads.names} | rewritten),
        (*stage.engines, *stage.optional_engines),
    )


def _make_way(name: str, first: str, steps: Sequence[Step], final: pa.Schema, sources: Mapping[str, str]) -> Way:
    published = {sources.get(column, column) for column in final.names} - _HIDDEN
    visible: list[frozenset[str]] = []
    later: set[str] = set()
    for step in reversed(steps):
        visible.append(frozenset((step.writes & published) - later))
        later |= step.writes
    return Way(name, frozenset(get_stage(first).reads.names), tuple(steps), sources, tuple(reversed(visible)))
