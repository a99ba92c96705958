"""The configuration of an evaluation on TPI-Bench."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, model_validator

from bystander.schemas.evaluation import TESTS, TestName
from bystander.schemas.evaluation_settings import EvaluationConfig, JudgeParams, check_names
from bystander.schemas.field_types import MAX_ROWS
from bystander.schemas.recogniser_configs import VerifierConfig
from bystander.schemas.stages import Params


class AnswerClips(Params):
    """`answer_clips`: nothing to set beyond the candidate itself."""


class JudgeReplies(JudgeParams):
    """`judge_replies`: one call a rubric."""

    max_answer_characters: int = Field(6000, ge=100, le=8000)
    """Longer answers are cut to this for the judge, who is told so."""


class EvaluationStages(Params):
    """Settings of the stages of an evaluation."""

    answer_clips: AnswerClips = AnswerClips()
    judge_replies: JudgeReplies = JudgeReplies()


class Ratings(Params):
    """Scores that people gave, to hold the judges against: JSONL, CSV or Parquet with `id`, `system`, `rsf`, `oh`."""

    path: str
    name: str = "people"


class ControlsConfig(Params):
    """What tells twins apart without being an assistant; see `evaluation_scores.Control`."""

    transcript_classifier: bool = True
    """A small text classifier, cross-validated by pair, on the transcript alone."""
    transcript_judges: bool = False
    """Each judge, asked whether one or two people speak, from the transcript alone."""
    verifier: VerifierConfig | None = None
    """Hears the clip: similarity of the voices of its segments. Null leaves the acoustic control out."""


class EvaluateTpiConfig(EvaluationConfig):
    """All that decides an evaluation on TPI-Bench."""

    NAME_PREFIX: ClassVar[str] = "evaluation"

    bench: str = ""
    """Folder or URL of a finished build with two-speaker rows, one-speaker rows or both."""
    tests: tuple[TestName, ...] = TESTS
    rows: int | None = Field(None, ge=1, le=MAX_ROWS)
    """Only so many rows of each test, linked pairs first; null for all."""
    pack: str | None = None
    """Whose strategy and rubrics apply: name or folder. Null for the pack that the bench was built with."""
    ratings: tuple[Ratings, ...] = ()
    embeddings: dict[str, str] = Field(default_factory=dict)
    """System to a `.npy` file of shape (rows, d), in the order of the bench's rows."""
    controls: ControlsConfig = ControlsConfig()
    worst_examples: int = Field(8, ge=0, le=10_000)
    stages: EvaluationStages = EvaluationStages()

    @model_validator(mode="after")
    def _names_fit_together(self) -> EvaluateTpiConfig:
        if not self.tests:
            raise ValueError("tests: name tpi_test, janus_test or both")
        unknown = sorted(set(self.embeddings) - set(self.systems))
        if unknown:
            raise ValueError(
                f"embeddings: no system {', '.join(unknown)}; there are {', '.join(self.systems) or 'none'}"
            )
        people = [ratings.name for ratings in self.ratings]
        check_names(people)
        raters = [*self.judges, *people]
        if twice := sorted({name for name in raters if raters.count(name) > 1}):
            raise ValueError(f"judges and ratings: {', '.join(twice)} stands for two; give each a name of its own")
        return self
