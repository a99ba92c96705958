"""How the engines of a job were used, counted in several processes and added up in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bystander.tasks.engines.metered_detector import ComputeTotals


@dataclass(frozen=True, slots=True)
class EngineUse:
    """Calls by role, each as (made, remembered), and what the detector computed (None: there is none)."""

    calls: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    compute: ComputeTotals | None = None

    def __add__(self, other: EngineUse) -> EngineUse:
        return self._combine(other, 1)

    def __sub__(self, other: EngineUse) -> EngineUse:
        return self._combine(other, -1)

    def _combine(self, other: EngineUse, sign: int) -> EngineUse:
        calls = {
            role: (
                self.calls.get(role, (0, 0))[0] + sign * other.calls.get(role, (0, 0))[0],
                self.calls.get(role, (0, 0))[1] + sign * other.calls.get(role, (0, 0))[1],
            )
            for role in sorted({*self.calls, *other.calls})
        }
        if self.compute is None and other.compute is None:
            return EngineUse(calls)
        one, two = self.compute or ComputeTotals(), other.compute or ComputeTotals()
        return EngineUse(
            calls,
            ComputeTotals(
                one.clips + sign * two.clips,
                one.heard_s + sign * two.heard_s,
                one.compute_s + sign * two.compute_s,
            ),
        )


class UseLedger:
    """Keeps apart what was told on and what was heard, so that nothing counts twice. Not for several threads."""

    def __init__(self) -> None:
        self._taken = EngineUse()
        self._added = EngineUse()

    def take(self, measured: EngineUse) -> EngineUse:
        """Return what of `measured`, all that was counted here, was not taken before."""
        use = measured - self._taken
        self._taken = measured
        return use

    def add(self, use: EngineUse) -> None:
        """Count what was taken, here or elsewhere."""
        self._added += use

    def total(self, measured: EngineUse) -> EngineUse:
        """Return all use: what was counted here and not taken, and what was added."""
        return measured - self._taken + self._added
