"""The live display of a build in a terminal."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from bystander.schemas.rebuild import RebuildPlan
    from bystander.storage.stage_results import StageResult


class ProgressDisplay:
    """One table that is redrawn in place: rows by stage, rate and time left. Without a terminal: a line a phase."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._phase = "starting"
        self._order: list[str] = []
        self._waiting: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()
        self._reused: Counter[str] = Counter()
        self._made: Counter[str] = Counter()
        self._stream: list[str] = []
        self._made_in_stream: Counter[str] = Counter()
        self._stream_started = time.monotonic()
        self._spent: dict[str, float] = defaultdict(float)
        """Seconds of the streams so far, up to a stage's last result in each."""
        self._last: dict[str, float] = {}
        self._accepted: dict[str, int] = {}
        self._wanted: dict[str, int] = {}
        self._started = time.monotonic()
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._render, transient=False)

    def __enter__(self) -> ProgressDisplay:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def on_phase(self, phase: str) -> None:
        self._phase = phase
        if not self._console.is_terminal:
            self._console.print(f"[{self._elapsed()}] {phase}", highlight=False, markup=False)

    def on_plan(self, plan: RebuildPlan) -> None:
        for line in plan.lines:
            self._console.print(line, highlight=False, markup=False)

    def on_stream(self, stages: list[str], rows: int) -> None:
        self._order += [stage for stage in stages if stage not in self._order]
        self._stream = stages
        self._made_in_stream.clear()
        self._last.clear()
        self._stream_started = time.monotonic()
        self._waiting.clear()
        self._waiting[stages[0]] = rows

    def on_result(self, stage: str, result: StageResult, reused: bool) -> None:
        self._waiting[stage] -= result.rows_in
        self._kept[stage] += result.rows_kept
        self._rejected[stage] += result.rows_rejected
        at = self._stream.index(stage)
        if at + 1 < len(self._stream):
            self._waiting[self._stream[at + 1]] += result.rows_kept
        if reused:
            self._reused[stage] += result.rows_in
            return
        now = time.monotonic()
        self._spent[stage] += now - self._last.get(stage, self._stream_started)
        self._last[stage] = now
        self._made[stage] += result.rows_in
        self._made_in_stream[stage] += result.rows_in

    def on_accepted(self, accepted: dict[str, int], wanted: dict[str, int]) -> None:
        self._accepted, self._wanted = accepted, wanted
        if not self._console.is_terminal:
            counts = ", ".join(f"{label} {accepted.get(label, 0)} of {count}" for label, count in wanted.items())
            self._console.print(f"[{self._elapsed()}] finished rows: {counts}", highlight=False, markup=False)

    def _elapsed(self) -> str:
        return time.strftime("%H:%M:%S", time.gmtime(time.monotonic() - self._started))

    def _estimate_left_s(self) -> float | None:
        """Return the seconds until the rows under way are through, or None before anything was made.

        All stages work at once, so the slowest decides: the rows that are yet to pass a stage, over its rate so far.
        """
        spent = time.monotonic() - self._stream_started
        ahead = 0
        needs = []
        for stage in self._stream:
            ahead += max(0, self._waiting[stage])
            if self._made_in_stream[stage]:
                needs.append(ahead * spent / self._made_in_stream[stage])
        return max(needs, default=None)

    def _render(self) -> Group:
        table = Table(box=None, pad_edge=False)
        table.add_column("stage")
        for name in ("accepted", "rejected", "reused", "waiting", "rows/s"):
            table.add_column(name, justify="right")
        for stage in self._order:
            made, spent = self._made[stage], self._spent[stage]
            table.add_row(
                stage,
                *(str(n) for n in (self._kept[stage], self._rejected[stage], self._reused[stage])),
                str(max(0, self._waiting[stage])),
                f"{made / spent:.2f}" if made and spent > 0 else "",
            )
        finished = sum(min(self._accepted.get(label, 0), count) for label, count in self._wanted.items())
        rows = f"{finished} of {sum(self._wanted.values())} rows finished"
        left_s = self._estimate_left_s()
        left = f", about {_say_duration(left_s)} left in this round" if left_s else ""
        counted = f"  ({rows}{left})" if self._wanted else ""
        return Group(Text(f"{self._elapsed()}  {self._phase}{counted}"), table)


def _say_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
