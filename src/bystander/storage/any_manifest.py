"""Reads the manifest of a build whose kind is not known beforehand."""

from __future__ import annotations

from bystander.storage.build_manifest import BuildManifest, read_build_kind, read_manifest
from bystander.storage.dyadic_manifest import DYADIC_KIND, DyadicManifest, read_dyadic_manifest
from bystander.storage.filesystem import Store
from bystander.storage.sid_manifest import SidManifest, read_sid_manifest

AnyManifest = BuildManifest | SidManifest | DyadicManifest


def read_any_manifest(store: Store) -> AnyManifest:
    """Read the `manifest.json` of a TPI, SID or dyadic build.

    Raises:
        BuildError: there is none, or it is not a manifest of this format.
    """
    kind = read_build_kind(store)
    if kind == DYADIC_KIND:
        return read_dyadic_manifest(store)
    return read_sid_manifest(store) if kind.startswith("sid") else read_manifest(store)
