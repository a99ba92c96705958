"""What people who review a build say about its rows, one by one and together.

Of each annotator there is a journal: one `ReviewEntry` a line, in the order in which they were made. For each field of
a row the last entry that has it counts; null takes a field back. What several annotators said becomes one
`ReviewDecision` a row, which a build can apply.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from bystander.schemas.text_tasks import BREAK_TAG

Verdict = Literal["accept", "reject"]
DecidedVerdict = Literal["accept", "reject", "conflict"]
"""`conflict`: the annotators do not agree, and no rule says who is right."""
ReviewKind = Literal["tpi", "sid"]

ReviewReason = Literal[
    "no_interruption",
    "implausible",
    "needs_context",
    "wrong_label",
    "wrong_break",
    "wrong_text",
    "wrong_boundaries",
    "bad_audio",
    "wrong_speakers",
    "personal_data",
    "other",
]
"""Why a row is rejected. `needs_context`: it cannot be understood without names, faces or hands."""

REASONS_IN_WORDS: Mapping[ReviewReason, str] = {
    "no_interruption": "Nobody interrupts",
    "implausible": "Not plausible",
    "needs_context": "Needs names, sight or hands",
    "wrong_label": "Wrong label",
    "wrong_break": "Wrong break",
    "wrong_text": "Text is not what is said",
    "wrong_boundaries": "Wrong boundaries",
    "bad_audio": "Bad audio",
    "wrong_speakers": "Wrong speakers",
    "personal_data": "Personal data",
    "other": "Other, see the note",
}
_REASONS_OF_ONE_KIND: Mapping[ReviewReason, ReviewKind] = {
    "implausible": "tpi",
    "needs_context": "tpi",
    "wrong_boundaries": "tpi",
    "wrong_break": "sid",
}

UNANIMOUS, MAJORITY = "unanimous", "majority"
RULES = (UNANIMOUS, MAJORITY)
"""How several annotators' verdicts become one; any other rule is the name of an annotator whose word counts."""

MOST_CHARACTERS = 2000
_MOST_SEGMENTS = 200
_ANNOTATOR = re.compile(r"\w[\w.-]{0,39}")

Seconds = Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)]
"""From the start of the clip."""
ShortText = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
RowId = Annotated[str, Field(min_length=1, max_length=200)]


def list_reasons(kind: ReviewKind) -> list[ReviewReason]:
    """Return the reasons that rows of a kind can be rejected for, in the order of the digits that stand for them."""
    return [reason for reason in REASONS_IN_WORDS if _REASONS_OF_ONE_KIND.get(reason, kind) == kind]


def normalise_annotator(name: str) -> str:
    """Return an annotator's name as journals are named: lower case, so that no two differ in case alone.

    Raises:
        ValueError: it has other characters than letters, digits, `_`, `.` and `-`, is too long, or is a rule's name.
    """
    normal = unicodedata.normalize("NFC", name.strip().casefold())
    if not _ANNOTATOR.fullmatch(normal):
        raise ValueError(
            "an annotator's name has 1 to 40 letters, digits, underscores, dots and hyphens, and begins with a letter "
            "or digit"
        )
    if normal in RULES:
        raise ValueError(f"{normal} is the name of a rule; take another for an annotator")
    return normal


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ReviewedSegment(_Part):
    """Who speaks from when to when; `speaker` is one that the row has."""

    speaker: Annotated[str, Field(min_length=1, max_length=40)]
    start_s: Seconds
    end_s: Seconds

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.start_s >= self.end_s:
            raise ValueError(f"the segment ends at {self.end_s:g} s, before it has begun at {self.start_s:g} s")
        return self


class RowEdits(_Part):
    """What an annotator put right; null where the row's own value stands.

    Without a break, `text_with_break` has none and `break_time_s` is the clip's duration, as in the rows.
    """

    primary_text: ShortText | None = None
    third_party_text: ShortText | None = None
    segments: Annotated[tuple[ReviewedSegment, ...], Field(min_length=1, max_length=_MOST_SEGMENTS)] | None = None
    text_with_break: ShortText | None = None
    break_time_s: Seconds | None = None

    @field_validator("text_with_break")
    @classmethod
    def _check_break(cls, text: str | None) -> str | None:
        if text is not None and text.count(BREAK_TAG) > 1:
            raise ValueError(f"has {text.count(BREAK_TAG)} breaks; a clip has one at most")
        return text

    @property
    def given(self) -> dict[str, Any]:
        """The fields that were put right, as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)


EDIT_FIELDS = tuple(RowEdits.model_fields)


class RowReview(RowEdits):
    """What one annotator says about one row; all null before they have said anything."""

    verdict: Verdict | None = None
    reason: ReviewReason | None = None
    """Of a rejection."""
    note: Annotated[str, Field(max_length=MOST_CHARACTERS)] | None = None

    @property
    def edits(self) -> RowEdits:
        return RowEdits(**{name: getattr(self, name) for name in EDIT_FIELDS})

    def apply(self, changes: RowReview) -> RowReview:
        """Return this with those fields that `changes` was given, be it as null."""
        return self.model_copy(update={name: getattr(changes, name) for name in changes.model_fields_set})


class ReviewEntry(_Part):
    """One change, a line of a journal. `client` and `seq` name it, so that what is sent twice counts once."""

    row_id: RowId
    changes: RowReview
    client: Annotated[str, Field(pattern=r"^[0-9a-zA-Z-]{1,64}$")]
    """The browser tab or file that it came from."""
    seq: Annotated[int, Field(ge=1)]
    """Grows from change to change of a client."""

    def dump_json(self) -> str:
        """Return it as a line of a journal, without the line's end."""
        return self.model_dump_json(exclude_unset=True)


class JournalHeader(_Part):
    """First line of a journal: which build its annotator reviews."""

    format: Literal["bystander-review-journal"] = "bystander-review-journal"
    format_version: Literal[1] = 1
    dataset: str
    build: str
    build_digest: Digest
    """Of the build's rows: see `storage.build_manifest.digest_rows`."""
    annotator: str


class AnnotatorVerdict(_Part):
    """One annotator's part in a decision."""

    verdict: Verdict
    reason: ReviewReason | None = None
    note: str | None = None
    edits: RowEdits = RowEdits()


class ReviewDecision(_Part):
    """What was decided about a row: one line of `decisions.jsonl`."""

    row_id: RowId
    build_digest: Digest
    """Of the rows of the build that was reviewed: see `storage.build_manifest.digest_rows`."""
    verdict: DecidedVerdict
    reason: ReviewReason | None = None
    """Of a rejection; of several, the one that most annotators gave."""
    note: str | None = None
    edits: RowEdits = RowEdits()
    """Of a row that is accepted; empty otherwise."""
    annotators: dict[str, AnnotatorVerdict] = Field(min_length=1)
    rule: str = UNANIMOUS
    """How the verdict came about: `unanimous`, `majority`, or the annotator whose word counted."""

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if self.verdict != "accept" and self.edits.given:
            raise ValueError(f"edits are for rows that are accepted, and this one's verdict is {self.verdict}")
        if self.verdict != "reject" and self.reason is not None:
            raise ValueError(f"a reason is for rows that are rejected, and this one's verdict is {self.verdict}")
        return self

    def dump_json(self) -> str:
        """Return it as a line of `decisions.jsonl`, without the line's end."""
        return self.model_dump_json(exclude_none=True)
