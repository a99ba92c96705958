"""The live display of a build in a terminal."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

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
        self._spent: dict[str, tuple[float, float]] = {}
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

    def on_stream(self, stages: list[str], rows: int) -> None:
        for stage in stages:
            if stage not in self._order:
                self._order.append(stage)
        self._waiting[stages[0]] += rows

    def on_result(self, stage: str, result: StageResult, reused: bool) -> None:
        now = time.monotonic()
        first, _ = self._spent.get(stage, (now, now))
        self._spent[stage] = (first, now)
        self._waiting[stage] -= result.rows_in
        self._kept[stage] += result.rows_kept
        self._rejected[stage] += result.rows_rejected
        if reused:
            self._reused[stage] += result.rows_in
        at = self._order.index(stage) if stage in self._order else -1
        if 0 <= at < len(self._order) - 1:
            self._waiting[self._order[at + 1]] += result.rows_kept

    def on_accepted(self, accepted: dict[str, int], wanted: dict[str, int]) -> None:
        self._accepted, self._wanted = accepted, wanted
        if not self._console.is_terminal:
            counts = ", ".join(f"{label} {accepted.get(label, 0)} of {count}" for label, count in wanted.items())
            self._console.print(f"[{self._elapsed()}] finished rows: {counts}", highlight=False, markup=False)

    def _elapsed(self) -> str:
        return time.strftime("%H:%M:%S", time.gmtime(time.monotonic() - self._started))

    def _render(self) -> Group:
        table = Table(box=None, pad_edge=False)
        table.add_column("stage")
        for name in ("accepted", "rejected", "reused", "waiting", "rows/s"):
            table.add_column(name, justify="right")
        for stage in self._order:
            _, last = self._spent.get(stage, (0.0, 0.0))
            done = self._kept[stage] + self._rejected[stage]
            rate = f"{done / (last - self._started):.2f}" if done and last > self._started else ""
            table.add_row(
                stage,
                *(str(n) for n in (self._kept[stage], self._rejected[stage], self._reused[stage])),
                str(max(0, self._waiting[stage])),
                rate,
            )
        finished = sum(min(self._accepted.get(label, 0), count) for label, count in self._wanted.items())
        wanted = sum(self._wanted.values())
        elapsed = time.monotonic() - self._started
        left = f", about {elapsed / finished * (wanted - finished) / 60:.0f} min left" if 0 < finished < wanted else ""
        return Group(Text(f"{self._elapsed()}  {self._phase}  ({finished} of {wanted} rows finished{left})"), table)
