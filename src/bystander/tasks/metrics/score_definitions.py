"""What each score of the evaluation ranges over, and which direction is better, as data for policies and tables."""

from __future__ import annotations

from dataclasses import dataclass

from bystander.schemas.evaluation import TestName


@dataclass(frozen=True, slots=True)
class ScoreDefinition:
    """A score: its key, its name in tables, the set it belongs to (None: twin pairs), its range and direction.

    `whole` says that single scores are whole numbers (a judge's verdict); means are not.
    """

    key: str
    title: str
    bench_set: TestName | None
    lowest: float
    highest: float
    whole: bool
    higher_is_better: bool

    @property
    def arrow(self) -> str:
        """The direction that is better, as it stands in a table's head."""
        return "↑" if self.higher_is_better else "↓"

    @property
    def worst(self) -> float:
        """The score that speaks most against a system."""
        return self.lowest if self.higher_is_better else self.highest

    @property
    def best(self) -> float:
        """The score that a perfect system gets."""
        return self.highest if self.higher_is_better else self.lowest

    def accepts(self, score: float) -> bool:
        """Whether a single row can have this score."""
        return self.lowest <= score <= self.highest and (not self.whole or float(score).is_integer())


RSF_TPI_TEST = ScoreDefinition("tpi_test.rsf", "RSF", "tpi_test", 0, 1, whole=True, higher_is_better=True)
"""Response strategy following: 1 where the reply follows the policy of the row's label."""

OH_TPI_TEST = ScoreDefinition("tpi_test.oh", "OH", "tpi_test", 1, 5, whole=True, higher_is_better=True)
"""Overall helpfulness of the reply to two speakers."""

RSF_JANUS_TEST = ScoreDefinition("janus_test.rsf", "RSF", "janus_test", 0, 1, whole=True, higher_is_better=False)
"""1 where the reply wrongly infers an interruption from one speaker."""

OH_JANUS_TEST = ScoreDefinition("janus_test.oh", "OH", "janus_test", 1, 5, whole=True, higher_is_better=True)
"""Overall helpfulness of the reply to one speaker."""

BLEU = ScoreDefinition("bleu", "BLEU", None, 0, 1, whole=False, higher_is_better=False)
"""Likeness of the replies to two twins: a system that hears the difference replies differently."""

ROUGE_L = ScoreDefinition("rouge_l", "ROUGE-L", None, 0, 1, whole=False, higher_is_better=False)
"""As BLEU, by the longest common subsequence."""

TABLE_SCORES = (RSF_TPI_TEST, OH_TPI_TEST, RSF_JANUS_TEST, OH_JANUS_TEST, BLEU, ROUGE_L)
"""The columns of a table of systems, in the order of Table 2 of the TPI paper (arXiv:2604.17358)."""

SCORES_BY_KEY = {definition.key: definition for definition in TABLE_SCORES}
