"""Verifies that a SID build shares nothing with other SID builds, and keeps to its side of the voices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bystander.schemas.errors import BuildError, StorageError, StoreError, UserError
from bystander.schemas.sides import Sided
from bystander.storage.build_checks import Finding
from bystander.storage.build_contents import read_columns
from bystander.storage.build_manifest import digest_rows
from bystander.storage.filesystem import Store, open_store
from bystander.storage.sid_contents import SidContents, describe_sid_build, read_sid_contents, read_sid_row_contents
from bystander.storage.sid_manifest import SidManifest, read_sid_manifest
from bystander.tasks.metrics.text_normaliser import normalise_text


def verify_sid_disjointness(store: Store, against: Sequence[str]) -> tuple[list[Finding], list[str]]:
    """Return what a SID build shares with those that its manifest lists and with others, and what could not be seen.

    Nothing may be in common: no recording, no clip of noise, and no telling text, of the turn or of what it overlaps.
    Where its manifest says that its voices are of one side, all of its synthetic rows' are. A build that cannot be
    read itself has no findings here: `verify_build` says so.

    Args:
        store: the build's folder.
        against: more builds to hold it against than those that its manifest lists.

    Raises:
        BuildError: one of `against` is not a finished SID build.
        StorageError: one of `against` cannot be read.
    """
    others = [read_sid_contents([uri], normalise_text) for uri in against]
    notices: list[str] = []
    try:
        manifest = read_sid_manifest(store)
        for listed in manifest.disjoint_from:
            name = f"{listed.dataset}/{listed.build} ({listed.uri})"
            try:
                other = open_store(listed.uri)
                now = describe_sid_build(other, read_sid_manifest(other))
                others.append(read_sid_contents([other], normalise_text))
            except (UserError, StorageError, StoreError) as exc:
                notices.append(f"not held against {name}, which cannot be read: {exc}")
                continue
            if now.rows_digest != listed.rows_digest:
                notices.append(f"{name} has other rows now than when this build was made; held against those of now")
        findings = [finding for contents in others for finding in _compare(store, manifest, contents)]
        return [*findings, *_check_voices(store, manifest)], notices
    except (BuildError, StorageError):
        return [], notices


def _compare(store: Store, manifest: SidManifest, other: SidContents) -> Iterator[Finding]:
    name = " and ".join(f"{build.dataset}/{build.build}" for build in other.builds)
    if [build.rows_digest for build in other.builds] == [digest_rows(manifest)]:
        yield Finding("data", f"holds the same rows as {name}")
        return
    for shard, row in read_sid_row_contents(store, manifest, normalise_text):
        for field, shared in other.find_shared(row):
            yield Finding(shard.file, f"{shared} is in {name} too", row.id, field)


def _check_voices(store: Store, manifest: SidManifest) -> Iterator[Finding]:
    """Yield the voices of synthetic rows that are not on the side that the build says it draws from."""
    drawn = manifest.config.get("stages", {}).get("speak_conversations", {})
    side = Sided.model_validate({name: drawn[name] for name in Sided.SIDE_FIELDS if name in drawn})
    if side.use == "all":
        return
    for shard, batch in read_columns(store, manifest, ("id", "speaker", "synthetic")):
        for row in batch.to_pylist():
            if row["synthetic"] and row["speaker"] is not None and not side.admits("sid_voice", row["speaker"]):
                problem = f"{row['speaker']} is not on the side {side.use!r} at hold_out {side.hold_out:g}"
                yield Finding(shard.file, problem, row["id"], "speaker")
