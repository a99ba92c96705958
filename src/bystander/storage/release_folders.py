"""The dated folders of a dataset's releases: how they are named, which are taken, and what became of each.

A build that is to be released has a mark in its folder, `release.json`, from before its first file. A killed run leaves
it as it is, so the next run of that date goes on in the folder; a build that failed verification keeps its findings in
it, stays for whoever wants to look, and its name is not given out again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from bystander.schemas.build_config import BuildConfig
from bystander.schemas.errors import ConfigError, MissingFileError
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.filesystem import Store
from bystander.storage.releases import read_latest

MARK_NAME = "release.json"
MOST_FINDINGS = 50
_DATED = re.compile(r"(\d{4}-\d{2}-\d{2})(?:\.(\d+))?")

ReleaseState = Literal["begun", "released", "refused"]


class ReleaseMark(BaseModel):
    """What `release.json` in the folder of a build holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: ReleaseState
    """`begun`: not verified yet; `released`: it was verified, and `latest` pointed to it; `refused`: it was found
    unsound."""
    findings: tuple[str, ...] = ()
    """What was wrong with a refused one, the first `MOST_FINDINGS`."""


def read_mark(folder: Store) -> ReleaseMark | None:
    """Return the mark in a build's folder, or None where there is none that can be read."""
    try:
        return ReleaseMark.model_validate_json(folder.read_bytes(MARK_NAME))
    except (MissingFileError, ValidationError):
        return None


def write_mark(folder: Store, state: ReleaseState, findings: Iterable[str] = ()) -> None:
    """Mark the build in a folder."""
    mark = ReleaseMark(state=state, findings=tuple(itertools.islice(findings, MOST_FINDINGS)))
    folder.write_bytes(MARK_NAME, mark.model_dump_json(indent=2).encode() + b"\n")


def parse_release_date(dated: date | str) -> date:
    """Return the date of a release.

    Raises:
        ConfigError: it is no date.
    """
    if isinstance(dated, date):
        return date(dated.year, dated.month, dated.day)
    try:
        return date.fromisoformat(dated)
    except ValueError as exc:
        raise ConfigError(f"release date {dated!r}: write it as YYYY-MM-DD") from exc


def check_release(config: BuildConfig, dated: date | str) -> date:
    """Return the date of a release of this configuration.

    Raises:
        ConfigError: it names a build, or `dated` is no date.
    """
    if config.build is not None:
        raise ConfigError(f"build {config.build!r}: a release is named by its date; leave the name out")
    return parse_release_date(dated)


def list_refused(store: Store, dataset: str) -> list[str]:
    """Return the builds of a dataset that were to be released and failed verification, sorted by name."""
    names = store.list_folders(dataset)
    marks = store.map(lambda name: read_mark(store.child(dataset, name)), names)
    return [name for name, mark in zip(names, marks, strict=True) if mark is not None and mark.state == "refused"]


def order_builds(name: str) -> tuple[str, int, str]:
    """Return a key by which releases sort as they were made: by date, then by number."""
    found = _DATED.fullmatch(name)
    return (found[1], int(found[2] or 1), "") if found else ("", 0, name)


def begin_release(store: Store, dataset: str, dated: date) -> str:
    """Choose the folder of a release, mark it as begun, and return its name. To be called under the dataset's lock.

    It is called by its date, a second one of that date `<date>.2`, and so on. The folder of a run that did not come to
    an end, of this date, is gone on with.
    """
    latest = read_latest(store, dataset)
    if latest is not None and order_builds(latest.build)[0] == dated.isoformat():
        mark = read_mark(store.child(dataset, latest.build))
        if mark is None or mark.state != "released":  # a run was killed just after it had moved the pointer
            write_mark(store.child(dataset, latest.build), "released")
    name = name_release(store, dataset, dated)
    if read_mark(store.child(dataset, name)) is None:
        write_mark(store.child(dataset, name), "begun")
    return name


def name_release(store: Store, dataset: str, dated: date) -> str:
    """Return the name that a release begun now would have; see `begin_release`. Nothing is written."""
    latest = read_latest(store, dataset)
    for number in itertools.count(1):
        name = dated.isoformat() + (f".{number}" if number > 1 else "")
        if latest is not None and latest.build == name:
            continue
        folder = store.child(dataset, name)
        mark = read_mark(folder)
        if (mark is not None and mark.state == "begun") or (mark is None and not folder.list()):
            return name
    raise AssertionError("unreachable")


def give_up_folder(folder: Store) -> None:
    """Remove the folder of a release that turned out to be needless, unless a build was finished in it."""
    mark = read_mark(folder)
    if mark is not None and mark.state == "begun" and not folder.exists(MANIFEST_NAME):
        folder.remove("", recursive=True)


def forget_beginning(folder: Store) -> None:
    """Remove the folder of a release that ended before anything but its mark was written."""
    mark = read_mark(folder)
    if mark is not None and mark.state == "begun" and folder.list() == [MARK_NAME]:
        folder.remove("", recursive=True)
