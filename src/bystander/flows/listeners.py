"""Who is told how a build goes on: a terminal display, Prefect's progress artifact, or nobody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from bystander.schemas.rebuild import RebuildPlan
from bystander.storage.stage_results import StageResult


class BuildListener(Protocol):
    """Is called from the flow's own thread, in order."""

    def on_phase(self, phase: str) -> None:
        """A new part of the build begins, e.g. `wave 2: 40 candidates`."""
        ...

    def on_plan(self, plan: RebuildPlan) -> None:
        """What is reused and what is redone, before the first call."""
        ...

    def on_stream(self, stages: list[str], rows: int) -> None:
        """`rows` rows start through `stages`."""
        ...

    def on_result(self, stage: str, result: StageResult, reused: bool) -> None:
        """A stage is through with a partition; `reused` when it had been before."""
        ...

    def on_accepted(self, accepted: dict[str, int], wanted: dict[str, int]) -> None:
        """Finished rows so far and rows wanted, by label."""
        ...


class SilentListener:
    """Listens to nothing."""

    def on_phase(self, phase: str) -> None: ...

    def on_plan(self, plan: RebuildPlan) -> None: ...

    def on_stream(self, stages: list[str], rows: int) -> None: ...

    def on_result(self, stage: str, result: StageResult, reused: bool) -> None: ...

    def on_accepted(self, accepted: dict[str, int], wanted: dict[str, int]) -> None: ...


_listener: ContextVar[BuildListener | None] = ContextVar("bystander_build_listener", default=None)


def current_listener() -> BuildListener:
    """Return the listener of this context."""
    return _listener.get() or SilentListener()


@contextmanager
def listening(listener: BuildListener) -> Iterator[None]:
    """Let `listener` hear of the builds that run in this block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
