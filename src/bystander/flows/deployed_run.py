"""What the runs of all deployments have around their work: checks, retries, their turn, a release, and how they end.

The run that Prefect schedules is this one; the build or evaluation itself is a run below it. It ends in one line: where
the outcome lies and whether it is new, or what is wrong.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any, TypeVar

from prefect import get_run_logger, runtime
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from bystander.flows.build_runs import BuildOutcome
from bystander.flows.dataset_turn import dataset_turn
from bystander.flows.evaluation_flow import EvaluationOutcome
from bystander.flows.listeners import listening
from bystander.flows.log_listener import LogListener
from bystander.flows.release import ReleaseOutcome, release_build
from bystander.flows.release_date import find_release_date
from bystander.flows.run_log import leave_out_told_failures, quiet_user_errors
from bystander.flows.run_outcome import RunOutcome, announce_release, show_outcome
from bystander.flows.run_retries import allow_retries, forgo_retries
from bystander.flows.training_run import TrainingOutcome
from bystander.schemas.build_config import BuildConfig
from bystander.schemas.deployed_builds import DeployedBuild
from bystander.schemas.deployed_run import DeployedRun, parse_run
from bystander.schemas.errors import BuildError, BystanderError, ShortBuildError, StoreUnavailableError
from bystander.schemas.evaluation_settings import EvaluationSettings
from bystander.schemas.hub_address import HUB
from bystander.schemas.training_config import TRAINED, TrainingConfig
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.evaluation_manifest import EVALUATIONS
from bystander.storage.filesystem import Store, open_store
from bystander.storage.publish_folder import check_folder, publish_to_folder
from bystander.storage.publish_hub import check_hub, publish_to_hub

PLACE_VARIABLE = "BYSTANDER_CONFIG"
"""Environment variable of a worker that names YAML files, parted as on PATH: what holds where it runs, such as the
addresses of engines. They are laid over the profile, below the files and fields of a run."""

_Run = TypeVar("_Run", bound=DeployedRun)


def name_run() -> str:
    """Return what a run is called: its deployment, and the date that it is for."""
    return f"{runtime.deployment.name or 'by hand'} {find_release_date().isoformat()}"


def run_deployed_build(
    kind: type[_Run],
    given: Any,
    check: Callable[[Any], None],
    run: Callable[[Any], BuildOutcome[Any]],
    finish: Callable[[Any, Any], Any] = lambda _, config: config,
) -> State[Any]:
    """Make the build that parameters stand for, as a release unless they say otherwise.

    Args:
        kind: the model of the parameters.
        given: the parameters, as Prefect hands them on: fields, not checked yet.
        check: raises what is wrong with a configuration.
        run: makes the build of a configuration.
        finish: from parameters and the configuration that they load to that which is built.
    """

    def work(settings: Any) -> RunOutcome:
        config = finish(settings, settings.load(_list_site_files()))
        check(config)
        _check_publishing(settings, config)
        with dataset_turn(config.store, config.dataset):
            return _build(settings, config, run)

    return _run(kind, given, work)


def run_deployed_evaluation(
    kind: type[_Run],
    given: Any,
    check: Callable[[Any], None],
    run: Callable[[Any], EvaluationOutcome[Any]],
    finish: Callable[[Any, Any], Any] = lambda _, config: config,
) -> State[Any]:
    """Make the evaluation that parameters stand for. The arguments are those of `run_deployed_build`."""

    def work(settings: Any) -> RunOutcome:
        config: EvaluationSettings = finish(settings, settings.load(_list_site_files()))
        check(config)
        folder = open_store(config.store).child(EVALUATIONS, config.evaluation_name)
        before = _read_manifest(folder)
        outcome = run(config)
        return RunOutcome(
            kind="evaluation",
            name=config.evaluation_name,
            location=outcome.location,
            summary=outcome.summary,
            is_new=_read_manifest(folder) != before,
        )

    return _run(kind, given, work)


def run_deployed_training(
    kind: type[_Run],
    given: Any,
    check: Callable[[Any], None],
    run: Callable[[Any], TrainingOutcome],
    finish: Callable[[Any, Any], Any] = lambda _, config: config,
) -> State[Any]:
    """Make the training that parameters stand for; a retry goes on from its last checkpoint.

    The arguments are those of `run_deployed_build`. Trainings of one name in one store take turns.
    """

    def work(settings: Any) -> RunOutcome:
        config: TrainingConfig = finish(settings, settings.load(_list_site_files()))
        check(config)
        with dataset_turn(config.store, f"{TRAINED}-{config.training_name}"):
            outcome = run(config)
            return RunOutcome(
                kind="training",
                name=config.training_name,
                location=outcome.location,
                summary=outcome.summary,
                is_new=outcome.is_new,
            )

    return _run(kind, given, work)


def _build(settings: DeployedBuild, config: BuildConfig, run: Callable[[Any], BuildOutcome[Any]]) -> RunOutcome:
    if settings.release:
        released = release_build(config, run, find_release_date())
        outcome = RunOutcome(
            kind="build",
            name=config.dataset,
            location=released.location,
            summary=released.summary,
            is_new=released.is_new,
            rows=released.manifest.counts.rows,
            latest=released.release.build,
        )
        if released.is_new:
            announce_release(config, outcome)  # before it is published, which may fail and would not be new next time
        outcome = dataclasses.replace(outcome, summary=(*outcome.summary, *_publish(settings, released)))
        made = released.manifest
    else:
        folder = open_store(config.store).child(config.dataset, config.build_name)
        before = _read_manifest(folder)
        built = run(config)
        made = built.manifest
        outcome = RunOutcome(
            kind="build",
            name=config.dataset,
            location=built.location,
            summary=built.summary,
            is_new=_read_manifest(folder) != before,
            rows=made.counts.rows,
        )
    if settings.require_all and made.shortfalls:
        raise ShortBuildError(f"{outcome.location}: has fewer rows than were asked for, and all are required")
    return outcome


def _check_publishing(settings: DeployedBuild, config: BuildConfig) -> None:
    """Find out what is wrong with the place to publish to before hours go into a build."""
    if settings.publish_to is None:
        return
    if settings.publish_to.startswith(HUB):
        check_hub(settings.publish_to)
    else:
        check_folder(settings.publish_to, (config.dataset,), write=True)


def _publish(settings: DeployedBuild, released: ReleaseOutcome[Any]) -> tuple[str, ...]:
    """Publish the latest release where the parameters say, and return what a person wants to hear of it.

    So does a run with nothing new, since the one before may have been stopped while it published.

    Raises:
        BuildError: it is released, but cannot be published.
        StoreUnavailableError: so too, and may be published when it is tried again.
    """
    if settings.publish_to is None:
        return ()
    name = released.release.build
    build = open_store(settings.store).child(released.manifest.dataset, name)
    try:
        if settings.publish_to.startswith(HUB):
            done = publish_to_hub(build, settings.publish_to, settings.public)
        else:
            done = publish_to_folder(build, settings.publish_to)
    except BystanderError as exc:
        kind = StoreUnavailableError if exc.retryable else BuildError
        raise kind(f"released as {released.manifest.dataset}/{name}, but not published: {exc}") from exc
    return f"published: {done.location}, {done.count('put')} files of {len(done.steps)} written.", *done.notes


def _run(kind: type[_Run], given: Any, work: Callable[[_Run], RunOutcome]) -> State[Any]:
    """Check the parameters, do the work, show what came of it, and return it as a state.

    What is wrong with parameters or input is the message of a failed run, not a traceback, and is not tried again. What
    may be over in a minute is tried again, as often as the parameters say, and so is what nobody foresaw.
    """
    log = get_run_logger()
    quiet_user_errors()
    try:
        settings = parse_run(kind, given)
        allow_retries(settings.retries, settings.retry_after_s)
        with listening(LogListener(log)):
            outcome = work(settings)
    except BystanderError as exc:
        if not exc.retryable:
            forgo_retries()
        leave_out_told_failures()
        return Failed(message=str(exc))
    for line in outcome.summary:
        log.info(line)
    show_outcome(outcome)
    return Completed(message=outcome.sentence)


def _list_site_files() -> list[str]:
    return [*filter(None, os.environ.get(PLACE_VARIABLE, "").split(os.pathsep))]


def _read_manifest(folder: Store) -> bytes | None:
    """Return the manifest of a finished build or evaluation as it is written, or None where there is none."""
    return folder.read_bytes(MANIFEST_NAME) if folder.exists(MANIFEST_NAME) else None
