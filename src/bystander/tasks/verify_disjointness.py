"""Verifies that a build shares nothing with other builds, and its parts nothing with each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bystander.schemas.errors import BuildError, StorageError, StoreError, UserError
from bystander.storage.build_checks import Finding
from bystander.storage.build_contents import (
    BuildContents,
    SpokenManifest,
    describe_build,
    read_columns,
    read_contents,
    read_row_contents,
    read_spoken_manifest,
)
from bystander.storage.build_manifest import BuildManifest, VoicesDisjointBy, digest_rows, read_build_kind
from bystander.storage.filesystem import Store, open_store
from bystander.storage.releases import open_build
from bystander.tasks.metrics.text_normaliser import normalise_text
from bystander.tasks.stages.voice_sides import find_held_out_voices
from bystander.tasks.verify_sid_disjointness import verify_sid_disjointness

_VOICES = ("primary_voice", "third_party_voice")


@dataclass(frozen=True, slots=True)
class Disjointness:
    """What is shared though it must not be, and what could not be seen."""

    findings: list[Finding]
    notices: list[str]


def verify_disjointness(path: str | Path | Store, against: Sequence[str] = ()) -> Disjointness:
    """Hold a build against those that its manifest lists, against others, and its parts against each other.

    Nothing may be in common: no query, no text of the same words (the request, the complete primary text, the spoken
    one, the third party's, the whole transcript), and no pair of voices. Where a build's manifest promises that it
    shares no voice, none may be in common, and all of its own must be on its side of the hold-out; of `against`, it is
    enough that one of the two builds promises it. A build that cannot be read itself has no findings here:
    `verify_build` says so. A dyadic build's rows are held in the same way, as far as they have such texts; for SID
    builds see `verify_sid_disjointness`.

    Args:
        path: the build's folder or fsspec URL.
        against: more builds to hold it against, listed or not.

    Raises:
        BuildError: one of `against` is not a finished build.
        StorageError: one of `against` cannot be read.
    """
    store = path if isinstance(path, Store) else open_build(path)
    if _is_sid(store):
        return Disjointness(*verify_sid_disjointness(store, against))
    others = [(read_contents([uri], normalise_text), read_spoken_manifest(open_build(uri))) for uri in against]
    notices: list[str] = []
    try:
        manifest = read_spoken_manifest(store)
        for listed in manifest.disjoint_from:
            name = f"{listed.dataset}/{listed.build} ({listed.uri})"
            try:
                other = open_store(listed.uri)
                now = describe_build(other, read_spoken_manifest(other))
                others.append((read_contents([other], normalise_text), manifest))
            except (UserError, StorageError, StoreError) as exc:
                notices.append(f"not held against {name}, which cannot be read: {exc}")
                continue
            if now.rows_digest != listed.rows_digest:
                notices.append(f"{name} has other rows now than when this build was made; held against those of now")
        findings = [
            finding
            for contents, other in others
            for finding in _compare(store, manifest, contents, _choose_by(manifest, other))
        ]
        findings += _check_sides(store, manifest)
        if isinstance(manifest, BuildManifest) and manifest.kind == "tpi_parts":
            findings += _compare_parts(store, manifest)
    except (BuildError, StorageError):
        return Disjointness([], notices)
    return Disjointness(findings, notices)


def _is_sid(store: Store) -> bool:
    try:
        return read_build_kind(store).startswith("sid")
    except (BuildError, StorageError):
        return False


def _choose_by(*manifests: SpokenManifest) -> VoicesDisjointBy:
    return "voice" if any(manifest.voices_disjoint_by == "voice" for manifest in manifests) else "pair"


def _compare(store: Store, manifest: SpokenManifest, other: BuildContents, by: VoicesDisjointBy) -> Iterator[Finding]:
    name = _name_builds(other)
    if [build.rows_digest for build in other.builds] == [digest_rows(manifest)]:
        yield Finding("data", f"holds the same rows as {name}")
        return
    for shard, row in read_row_contents(store, manifest, normalise_text):
        for field, shared in other.find_shared(row, by):
            yield Finding(shard.file, f"{shared} is in {name} too", row.id, field)


def _check_sides(store: Store, manifest: SpokenManifest) -> Iterator[Finding]:
    """Yield the voices that are not on the side of the hold-out that the build says it draws from."""
    drawn: dict[str, Any] = manifest.config.get("stages", {}).get("choose_voices", {})
    use, share = drawn.get("use", "all"), drawn.get("hold_out", 0.0)
    if drawn.get("hold_out_by") != "voice" or use == "all":
        return
    sides: dict[str, bool] = {}
    for shard, batch in read_columns(store, manifest, ("id", *_VOICES)):
        for row in batch.to_pylist():
            for voice in filter(None, (row[name] for name in _VOICES)):
                if voice not in sides:
                    sides[voice] = bool(find_held_out_voices([voice], share)[0])
                if sides[voice] != (use == "held_out"):
                    problem = (
                        f"{voice} is {'not ' * (use == 'held_out')}held out at {share:g}, and the build uses {use!r}"
                    )
                    yield Finding(shard.file, problem, row["id"], "voices")


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
