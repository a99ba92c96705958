"""What a build would reuse and redo beside an earlier one: an account of a dry run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bystander.flows.dry_run import DryRun, UnknownRowsError
from bystander.schemas.build_config import BuildConfig
from bystander.schemas.description_changes import Change, list_changes
from bystander.schemas.rebuild import FieldChange, RebuildPlan, Verdict
from bystander.storage.build_manifest import get_code_version, list_package_versions
from bystander.storage.earlier_builds import EarlierBuild, find_earlier_build, read_past_journeys
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.past_rows import PastRows
from bystander.tasks.stage_description import describe_stages

Replay = Callable[[StageEnvironment, DryRun], bool]
"""Makes a build without a call, in an environment over a scratch store, and returns whether it is published already."""


def forecast(
    config: BuildConfig,
    environment: StageEnvironment,
    kind: str,
    stages: Sequence[str],
    replay: Replay,
    against: str | None = None,
) -> RebuildPlan:
    """Return what a build would reuse and redo. No model is called, and the store is not written to.

    Args:
        config: what is to be built.
        environment: where its stages would be run.
        kind: what makes such builds.
        stages: all that it may go through, in order.
        replay: makes the build in a dry run.
        against: name or address of the build to compare with; without one, see `find_earlier_build`.

    Raises:
        BuildError: the build to compare with is not there, or cannot be read.
        UserError: the queries or recordings cannot be read or used.
    """
    described = describe_stages(stages, environment)
    earlier = find_earlier_build(
        environment.store,
        config.dataset,
        config.build_name,
        kind,
        against,
        lambda other: sum(other.fingerprints.get(stage) == described[stage] for stage in stages),
    )
    changes = {
        stage: _name_changes(list_changes(earlier.fingerprints[stage], described[stage]))
        for stage in stages
        if earlier is not None and stage in earlier.fingerprints
    }
    journeys, unknown = read_past_journeys(environment.store, earlier) if earlier is not None else ([], [])
    dry = DryRun(environment.over_scratch(), PastRows(journeys), changes)
    notes = []
    complete, published = True, False
    try:
        published = replay(dry.environment, dry)
    except UnknownRowsError:
        complete = False
        notes.append("What comes after these rows is not known before they are made.")
    plan = RebuildPlan(
        dataset=config.dataset,
        build=config.build_name,
        against=earlier.build if earlier is not None else None,
        against_because=earlier.because if earlier is not None else "there is no earlier build to compare with",
        stages=dry.forecasts(stages),
    )
    if unknown:
        notes.append(
            f"Which rows {' and '.join(unknown)} has is not known: the store does not have the results that it was "
            "made from."
        )
    if any(stage.regrouped for stage in plan.stages):
        notes.append(
            "Regrouped rows come out as they were: their stages are run again, and model calls are remembered."
        )
    if any(not stage.exact and stage.rows for stage in plan.stages):
        notes.append(
            "Counts with ~ hold if stages that are redone keep the rows that they kept before; what then comes out as "
            "before is reused after all."
        )
    verdict: Verdict = "rebuilt"
    if complete and not plan.made:
        verdict = "nothing_new" if published else "published_anew"
    return plan.model_copy(
        update={
            "verdict": verdict,
            "notes": tuple(notes),
            "changes": _compare_content(config, environment, earlier) if verdict == "published_anew" else (),
        }
    )


def _compare_content(
    config: BuildConfig, environment: StageEnvironment, earlier: EarlierBuild | None
) -> tuple[FieldChange, ...]:
    """Return what has changed in what a build's files are made from besides its stages' results.

    Where something lies is only named where nothing else has changed: then other rows lie there.
    """
    if earlier is None:
        return ()
    new: dict[str, Any] = {
        **config.model_dump(mode="json", exclude={*config.SPEED_ONLY} - {"report_rows"}),
        "code_version": get_code_version(),
        "packages": list_package_versions(),
        "pack_digest": environment.pack.digest if earlier.pack is not None else None,
    }
    old = {
        **{name: value for name, value in earlier.config.items() if name in new},
        "code_version": earlier.code_version,
        "packages": earlier.packages,
        "pack_digest": earlier.pack.digest if earlier.pack is not None else None,
    }
    changes = list_changes(old, new)
    addresses = {name for field, parts in config.ADDRESSES.items() for name in _spell(field, parts)}
    others = [change for change in changes if change.field not in addresses]
    return _name_changes(others or changes)


def _spell(field: str, parts: Any) -> list[str]:
    return [f"{field}.{part}" for part in parts] if isinstance(parts, set) else [field]


def _name_changes(changes: Sequence[Change]) -> tuple[FieldChange, ...]:
    return tuple(
        FieldChange(field=change.field, before=change.before, after=change.after, sentence=change.sentence)
        for change in changes
    )
