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
from bystander.schemas.errors import BuildError, UserError
from bystander.schemas.rebuild import RebuildPlan
from bystander.storage.any_manifest import AnyManifest
from bystander.storage.build_lock import lock_dataset
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.file_stamps import forget_stamps
from bystander.storage.filesystem import Store, open_store
from bystander.storage.release_folders import (
    begin_release,
    check_release,
    forget_beginning,
    give_up_folder,
    list_refused,
    name_release,
    write_mark,
)
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
    config: Config,
    run: Callable[[Config], BuildOutcome[Manifest]],
    dated: date | str,
    quick: bool = False,
    require_all: bool = False,
) -> ReleaseOutcome[Manifest]:
    """Make a build under a dated name, verify it, and point the dataset's `latest` to it.

    Where the latest release is made of just the same, nothing is written and nothing moves. The date decides the name
    of a folder, never a row: `2026-11-30`, and `2026-11-30.2` for a second one of that day. A run that was killed or
    cancelled is gone on with, in the same folder, by the next one of the same date. What would be just the same as a
    build that was refused is not made again either: that one is verified again.

    Args:
        config: what is built; it names no `build`.
        run: makes a build, one of `run_build_tpi_train`, `run_build_tpi_bench`, `run_build_sid_bench` and
            `run_build_sid_train`.
        dated: the date, or `YYYY-MM-DD`: when the run was scheduled for, or today.
        quick: decode only a sample of the clips when the build is verified.
        require_all: refuse a build that has fewer rows than were asked for.

    Raises:
        ConfigError: the configuration names a build, or `dated` is no date.
        UserError: the configuration, an input file, a pack, an engine's set-up is wrong.
        BuildError: the build failed verification, which leaves it where it is, marked as refused, and `latest` where it
            was; there is not a single row; or another process makes a release of this dataset.
    """
    day = check_release(config, dated)
    store = open_store(config.store)
    with lock_dataset(store, config.dataset) as lock:
        latest = read_latest(store, config.dataset)
        settled = (latest.build, *latest.withdrawn) if latest is not None else ()
        name = begin_release(store, config.dataset, day)
        try:
            with accepting_releases(_list_stand_ins(store, config.dataset, latest)):
                outcome = run(config.model_copy(update={"build": name}))
        except UserError:  # what a later run goes on with is kept; of a refusal at once nothing is left to go on with
            forget_beginning(store.child(config.dataset, name))
            raise
        if outcome.manifest.build != name:
            give_up_folder(store.child(config.dataset, name))
        if latest is not None and outcome.manifest.build in settled:
            return _tell_nothing_new(outcome, latest)
        _assert_fit(store, outcome, quick, require_all)
        lock.assert_held()
        return _point_to(store, outcome)


def foresee_release(
    config: Config, foresee: Callable[[Config, str | None], RebuildPlan], dated: date | str, against: str | None = None
) -> RebuildPlan:
    """Return what a release would reuse and redo, beside the latest release where no other build is named.

    Raises:
        ConfigError: the configuration names a build, or `dated` is no date.
        UserError: as the plan of a build.
    """
    day = check_release(config, dated)
    store = open_store(config.store)
    latest = read_latest(store, config.dataset)
    with accepting_releases(_list_stand_ins(store, config.dataset, latest)):
        plan = foresee(config.model_copy(update={"build": name_release(store, config.dataset, day)}), against)
    note = "Nothing was released yet: the first release is made."
    if latest is not None and plan.verdict == "nothing_new":
        note = "No release is made: one of just this is there."
    elif latest is not None:
        note = f"The latest release, {latest.build}, is made of something else: another one is made."
    return plan.model_copy(update={"notes": (*plan.notes, note)})


def _list_stand_ins(store: Store, dataset: str, latest: Release | None) -> tuple[str, ...]:
    """Return the builds that may stand in for a new release, if they are made of just the same."""
    settled = (latest.build, *latest.withdrawn) if latest is not None else ()
    return (*settled, *list_refused(store, dataset))


def _tell_nothing_new(outcome: BuildOutcome[Manifest], latest: Release) -> ReleaseOutcome[Manifest]:
    found = outcome.manifest
    line = f"nothing new: {found.dataset}/{found.build} is made of just this; latest stays where it is."
    if found.build != latest.build:
        line = (
            f"nothing new: {found.dataset}/{found.build}, which was withdrawn, is made of just this; latest stays at "
            f"{latest.build}."
        )
    return ReleaseOutcome(outcome.location, found, (line, *outcome.summary), False, latest)


def _assert_fit(store: Store, outcome: BuildOutcome[Manifest], quick: bool, require_all: bool) -> None:
    manifest = outcome.manifest
    folder = store.child(manifest.dataset, manifest.build)
    current_listener().on_phase(f"verifying {manifest.build}")
    checked = check_build(folder, quick)
    for notice in checked.notices:
        _log.warning("%s", notice)
    findings = [str(finding) for finding in checked.findings]
    if require_all and isinstance(manifest, AnyManifest) and (short := manifest.shortfalls):
        findings.append(f"{MANIFEST_NAME}: {len(short)} of the targets are short, and all rows were asked for.")
    if not findings:
        return
    write_mark(folder, "refused", findings)
    forget_stamps(store, manifest.dataset, manifest.build)  # a shard may be damaged in a way that its times do not tell
    raise BuildError(
        f"{outcome.location}: is not released, and latest stays where it was; {tell_findings(findings)} The build "
        "stays there to be looked at"
    )


def _point_to(store: Store, outcome: BuildOutcome[Manifest]) -> ReleaseOutcome[Manifest]:
    manifest = outcome.manifest
    release = move_latest(store, manifest.dataset, manifest.build, manifest.content_digest)
    write_mark(store.child(manifest.dataset, manifest.build), "released")
    line = f"released: {manifest.dataset}/latest is {manifest.build}, which was verified."
    return ReleaseOutcome(outcome.location, manifest, (*outcome.summary, line), True, release)
