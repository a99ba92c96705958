"""The stages: one pure function a file, found by name."""

from __future__ import annotations

from importlib import import_module

from bystander.schemas.stages import Stage

QUERY_STAGES: tuple[str, ...] = ("normalise_queries",)
"""What every query passes before rows are drawn from it."""

PAIR_STAGES: tuple[str, ...] = (
    "draw_scenarios",
    "write_interruptions",
    "check_realism",
    "label_actionability",
    "write_replies",
    "score_ambiguity",
    "choose_voices",
    "synthesise_speech",
    "verify_speakers",
    "mix_speakers",
    "verify_mixture",
)
"""The way of a two-speaker row, from candidate to finished."""

HARD_NEGATIVE_STAGES: tuple[str, ...] = (
    "build_hard_negatives",
    "synthesise_speech",
    "verify_speakers",
    "mix_speakers",
    "verify_mixture",
)
"""The way of a hard negative, from its two-speaker twin."""


def get_stage(name: str) -> Stage:
    """Return the stage of a name, which is also the name of its module here."""
    stage: Stage = import_module(f"{__name__}.{name}").STAGE
    return stage
