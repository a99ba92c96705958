"""Checkpoints of a training run that count only when they are whole, and which of them a run goes on from.

The trainer writes a checkpoint's files in place, one after another, so a killed one leaves some of them. What makes a
checkpoint whole is its mark, which is put there last and atomically: names, sizes and checksums of all its files, and
what the run was, so that no run goes on from another's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from bystander.schemas.errors import BuildError, StorageError

MARK_NAME = "whole.json"
_PREFIX = "checkpoint-"


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What decides a run: digests of its configuration, of its model's parameters by name and shape, of its data."""

    config: str
    model: str
    data: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint. `resumed_from` has the steps at which the run had been taken up before."""

    folder: Path
    step: int
    identity: RunIdentity
    resumed_from: tuple[int, ...] = ()


def locate_checkpoint(folder: Path, step: int) -> Path:
    """Return where the checkpoint of a step lies, as the trainer names it."""
    return folder / f"{_PREFIX}{step}"


def mark_whole(checkpoint: Checkpoint) -> None:
    """Put the mark into a checkpoint whose files are all written.

    Raises:
        StorageError: it cannot be written.
    """
    folder = checkpoint.folder
    mark = {
        "step": checkpoint.step,
        "identity": asdict(checkpoint.identity),
        "resumed_from": list(checkpoint.resumed_from),
        "files": {
            path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": _digest_file(path)}
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        },
    }
    aside = folder / f".{MARK_NAME}"
    try:
        with aside.open("w", encoding="utf-8") as sink:
            json.dump(mark, sink, indent=1)
            sink.flush()
            os.fsync(sink.fileno())
        aside.replace(folder / MARK_NAME)
    except OSError as exc:
        raise StorageError(f"{folder}: the checkpoint cannot be finished ({exc.strerror})") from exc


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Return a checkpoint if it is whole, every file being what its mark says, else None."""
    try:
        mark = json.loads((folder / MARK_NAME).read_text(encoding="utf-8"))
        for name, told in mark["files"].items():
            path = folder / name
            if path.stat().st_size != told["bytes"] or _digest_file(path) != told["sha256"]:
                return None
        return Checkpoint(folder, int(mark["step"]), RunIdentity(**mark["identity"]), tuple(mark["resumed_from"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def find_checkpoint(folder: Path, identity: RunIdentity) -> Checkpoint | None:
    """Return the newest whole checkpoint of a run in its folder, and remove what is newer.

    Newer are ones that are not whole, and those of another configuration or model: where there are only such, the run
    starts anew.

    Raises:
        BuildError: the newest one is of this configuration, but comes from other data.
    """
    for path in reversed(list_checkpoints(folder)):
        checkpoint = read_checkpoint(path)
        if checkpoint is None or (checkpoint.identity.config, checkpoint.identity.model) != (
            identity.config,
            identity.model,
        ):
            remove_checkpoint(path)
            continue
        if checkpoint.identity.data != identity.data:
            raise BuildError(
                f"{path}: comes from other data under the same configuration; remove the folder {folder} to train "
                "anew, or give this run another name"
            )
        return checkpoint
    return None


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the folders of checkpoints, whole or not, by step."""
    if not folder.is_dir():
        return []
    numbered = [
        (int(path.name.removeprefix(_PREFIX)), path)
        for path in folder.iterdir()
        if path.is_dir() and path.name.startswith(_PREFIX) and path.name.removeprefix(_PREFIX).isdigit()
    ]
    return [path for _, path in sorted(numbered)]


def keep_newest(folder: Path, keep: int) -> None:
    """Remove all checkpoints but the newest `keep` that have their mark. Call it when one has just got its own."""
    marked = [path for path in list_checkpoints(folder) if (path / MARK_NAME).exists()]
    for path in marked[: max(0, len(marked) - keep)]:
        remove_checkpoint(path)


def remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint, its mark first, so that one that is half removed counts no more."""
    with contextlib.suppress(OSError):
        (folder / MARK_NAME).unlink(missing_ok=True)
        shutil.rmtree(folder)


def _digest_file(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
