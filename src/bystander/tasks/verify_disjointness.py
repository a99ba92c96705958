"""Verifies that a build shares nothing with other builds, and its parts nothing with each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bystander.schemas.errors import BuildError, StorageError
from bystander.storage.build_checks import Finding
from bystander.storage.build_contents import BuildContents, describe_build, read_contents, read_row_contents
from bystander.storage.build_manifest import BuildManifest, digest_rows, read_manifest
from bystander.storage.filesystem import Store, open_store
from bystander.tasks.metrics.text_normaliser import normalise_text


@dataclass(frozen=True, slots=True)
class Disjointness:
    """What is shared though it must not be, and what could not be seen."""

    findings: list[Finding]
    notices: list[str]


def verify_disjointness(path: str | Path, against: Sequence[str] = ()) -> Disjointness:
    """Hold a build against those that its manifest lists, against others, and its parts against each other.

    Nothing may be in common: no query, no text of the same words (the request, the complete primary text, the spoken
    one, the third party's, the whole transcript), and no pair of voices. A build that cannot be read itself has no
    findings here: `verify_build` says so.

    Args:
        path: the build's folder or fsspec URL.
        against: more builds to hold it against, listed or not.

    Raises:
        BuildError: one of `against` is not a finished build.
        StorageError: one of `against` cannot be read.
    """
    store = open_store(path)
    others: list[BuildContents] = [read_contents([uri], normalise_text) for uri in against]
    notices: list[str] = []
    try:
        manifest = read_manifest(store)
        for listed in manifest.disjoint_from:
            name = f"{listed.dataset}/{listed.build} ({listed.uri})"
            try:
                other = open_store(listed.uri)
                now = describe_build(other, read_manifest(other))
                others.append(read_contents([other], normalise_text))
            except (BuildError, StorageError) as exc:
                notices.append(f"not held against {name}, which cannot be read: {exc}")
                continue
            if now.rows_digest != listed.rows_digest:
                notices.append(f"{name} has other rows now than when this build was made; held against those of now")
        findings = [finding for other in others for finding in _compare(store, manifest, other, _name_builds(other))]
        if manifest.kind == "tpi_parts":
            findings += _compare_parts(store, manifest)
    except (BuildError, StorageError):
        return Disjointness([], notices)
    return Disjointness(findings, notices)


def _compare(store: Store, manifest: BuildManifest, other: BuildContents, name: str) -> Iterator[Finding]:
    if [build.rows_digest for build in other.builds] == [digest_rows(manifest)]:
        yield Finding("data", f"holds the same rows as {name}")
        return
    for shard, row in read_row_contents(store, manifest, normalise_text):
        for field, shared in other.find_shared(row):
            yield Finding(shard.file, f"{shared} is in {name} too", row.id, field)


def _compare_parts(store: Store, manifest: BuildManifest) -> Iterator[Finding]:
    """Hold each row against the splits whose first shards come before its own."""
    seen: dict[str, BuildContents] = {}
    for shard, row in read_row_contents(store, manifest, normalise_text):
        for split, contents in seen.items():
            if split != shard.split:
                for field, shared in contents.find_shared(row):
                    yield Finding(shard.file, f"{shared} is in split {split} too", row.id, field)
        seen.setdefault(shard.split, BuildContents(normalise_text)).add(row)


def _name_builds(contents: BuildContents) -> str:
    return " and ".join(f"{build.dataset}/{build.build}" for build in contents.builds)
