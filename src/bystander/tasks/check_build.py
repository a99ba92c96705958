"""Checks a finished build in full: itself, and that it shares nothing with the builds that it must be clear of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bystander.schemas.errors import BuildError, InputError
from bystander.storage.build_checks import Finding
from bystander.storage.filesystem import Store
from bystander.storage.verify_build import verify_build
from bystander.storage.verify_training import holds_training, verify_training
from bystander.tasks.verify_disjointness import verify_disjointness

_MOST_TOLD = 3


@dataclass(frozen=True, slots=True)
class Verification:
    """Everything wrong with a build, and what could not be seen."""

    findings: tuple[Finding, ...]
    notices: tuple[str, ...]


def check_build(build: Store, quick: bool = False, seed: int = 0, against: Sequence[str] = ()) -> Verification:
    """Return what is wrong with a build (see `verify_build` and `verify_disjointness`), or with a training run.

    Args:
        build: its folder.
        quick: decode only some of its clips.
        seed: chooses the clips of a quick check.
        against: more builds to hold it against than those that its manifest lists.

    Raises:
        InputError: there is no such folder, or a training run is to be held against a build.
        BuildError: one of `against` is not a finished build.
    """
    if not build.exists(""):
        raise InputError(f"{build.uri}: there is no such folder")
    if holds_training(build):
        if against:
            raise InputError(f"{build.uri}: is a training run, which is held against no build; leave out --against")
        return Verification(tuple(verify_training(build)), ())
    disjointness = verify_disjointness(build, against)
    findings = [*verify_build(build, quick=quick, seed=seed), *disjointness.findings]
    return Verification(tuple(findings), tuple(disjointness.notices))


def assert_sound(build: Store, quick: bool = False) -> None:
    """Do nothing if a build is sound.

    Raises:
        BuildError: it is not; the message has the first findings.
        InputError: there is no such folder.
    """
    if findings := check_build(build, quick).findings:
        raise BuildError(f"{build.uri}: {tell_findings([str(finding) for finding in findings])}")


def tell_findings(findings: Sequence[str]) -> str:
    """Return the first findings as a phrase, with how many there are."""
    told = " ".join(findings[:_MOST_TOLD])
    more = f" … and {len(findings) - _MOST_TOLD} more." if len(findings) > _MOST_TOLD else ""
    return f"{len(findings)} finding{'s' if len(findings) > 1 else ''}: {told}{more}"
