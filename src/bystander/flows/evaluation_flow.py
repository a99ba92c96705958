"""What the flows that score systems share: one process at a time, starting over, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from bystander.flows.flow_runs import run_with_repairs
from bystander.flows.listeners import BuildListener, current_listener
from bystander.flows.partition_stream import Journey
from bystander.flows.prefect_listener import PrefectListener
from bystander.flows.replaced_outcome import tell_replaced
from bystander.flows.stage_workers import stage_workers
from bystander.schemas.evaluation_settings import EvaluationSettings
from bystander.storage.build_lock import lock_build
from bystander.storage.evaluation_manifest import EVALUATIONS, find_scores
from bystander.storage.filesystem import Store, open_store
from bystander.storage.part_use import record_part_use
from bystander.tasks.environment import close_environments

Scores = TypeVar("Scores", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class EvaluationOutcome(Generic[Scores]):
    """A finished evaluation: where it is, its figures, and what a person wants to hear of it, a sentence a line."""

    location: str
    scores: Scores
    summary: tuple[str, ...]


def run_evaluation(
    config: EvaluationSettings, run: Callable[[Store, BuildListener], EvaluationOutcome[Scores]]
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
        with stage_workers(config), lock_build(store, EVALUATIONS, config.evaluation_name):
            return run_with_repairs(run_once, store, listener, "making a damaged part again")
    finally:
        close_environments()


def find_published(
    store: Store,
    config: EvaluationSettings,
    listener: BuildListener,
    journeys: Iterable[Sequence[Journey]],
    content_digest: str,
    kind: type[Scores],
) -> Scores | None:
    """Record which stored parts an evaluation is made of, and return its scores if it lies published from the same."""
    results = (result for part in journeys for journey in part for result in journey.results)
    record_part_use(store, EVALUATIONS, config.evaluation_name, results)
    folder = store.child(EVALUATIONS, config.evaluation_name)
    scores = find_scores(folder, content_digest, kind)
    if scores is not None:
        listener.on_phase("nothing new: the published evaluation is made of just this")
    else:
        tell_replaced(folder, listener.on_phase)
    return scores
