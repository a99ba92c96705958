"""What a rebuild would reuse and redo, stage by stage, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FieldChange(_Frozen):
    """A field that has another value than before; see `description_changes.Change`."""

    field: str
    """Dotted, such as `params.max_words` or `prompts.write_reply.template`."""
    before: str
    after: str
    sentence: str


class StageForecast(_Frozen):
    """Rows that go into a stage, by what becomes of them."""

    stage: str
    reused: int = 0
    """A stored result is found for them."""
    regrouped: int = 0
    """Nothing that decides them has changed, but they lie beside other rows now: the stage is run again, and whatever
    it asks a model is remembered."""
    redone: int = 0
    """The earlier build has them, made in another way."""
    new: int = 0
    """The earlier build does not have them."""
    exact: bool = True
    """False where it depends on what stages before it will make of their rows: then as if these made what they made in
    the earlier build, and of new rows what they made of ones like them."""
    causes: tuple[FieldChange, ...] = ()
    """What has changed in what decides the stage's results."""
    follows: dict[str, str] = Field(default_factory=dict)
    """Columns that it reads and that a stage before it makes anew, each with that stage. If they come out as they were,
    the stage is not redone."""

    @property
    def rows(self) -> int:
        return self.reused + self.regrouped + self.redone + self.new

    @property
    def made(self) -> int:
        """Rows that the stage is run for."""
        return self.rows - self.reused

    def as_row(self) -> dict[str, str]:
        """Return the counts and the reasons as the cells of a table; counts that are not certain begin with a tilde."""
        about = "" if self.exact else "~"
        counts = {name: getattr(self, name) for name in ("reused", "regrouped", "redone", "new")}
        cells = {name: f"{about}{count:,}" if count else "" for name, count in counts.items()}
        return {"stage": self.stage, **cells, "why": _name_some(self.reasons, "; ")}

    @property
    def sentence(self) -> str:
        """The counts and the reasons in one line."""
        cells = self.as_row()
        counts = ", ".join(f"{cells[name]} {name}" for name in ("reused", "regrouped", "redone", "new") if cells[name])
        return f"{self.stage}: {counts or 'no rows'}" + (f" ({cells['why']})" if cells["why"] else "")

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, a phrase each; none where all is reused."""
        if self.rows and not self.made:
            return ()
        reasons = [cause.sentence for cause in self.causes] if self.redone or self.new or not self.rows else []
        by_stage: dict[str, list[str]] = {}
        for column, stage in self.follows.items():
            by_stage.setdefault(stage, []).append(column)
        if self.redone and not self.causes:
            reasons += [f"{_name_some(columns)} made anew by {stage}" for stage, columns in by_stage.items()]
        if self.regrouped:
            reasons.append("other rows beside them")
        if self.new:
            reasons.append("rows not seen before")
        return tuple(reasons)


def _name_some(names: Sequence[str], separator: str = ", ") -> str:
    shown = separator.join(names[:_MOST_NAMED])
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED} more"


_MOST_NAMED = 4

Verdict = Literal["nothing_new", "published_anew", "rebuilt"]


class RebuildPlan(_Frozen):
    """What a build would reuse and redo, beside an earlier one."""

    dataset: str
    build: str
    against: str | None = None
    """Name of the build that it is compared with."""
    against_because: str = ""
    stages: tuple[StageForecast, ...] = ()
    verdict: Verdict = "rebuilt"
    """`nothing_new`: the build is published as it would be made. `published_anew`: every stage's results are there, and
    only the files are written again. `rebuilt`: some stage is run."""
    changes: tuple[FieldChange, ...] = ()
    """Where the files are written again: what has changed in the configuration, the code or the pack."""
    notes: tuple[str, ...] = ()

    @property
    def made(self) -> int:
        """Rows that stages are run for, summed over the stages."""
        return sum(stage.made for stage in self.stages)

    @property
    def headline(self) -> str:
        """The plan in one sentence."""
        beside = f"beside {self.against} ({self.against_because})" if self.against else self.against_because
        if self.verdict == "nothing_new":
            return f"{self.dataset}/{self.build}: nothing new, all is there already"
        if self.verdict == "published_anew":
            why = "; ".join(change.sentence for change in self.changes)
            return f"{self.dataset}/{self.build}, {beside}: no stage is run, the files are written" + (
                f" anew: {why}" if why else ""
            )
        counts = {
            "reused": sum(stage.reused for stage in self.stages),
            "regrouped": sum(stage.regrouped for stage in self.stages),
            "redone": sum(stage.redone for stage in self.stages),
            "new": sum(stage.new for stage in self.stages),
        }
        rows = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        return f"{self.dataset}/{self.build}, {beside}: rows through all stages: {rows or 'none yet'}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The plan for a log: the headline, the stages that are run, notes."""
        return (self.headline, *(stage.sentence for stage in self.stages if stage.reasons), *self.notes)
