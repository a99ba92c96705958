"""What of a finished build is published, and the steps of publishing it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bystander.schemas.errors import BuildError
from bystander.storage.any_manifest import AnyManifest, read_any_manifest
from bystander.storage.build_manifest import MANIFEST_NAME, REPORT_NAME, FileInfo
from bystander.storage.candidate_files import CANDIDATES_NAME
from bystander.storage.card_parts import CARD_NAME
from bystander.storage.control_section import CONTROLS_NAME
from bystander.storage.filesystem import Store

Part = Literal["rejects"]
"""Parts of a build that are published only if that is asked for."""
Action = Literal["put", "keep", "delete"]


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of a release. `content` is None where it is to be read from the build's folder, as shards are."""

    path: str
    size: int
    sha256: str
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class PublishedBuild:
    """A build as it is published: its manifest, and its files, `manifest.json` last."""

    manifest: AnyManifest
    files: tuple[PublishedFile, ...]

    @property
    def manifest_file(self) -> PublishedFile:
        return self.files[-1]


@dataclass(frozen=True, slots=True)
class PublishStep:
    """What is done, or would be, about one file: put there, left as it is there already, or deleted there."""

    path: str
    action: Action
    size: int


@dataclass(frozen=True, slots=True)
class Publication:
    """What came of publishing a build, or would: where it is, the steps, and what a person wants to hear of it."""

    location: str
    steps: tuple[PublishStep, ...]
    notes: tuple[str, ...] = ()

    def count(self, action: Action) -> int:
        """Return how many files have this action."""
        return sum(step.action == action for step in self.steps)

    @property
    def bytes_put(self) -> int:
        return sum(step.size for step in self.steps if step.action == "put")


def describe_published_build(build: Store, include: Sequence[Part] = ()) -> PublishedBuild:
    """Return what of a build is published: shards, card, report, controls and manifest, and what `include` names.

    Where the rejects are left out, the manifest says so and lists none.

    Raises:
        BuildError: it is no finished build, or was itself published without the rejects that are asked for.
        StorageError: a file is missing.
    """
    manifest = read_any_manifest(build)
    if "rejects" in include and manifest.rejects_left_out:
        raise BuildError(f"{build.uri}: has no rejects, since it was published without them; leave out --include")
    if "rejects" not in include and manifest.rejects:
        manifest = manifest.model_copy(update={"rejects": (), "rejects_left_out": True})
    return PublishedBuild(manifest, tuple(_list_files(build, manifest)))


def _list_files(build: Store, manifest: AnyManifest) -> Iterator[PublishedFile]:
    listed: tuple[FileInfo, ...] = (*manifest.shards, *manifest.rejects)
    candidates: FileInfo | None = getattr(manifest, "candidates", None)
    for info in (*listed, *([candidates] if candidates is not None else [])):
        yield PublishedFile(info.file, info.bytes, info.sha256)
    for name in (REPORT_NAME, CONTROLS_NAME, CARD_NAME):
        if name != CONTROLS_NAME or build.exists(name):
            yield _hold(name, build.read_bytes(name))
    yield _hold(MANIFEST_NAME, manifest.model_dump_json(indent=2).encode() + b"\n")


def _hold(path: str, content: bytes) -> PublishedFile:
    return PublishedFile(path, len(content), hashlib.sha256(content).hexdigest(), content)


def is_of_a_build(path: str) -> bool:
    """Whether a path beside a published manifest is one that publishing writes, so that a stale one is deleted."""
    in_folder = path.startswith(("data/", "rejects/")) and path.endswith(".parquet")
    return in_folder or path in (REPORT_NAME, CONTROLS_NAME, CANDIDATES_NAME)
