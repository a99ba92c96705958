"""Small sound builds of several shards, with the card of a real one, to be published."""

from __future__ import annotations

import math
from pathlib import Path

from bystander.schemas.identity import digest_json
from bystander.schemas.tpi import FINAL
from bystander.storage.build_manifest import read_manifest, write_manifest
from bystander.storage.dataset_card import write_card
from bystander.storage.filesystem import Store, open_store
from bystander.storage.shards import ShardWriter
from final_rows import RATE, make_rows, make_table, write_build

PAIRS = 8


def make_build(root: Path | str, name: str, shards: int = 2, seed: int = 0) -> Store:
    """Write `<root>/tpi-train/<name>`; another seed gives other rows."""
    rows = make_rows(PAIRS - seed)
    folder = open_store(root).child("tpi-train", name)
    write_build(folder.uri, rows, build=name, content_digest=digest_json([seed]))
    size = math.ceil(len(rows) / shards)
    with ShardWriter(folder, "data", "train", FINAL, sampling_rate=RATE, shard_mib=0, group_rows=size) as writer:
        writer.write(make_table(rows))
    manifest = read_manifest(folder).model_copy(update={"shards": tuple(writer.shards)})
    assert len(manifest.shards) == shards
    write_card(folder, manifest)
    write_manifest(folder, manifest)
    return folder
