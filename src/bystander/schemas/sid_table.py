"""The tables of an evaluation of interruption detection before they are written as Markdown or HTML."""

from __future__ import annotations

from dataclasses import dataclass

from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.sid_evaluation import AVERAGE, NOISE_SILENCE

GROUP_TITLES = {"en": "EN", "zh": "ZH", NOISE_SILENCE: "Noise & silence", AVERAGE: "Average"}


def name_group(group: str) -> str:
    """Return the head of a group's columns."""
    return GROUP_TITLES.get(group, group.upper())


def show_seconds(value: float | None) -> str:
    """Return a figure with three decimals, as the SID paper has them; a dash where there is none."""
    return "–" if value is None else f"{round(value, 3) + 0.0:.3f}"


@dataclass(frozen=True, slots=True)
class SidColumn:
    """A score of a group, as Table II of the SID paper has them: lower is better in all."""

    group: str
    metric: str
    """irl, fir or apt."""

    @property
    def title(self) -> str:
        return f"{self.metric.upper()} ↓"


@dataclass(frozen=True, slots=True)
class SidCell:
    """A figure; `best` says that no other system that was measured here has a lower one."""

    estimate: Estimate | None
    best: bool = False

    @property
    def text(self) -> str:
        return show_seconds(self.estimate.mean if self.estimate else None)


@dataclass(frozen=True, slots=True)
class SidRow:
    """A system; a `published` one was measured by others, on another bench."""

    system: str
    cells: tuple[SidCell, ...]
    published: bool = False


@dataclass(frozen=True, slots=True)
class AlarmRow:
    """A row in the form of Table III: false alarms and APT on silence and on noise; None where there is no clip."""

    system: str
    silence_alarms: int | None
    silence_apt: float | None
    noise_alarms: int | None
    noise_apt: float | None
    capped: tuple[float | None, float | None] | None = None
    """APT on silence and noise with the cap, where one was asked for."""
    published: bool = False


@dataclass(frozen=True, slots=True)
class SidTables:
    """Both tables, and what is to be said below them, a sentence each."""

    columns: tuple[SidColumn, ...]
    rows: tuple[SidRow, ...]
    alarms: tuple[AlarmRow, ...]
    notes: tuple[str, ...]
