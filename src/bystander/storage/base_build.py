"""A finished build that another one is made on top of."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from bystander.schemas.errors import BuildError, ConfigError, StorageError
from bystander.storage.build_contents import read_columns
from bystander.storage.build_manifest import BuildManifest, read_manifest
from bystander.storage.file_stamps import are_whole
from bystander.storage.filesystem import Store
from bystander.storage.releases import open_build


def open_base(address: str) -> tuple[Store, BuildManifest]:
    """Return folder and manifest of the build of `on_top_of`.

    Raises:
        ConfigError: it is no finished TPI build.
    """
    try:
        folder = open_build(address)
        return folder, read_manifest(folder)
    except (BuildError, StorageError) as exc:
        raise ConfigError(f"--same-rows-as/--grow (on_top_of) {address}: {exc}") from exc


def assert_whole(folder: Store, manifest: BuildManifest, store: Store) -> None:
    """Raise where a shard is missing or damaged, reading those of `store` only if they changed since they were written.

    Raises:
        BuildError: names the first such shard.
    """
    remedy = "build it again, or copy it whole"
    try:
        if store.child(manifest.dataset, manifest.build).uri == folder.uri:
            if not are_whole(store, manifest.dataset, manifest.build, manifest.shards):
                raise BuildError(f"on_top_of {folder.uri}: its shards do not match its manifest; {remedy}")
            return
        for shard in manifest.shards:
            if folder.size(shard.file) != shard.bytes or folder.sha256(shard.file) != shard.sha256:
                raise BuildError(f"on_top_of {folder.uri}: {shard.file} does not match its manifest; {remedy}")
    except StorageError as exc:
        raise BuildError(f"on_top_of {folder.uri}: {exc}; {remedy}") from exc


def read_base_columns(folder: Store, manifest: BuildManifest, columns: Sequence[str]) -> pa.Table:
    """Return some columns of all rows, in the order of the shards.

    Raises:
        StorageError: a shard cannot be read, or lacks a column.
    """
    return pa.Table.from_batches([batch for _, batch in read_columns(folder, manifest, columns)])
