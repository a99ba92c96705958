"""Releases: a build under a dated name, verified, and only then pointed to as the dataset's latest one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Generic, TypeVar

from bystander.flows.build_runs import BuildOutcome, Manifest, accepting_releases
from bystander.flows.listeners import current_listener
from bystander.schemas.build_config import BuildConfig
from bystander.schemas.errors import BuildError, ConfigError
from bystander.storage.build_lock import BuildLock, lock_dataset
from bystander.storage.filesystem import Store, open_store
from bystander.storage.release_folders import begin_release, give_up_folder, parse_release_date, write_mark
from bystander.storage.releases import Release, move_latest, read_latest
from bystander.tasks.check_build import check_build, tell_findings

Config = TypeVar("Config", bound=BuildConfig)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReleaseOutcome(Generic[Manifest]):
    """What came of a release: as `BuildOutcome`, of the new build or of the one that is released already."""

    location: str
    manifest: Manifest
    summary: tuple[str, ...]
    is_new: bool
    """Whether a build was made and `latest` moved to it."""
    release: Release
    """What `latest.json` says now."""


def release_build(
    config: Config, run: Callable[[Config], BuildOutcome[Manifest]], dated: date | str, quick: bool = False
) -> ReleaseOutcome[Manifest]:
    """Make a build under a dated name, verify it, and point the dataset's `latest` to it.

    Where the latest release is made of just the same, nothing is written and nothing moves. The date decides the name
    of a folder, never a row: `2026-11-30`, and `2026-11-30.2` for a second one of that day. A run that was killed or
    cancelled is gone on with, in the same folder, by the next one of the same date.

    Args:
        config: what is built; it names no `build`.
        run: makes a build, one of `run_build_tpi_train`, `run_build_tpi_bench`, `run_build_sid_bench` and
            `run_build_sid_train`.
        dated: the date, or `YYYY-MM-DD`: when the run was scheduled for, or today.
        quick: decode only a sample of the clips when the build is verified.

    Raises:
        ConfigError: the configuration names a build, or `dated` is no date.
        UserError: the configuration, an input file, a pack, an engine's set-up is wrong.
        BuildError: the build failed verification, which leaves it where it is, marked as refused, and `latest` where it
            was; there is not a single row; or another process makes a release of this dataset.
    """
    if config.build is not None:
        raise ConfigError(f"build {config.build!r}: a release is named by its date; leave the name out")
    day = parse_release_date(dated)
    store = open_store(config.store)
    with lock_dataset(store, config.dataset) as lock:
        before = read_latest(store, config.dataset)
        known = (before.build, *before.withdrawn) if before is not None else ()
        name = begin_release(store, config.dataset, day)
        with accepting_releases(known):
            outcome = run(config.model_copy(update={"build": name}))
        if before is not None and outcome.manifest.build in known:
            give_up_folder(store.child(config.dataset, name))
            return _tell_nothing_new(outcome, before)
        return _publish(store, outcome, lock, quick)


def _tell_nothing_new(outcome: BuildOutcome[Manifest], latest: Release) -> ReleaseOutcome[Manifest]:
    found = outcome.manifest
    if found.build == latest.build:
        line = f"nothing new: {found.dataset}/{found.build} is made of just this; latest stays where it is."
    else:
        line = (
            f"nothing new: {found.dataset}/{found.build} is made of just this, and was withdrawn; latest stays at "
            f"{latest.build}."
        )
    return ReleaseOutcome(outcome.location, found, (line, *outcome.summary), False, latest)


def _publish(store: Store, outcome: BuildOutcome[Manifest], lock: BuildLock, quick: bool) -> ReleaseOutcome[Manifest]:
    manifest = outcome.manifest
    folder = store.child(manifest.dataset, manifest.build)
    current_listener().on_phase(f"verifying {manifest.build}")
    checked = check_build(folder, quick)
    for notice in checked.notices:
        _log.warning("%s", notice)
    lock.assert_held()
    findings = [str(finding) for finding in checked.findings]
    if findings:
        write_mark(folder, "refused", findings)
        raise BuildError(
            f"{outcome.location}: is not released, and latest stays where it was; {tell_findings(findings)} The build "
            "stays there to be looked at, and the next one gets another name"
        )
    release = move_latest(store, manifest.dataset, manifest.build, manifest.content_digest)
    write_mark(folder, "released")
    line = f"released: {manifest.dataset}/latest is {manifest.build}, which was verified."
    return ReleaseOutcome(outcome.location, manifest, (*outcome.summary, line), True, release)
