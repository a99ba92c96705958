"""The configuration of an evaluation on TPI-Bench."""

from __future__ import annotations

import re

from pydantic import Field, model_validator

from bystander.schemas.engine_configs import CandidateConfig, TextEngineConfig, VerifierConfig
from bystander.schemas.evaluation import TESTS, TestName
from bystander.schemas.field_types import MAX_ROWS, NAME, NAME_IN_WORDS, Name, PartitionRows, Seed, Workers
from bystander.schemas.identity import digest_json
from bystander.schemas.stages import Params


class AnswerClips(Params):
    """`answer_clips`: nothing to set beyond the candidate itself."""


class JudgeReplies(Params):
    """`judge_replies`: one call a rubric, at temperature 0."""

    max_attempts: int = Field(2, ge=1, le=5)
    """Calls before a verdict counts as unparsable, each with a new seed."""
    max_tokens: int = Field(256, ge=32)
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


class EvaluateTpiConfig(Params):
    """All that decides an evaluation. `partition_rows` and `workers` change its speed only."""

    profile: str = "custom"
    name: Name | None = None
    """Name of the evaluation's folder; without one, it is derived from the configuration."""
    bench: str = ""
    """Folder or URL of a finished build with two-speaker rows, one-speaker rows or both."""
    tests: tuple[TestName, ...] = TESTS
    rows: int | None = Field(None, ge=1, le=MAX_ROWS)
    """Only so many rows of each test, linked pairs first; null for all."""
    store: str = "bystander-store"
    """Folder or URL; the evaluation lies in `evaluations/<name>` of it."""
    seed: Seed = 0
    pack: str = "reference"
    """Whose strategy and rubrics apply: built-in name or folder."""
    systems: dict[str, CandidateConfig] = Field(default_factory=dict)
    judges: dict[str, TextEngineConfig] = Field(default_factory=dict)
    ratings: tuple[Ratings, ...] = ()
    allow_missing: bool = False
    """Whether a system may leave rows unanswered; they then count as the worst answer."""
    embeddings: dict[str, str] = Field(default_factory=dict)
    """System to a `.npy` file of shape (rows, d), in the order of the bench's rows."""
    controls: ControlsConfig = ControlsConfig()
    confidence: float = Field(0.95, gt=0, lt=1)
    resamples: int = Field(2000, ge=100, le=1_000_000)
    worst_examples: int = Field(8, ge=0, le=10_000)
    stages: EvaluationStages = EvaluationStages()
    partition_rows: PartitionRows = 64
    workers: Workers = 2

    @model_validator(mode="after")
    def _names_are_usable(self) -> EvaluateTpiConfig:
        if not self.tests:
            raise ValueError("tests: name tpi_test, janus_test or both")
        unknown = sorted(set(self.embeddings) - set(self.systems))
        if unknown:
            raise ValueError(
                f"embeddings: no system {', '.join(unknown)}; there are {', '.join(self.systems) or 'none'}"
            )
        raters = [*self.judges, *(ratings.name for ratings in self.ratings)]
        odd = [name for name in (*self.systems, *raters) if not re.fullmatch(NAME, name)]
        if odd:
            raise ValueError(f"{odd[0]!r} is no name for a system or judge: use {NAME_IN_WORDS}")
        if twice := sorted({name for name in raters if raters.count(name) > 1}):
            raise ValueError(f"judges and ratings: {', '.join(twice)} stands for two; give each a name of its own")
        files = [f"{system}.{judge}".casefold() for system in self.systems for judge in self.judges]
        if len(set(files)) < len(files):
            raise ValueError("systems and judges: two of them would share a file; give them names that differ more")
        return self

    def content_digest(self) -> str:
        """Return a digest of what decides the scores, but for the contents of the files that it names."""
        outside = {"name", "store", "workers", "partition_rows", "profile", "systems", "judges"}
        engines = [{name: engine.describe() for name, engine in named.items()} for named in (self.systems, self.judges)]
        return digest_json([self.model_dump(mode="json", exclude=outside), engines])

    @property
    def evaluation_name(self) -> str:
        return self.name or f"evaluation-{self.content_digest()[:12]}"
