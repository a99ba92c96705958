"""What a preview of prompt packs shows: sample rows, the prompts rendered for them, and what engines make of them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from bystander.schemas.taxonomy import Timing


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SampleRow(_Frozen):
    """One exchange that prompts are rendered for."""

    id: str
    request: str
    """The query that was rewritten; the complete primary text where nobody gave one."""
    scenario: str
    category: str
    timing: Timing
    primary_complete: str
    primary_text: str
    """As spoken: the same, or cut and ending in "..." where the bystander cuts in within the sentence."""
    third_party_text: str
    answer: str | None = None
    """A reply that rubrics are shown as the one to judge; None where the row has none."""


class PromptMessage(_Frozen):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


class RenderedPrompt(_Frozen):
    """A task's prompt for one row, and for one class where it is asked of one."""

    task: str
    row: str
    """Id of the row."""
    shown_class: str | None
    messages: tuple[PromptMessage, ...]
    reply_schema: dict[str, Any] | None
    """JSON schema of the reply, as the pack has it: a stage may narrow it by openings."""
    options: tuple[str, ...]
    """What is chosen from, where the task is scored and not written."""
    characters: int
    """Of all messages."""
    tokens: int
    """Estimated, chat template included."""


class ClassScore(_Frozen):
    """How probable a class is in the judge's view, in [0, 1].

    `probability` is the judge's of the answer that says so, None for the last class, which nobody is asked about.
    `score` is the class's own given that at most one class fits, after the thresholds' shifts: what `label_score` is of
    the label. The scores of all classes sum to 1.
    """

    key: str
    probability: float | None
    score: float


class Fault(_Frozen):
    """Why a build would reject the row."""

    stage: str
    reason: str
    detail: str | None
    raw_output: str | None


class RowAnswer(_Frozen):
    """What a pack makes of one row; fields are None from the stage on that rejects it."""

    row: str
    scores: tuple[ClassScore, ...] = ()
    """In the pack's order; empty where the judge's answer could not be read."""
    label: str | None = None
    label_score: float | None = None
    kind: str | None = None
    reply: str | None = None
    reply_attempts: int | None = None
    fault: Fault | None = None


class PreviewedClass(_Frozen):
    """A class of the pack."""

    key: str
    criteria: str
    policy: str
    kinds: dict[str, str]
    """Key to definition."""
    mentions: Literal["never", "may", "must"]
    """Whether a reply says that somebody else spoke."""


class PackAnswers(_Frozen):
    """A pack's answers to all rows."""

    pack: str
    digest: str
    answers: tuple[RowAnswer, ...]


class PackPreview(_Frozen):
    """All that a preview shows. Prompts stand by task, class and row; answers are there where engines were asked."""

    pack: str
    digest: str
    description: str
    language: str
    classes: tuple[PreviewedClass, ...]
    rows: tuple[SampleRow, ...]
    rows_from: str
    prompts: tuple[RenderedPrompt, ...]
    tokens_per_character: float
    """What `tokens` are estimated with."""
    engines: dict[str, str] = {}
    """Role to name and model of those asked."""
    answers: tuple[PackAnswers, ...] = ()
    """The pack's, then those of the pack that it is held against."""
