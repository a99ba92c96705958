"""Which builds of a store are kept when it is cleaned, and why: from what lies there and what is asked alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bystander.schemas.errors import InputError
from bystander.schemas.training_config import TRAINED
from bystander.storage.evaluation_manifest import EVALUATIONS
from bystander.storage.release_folders import order_builds
from bystander.storage.releases import Release
from bystander.storage.stored_builds import StoredBuild

_GLOB = frozenset("*?[")
_UNFINISHED = {EVALUATIONS: "an unfinished evaluation", TRAINED: "an unfinished training run"}


@dataclass(frozen=True, slots=True)
class KeepRules:
    """What is asked. Without any, all finished builds are kept."""

    keep_last: int | None = None
    """Releases of each dataset to keep: the newest by their dated names."""
    keep: tuple[str, ...] = ()
    """Patterns `NAME` or `DATASET/NAME` of builds that stay whatever else is asked."""
    drop: tuple[str, ...] = ()
    """Patterns `DATASET/NAME` of builds that go."""


KEEP_ALL = KeepRules()
"""All finished builds are kept."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a build goes, and why or why not."""

    build: StoredBuild
    goes: bool
    why: str


def judge_builds(
    builds: Sequence[StoredBuild], latest: Mapping[str, Release | None], rules: KeepRules
) -> tuple[Verdict, ...]:
    """Return what becomes of each build, in their order.

    Kept in any case are: what a dataset's `latest` points to, what a kept build, evaluation or training run refers to,
    what a process makes now, and what is not known to be ours. Of builds that are no releases, and of releases without
    a date in their name, only those in `drop` go; of evaluations and training runs too.

    Args:
        builds: all of the store.
        latest: the latest release of each dataset.
        rules: what is asked.

    Raises:
        InputError: a pattern matches nothing, or a build that is named in `drop` must stay; the message says why.
    """
    _check_patterns(builds, rules)
    aged = {name for dataset in latest for name in _list_aged(builds, dataset, latest[dataset], rules.keep_last)}
    verdicts = {one.name: _judge(one, latest.get(one.dataset), rules, one.name in aged) for one in builds}
    _keep_what_is_needed(verdicts)
    for pattern in rules.drop:
        verdict = verdicts.get(pattern)
        if verdict is not None and not verdict.goes:
            raise InputError(f"--drop {pattern}: must stay: {verdict.why}")
    return tuple(verdicts[one.name] for one in builds)


def _judge(build: StoredBuild, latest: Release | None, rules: KeepRules, aged: bool) -> Verdict:
    kept_by = next((pattern for pattern in rules.keep if _matches(build, pattern)), None)
    dropped = any(_matches(build, pattern) for pattern in rules.drop)
    is_release = latest is not None and latest.build == build.build

    def stay(why: str) -> Verdict:
        return Verdict(build, False, why)

    match build.condition:
        case "running":
            return stay("a process is making it")
        case "strange":
            return stay("it is not known to be a build of ours")
        case _ if kept_by is not None:
            return stay(f"--keep {kept_by}")
        case "unfinished" if build.foreign:
            return stay(f"it is unfinished, but holds files that are not ours, such as {build.foreign[0]}")
        case "unfinished" if build.dataset in _UNFINISHED and not dropped:
            return stay(_UNFINISHED[build.dataset])
        case "unfinished":
            return Verdict(build, True, "unfinished, and no process makes it")
        case _ if is_release:
            return stay(f"{build.dataset}/latest points to it")
        case _ if dropped:
            return Verdict(build, True, "--drop")
        case _ if aged:
            return Verdict(build, True, f"older than the newest {rules.keep_last} releases")
        case "evaluation":
            return stay("an evaluation")
        case "training":
            return stay("a training run")
    return stay("a release" if build.mark == "released" else "finished")


def _list_aged(builds: Sequence[StoredBuild], dataset: str, latest: Release | None, keep_last: int | None) -> list[str]:
    """Return what was to be a release and is older than the newest `keep_last` that are."""
    if keep_last is None:
        return []
    dated = [
        build
        for build in builds
        if build.dataset == dataset and build.mark is not None and order_builds(build.build)[0]
    ]
    withdrawn = latest.withdrawn if latest is not None else ()
    sound = [build for build in dated if build.mark == "released" and build.build not in withdrawn]
    newest = sorted(sound, key=lambda build: order_builds(build.build), reverse=True)[:keep_last]
    if len(newest) < keep_last:
        return []
    oldest = order_builds(newest[-1].build)
    return [build.name for build in dated if order_builds(build.build) < oldest]


def _keep_what_is_needed(verdicts: dict[str, Verdict]) -> None:
    """Change the verdict on builds that kept ones refer to, and on those that these refer to in turn."""
    waiting = [verdict.build for verdict in verdicts.values() if not verdict.goes]
    while waiting:
        kept = waiting.pop()
        for name, verdict in verdicts.items():
            if verdict.goes and kept.refers_to(verdict.build):
                verdicts[name] = Verdict(verdict.build, False, f"{kept.name} refers to it")
                waiting.append(verdict.build)


def _check_patterns(builds: Sequence[StoredBuild], rules: KeepRules) -> None:
    for option, patterns in (("--keep", rules.keep), ("--drop", rules.drop)):
        for pattern in patterns:
            if option == "--drop" and pattern.count("/") != 1:
                raise InputError(f"--drop {pattern}: write DATASET/NAME, as in tpi-train/2026-11-30")
            if not any(_matches(build, pattern) for build in builds):
                which = "no build" if _GLOB & {*pattern} else "no such build"
                raise InputError(f"{option} {pattern}: there is {which} in the store; see `bystander release list`")


def _matches(build: StoredBuild, pattern: str) -> bool:
    dataset, slash, name = pattern.rpartition("/")
    return fnmatchcase(build.build, name) and (not slash or fnmatchcase(build.dataset, dataset))
