"""Reads the manifest of a build whose kind is not known beforehand."""

from __future__ import annotations

from bystander.storage.build_manifest import BuildManifest, read_build_kind, read_manifest
from bystander.storage.filesystem import Store
from bystander.storage.sid_manifest import SidManifest, read_sid_manifest

AnyManifest = BuildManifest | SidManifest


def read_any_manifest(store: Store) -> AnyManifest:
    """Read the `manifest.json` of a TPI or SID build.

    Raises:
        BuildError: there is none, or it is not a manifest of this format.
    """
    return read_sid_manifest(store) if read_build_kind(store).startswith("sid") else read_manifest(store)
