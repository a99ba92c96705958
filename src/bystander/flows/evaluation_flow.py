"""What the flows that score systems share: one process at a time, starting over, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from bystander.flows.flow_runs import run_with_repairs
from bystander.flows.listeners import BuildListener, current_listener
from bystander.flows.prefect_listener import PrefectListener
from bystander.schemas.evaluation_settings import EvaluationConfig
from bystander.storage.build_lock import lock_build
from bystander.storage.evaluation_manifest import EVALUATIONS
from bystander.storage.filesystem import Store, open_store
from bystander.tasks.environment import close_environments

Scores = TypeVar("Scores")


@dataclass(frozen=True, slots=True)
class EvaluationOutcome(Generic[Scores]):
    """A finished evaluation: where it is, its figures, and what a person wants to hear of it, a sentence a line."""

    location: str
    scores: Scores
    summary: tuple[str, ...]


def run_evaluation(
    config: EvaluationConfig, run: Callable[[Store, BuildListener], EvaluationOutcome[Scores]]
) -> EvaluationOutcome[Scores]:
    """Make an evaluation in its store, `run` being one pass over it, and leave its summary in Prefect.

    Raises:
        BuildError: another process is making this evaluation.
    """
    store = open_store(config.store)
    listener = PrefectListener(current_listener(), config.evaluation_name)

    def run_once() -> EvaluationOutcome[Scores]:
        outcome = run(store, listener)
        listener.publish_summary(outcome.summary, outcome.location)
        return outcome

    try:
        with lock_build(store, EVALUATIONS, config.evaluation_name):
            return run_with_repairs(run_once, store, listener, "making a damaged part again")
    finally:
        close_environments()
