"""Says in a log how a build goes on: what a run shows whose terminal nobody watches."""

from __future__ import annotations

import logging

from bystander.flows.listeners import SilentListener
from bystander.schemas.rebuild import RebuildPlan


class LogListener(SilentListener):
    """Logs the plan, each phase, and the finished rows after each stream of partitions."""

    def __init__(self, log: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> None:
        self._log = log

    def on_phase(self, phase: str) -> None:
        self._log.info(phase)

    def on_plan(self, plan: RebuildPlan) -> None:
        for line in plan.lines:
            self._log.info(line)

    def on_accepted(self, accepted: dict[str, int], wanted: dict[str, int]) -> None:
        rows = ", ".join(f"{label} {accepted.get(label, 0)} of {count}" for label, count in wanted.items())
        self._log.info("finished rows: %s", rows)
