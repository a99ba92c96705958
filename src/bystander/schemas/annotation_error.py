"""How far a build's own annotation is from the truth, where the truth is known."""

from __future__ import annotations

from pydantic import Field

from bystander.schemas.stages import Params


class AnnotationError(Params):
    """The annotation of synthetic rows of a language or category (null: of all) held against what is known of them.

    `tag_right` are rows whose break is at the right word, or rightly absent. Of the others, `break_missed` have a break
    where none was found, `break_invented` none where one was found, and `wrong_word` another word.

    The times are absolute differences between found and true break time, in milliseconds, over rows that rightly have
    one and were tagged at the right word; `bias_ms` is the mean of found minus true; None where there is no such row.
    """

    language: str | None = None
    category: str | None = None
    """The true category."""
    rows: int = Field(ge=0)
    tag_right: int = Field(ge=0)
    break_missed: int = Field(ge=0)
    break_invented: int = Field(ge=0)
    wrong_word: int = Field(ge=0)
    timed: int = Field(ge=0)
    """Rows that the times are of."""
    median_ms: float | None = None
    p90_ms: float | None = None
    bias_ms: float | None = None
    within_20_ms: float | None = None
    """Shares, in [0, 1]."""
    within_50_ms: float | None = None
    within_100_ms: float | None = None

    @property
    def tag_accuracy(self) -> float | None:
        """Share of rows tagged rightly."""
        return self.tag_right / self.rows if self.rows else None
