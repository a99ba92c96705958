"""The headline table of an evaluation before it is written as Markdown, CSV, JSON or HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bystander.schemas.evaluation import TestName
from bystander.schemas.evaluation_scores import Comparison, Estimate

TableStyle = Literal["markdown", "csv", "json"]

TABLE_FILES: Mapping[str, TableStyle] = {"table.md": "markdown", "table.csv": "csv", "table.json": "json"}
"""Files of the table in an evaluation's folder."""

TEST_TITLES: dict[TestName, str] = {"tpi_test": "TPI-Test", "janus_test": "Janus-Test"}

DIGITS = 2
"""Decimals of a figure that people read."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A score: its key (`tpi_test.rsf`, `bleu`), its heads, its range, and which direction is better."""

    key: str
    group: str
    title: str
    lowest: float
    highest: float
    higher_is_better: bool

    @property
    def arrow(self) -> str:
        """The direction that is better."""
        return "↑" if self.higher_is_better else "↓"

    @property
    def head(self) -> str:
        """The whole head, such as `TPI-Test RSF ↑`."""
        return f"{self.group} {self.title} {self.arrow}".strip()


@dataclass(frozen=True, slots=True)
class TableCell:
    """A mean and what stands behind it. `best` says that no other system under the same judge has a better one."""

    estimate: Estimate
    missing: int = 0
    unparsable: int = 0
    best: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """A system under a judge. A `published` one was measured by others, on another bench, and has no judge here."""

    system: str
    judge: str
    cells: tuple[TableCell, ...]
    """One for each column of the table, in their order."""
    published: bool = False


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The rows of all systems. `source` is the line that tells where published rows are from; empty without any."""

    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    source: str = ""
    source_address: str = ""

    @property
    def has_several_judges(self) -> bool:
        return len({row.judge for row in self.rows if not row.published}) > 1


@dataclass(frozen=True, slots=True)
class AdjustedComparison:
    """A comparison with its p after Holm's correction for all pairs of systems under the same judge, test and metric.

    `stars` are * for an adjusted p below 0.05, ** below 0.01, *** below 0.001, else empty.
    """

    comparison: Comparison
    adjusted_p: float
    stars: str


def show_figure(value: float | None) -> str:
    """Return a figure with two decimals, never `-0.00`; a dash where there is none."""
    return "–" if value is None else f"{round(value, DIGITS) + 0.0:.{DIGITS}f}"


def show_p(p: float) -> str:
    """Return `= 0.012`, or `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"
