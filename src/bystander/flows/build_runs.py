"""What the flows of all builds have around their work: checks, a lock, repairs, and how a build ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

from bystander.flows.flow_runs import run_with_repairs
from bystander.flows.listeners import current_listener
from bystander.flows.prefect_listener import PrefectListener
from bystander.flows.stage_workers import stage_workers
from bystander.schemas.build_config import BuildConfig
from bystander.schemas.stage_job import StageJob
from bystander.storage.build_lock import lock_build
from bystander.storage.build_manifest import ManifestBase
from bystander.tasks.environment import StageEnvironment, close_environments, open_environment

Manifest = TypeVar("Manifest", bound=ManifestBase)


@dataclass(frozen=True, slots=True)
class BuildOutcome(Generic[Manifest]):
    """A finished build: where it is, its manifest, and what a person wants to hear of it, a sentence a line."""

    location: str
    manifest: Manifest
    summary: tuple[str, ...]


_releases: ContextVar[tuple[str, ...]] = ContextVar("bystander_releases", default=())


@contextmanager
def accepting_releases(builds: tuple[str, ...]) -> Iterator[None]:
    """Let what is built in this block be one of these builds of its dataset instead, if it is made of just the same."""
    token = _releases.set(builds)
    try:
        yield
    finally:
        _releases.reset(token)


def list_accepted() -> tuple[str, ...]:
    """Return the builds that what is built here may be instead; see `accepting_releases`."""
    return _releases.get()


def run_build(
    config: BuildConfig,
    job: StageJob,
    prepare: Callable[[StageEnvironment], Callable[[PrefectListener], BuildOutcome[Manifest]]],
) -> BuildOutcome[Manifest]:
    """Make a build inside a Prefect flow, alone at its place, and start over where a part is damaged.

    Args:
        config: what is built.
        job: what its workers need.
        prepare: opens and checks the engines, once, and returns one pass over the build.

    Raises:
        BuildError: there is not a single row to publish, or another process is making this build.
    """
    listener = PrefectListener(current_listener(), config.dataset)
    environment = open_environment(job)
    environment.also_published = list_accepted()
    try:
        make = prepare(environment)

        def build_once() -> BuildOutcome[Manifest]:
            outcome = make(listener)
            listener.publish(outcome.manifest, outcome.summary, outcome.location)
            return outcome

        with stage_workers(config), lock_build(environment.store, config.dataset, config.build_name) as lock:
            environment.assert_alone = lock.assert_held
            return run_with_repairs(build_once, environment.store, listener, "rebuilding a damaged part")
    finally:
        close_environments()
