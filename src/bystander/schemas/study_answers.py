"""Answers of raters as they are stored, and what of a file of results could not be read."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

CONSENT = "consent"
"""Stands for the question of consent, at place 0 of a sheet."""
HEARD = "heard"
"""Stands at the place of an item whose clip was played to its end."""
FINISHED = "finished"
"""Stands at place 0 when a rater has sent a sheet off."""

RejectReason = Literal[
    "unreadable",
    "no_rater",
    "refused",
    "no_consent",
    "unknown_sheet",
    "unknown_item",
    "unknown_question",
    "unknown_answer",
    "repeated",
]


class StudyAnswer(BaseModel):
    """One answer. `rater` is a digest; `place` counts from 1 on the sheet; `seconds` from when the item was shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rater: str = Field(pattern=r"^rater-[0-9a-f]{16}$")
    sheet: str
    place: int = Field(ge=0)
    question: str
    value: str
    seconds: float | None = Field(None, ge=0)


class RejectedAnswer(BaseModel):
    """A line of a file of results, or one of its answers, that is not taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    line: int
    reason: RejectReason
    detail: str
