"""What finished builds use: their queries, texts, voices and pairs of voices, read without their audio."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from bystander.schemas.errors import StorageError
from bystander.schemas.exclusions import VoicePair, order_pair
from bystander.schemas.identity import digest_json
from bystander.schemas.tpi import FINAL
from bystander.storage.build_checks import fill_absent
from bystander.storage.build_manifest import (
    BuildManifest,
    ManifestBase,
    OtherBuild,
    ShardInfo,
    VoicesDisjointBy,
    digest_rows,
    read_build_kind,
    read_manifest,
)
from bystander.storage.dyadic_manifest import DYADIC_KIND, DyadicManifest, read_dyadic_manifest
from bystander.storage.filesystem import Store
from bystander.storage.parquet_files import open_parquet
from bystander.storage.releases import open_build

Normalise = Callable[[str, str], str]
"""From a text and its language to the form in which texts are compared."""

_TEXTS = ("request", "primary_complete", "primary_text", "third_party_text")
_TEXTS_OF_DYADIC = ("request", "primary_text")
COLUMNS = ("id", "query_id", "language", *_TEXTS, "primary_voice", "third_party_voice")
"""What has to be read of a row to know what it uses."""
_DYADIC_COLUMNS = ("id", "query_id", "language", *_TEXTS_OF_DYADIC, "primary_voice")

SpokenManifest = BuildManifest | DyadicManifest
"""Of a build whose rows are requests that were spoken."""


@dataclass(frozen=True, slots=True)
class RowContents:
    """What one row uses. `texts` leads from the normalised form to the name of the text; a single voice is no pair."""

    id: str
    query: str
    texts: Mapping[str, str]
    pair: VoicePair | None
    voices: frozenset[str]

    @classmethod
    def of(cls, row: Mapping[str, Any], normalise: Normalise) -> RowContents:
        """Return what a row with the columns `COLUMNS` uses, or those of them that a dyadic row has."""
        said = {name: row[name] for name in _TEXTS if name in row}
        if "third_party_text" in row:
            said["transcript"] = f"{row['primary_text']} {row['third_party_text']}"
        texts: dict[str, str] = {}
        for name, text in said.items():
            texts.setdefault(normalise(text, row["language"]), name)
        texts.pop("", None)
        other = row.get("third_party_voice")
        pair = None if other is None else order_pair(row["primary_voice"], other)
        voices = frozenset(voice for voice in (row["primary_voice"], other) if voice is not None)
        return cls(row["id"], row["query_id"], texts, pair, voices)


@dataclass(slots=True)
class BuildContents:
    """Everything that builds use, as `schemas.exclusions.Exclusions`. About 1 KB a row."""

    normalise: Normalise
    builds: list[OtherBuild] = field(default_factory=list)
    queries: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    pairs: set[VoicePair] = field(default_factory=set)
    voices: set[str] = field(default_factory=set)

    @property
    def digest(self) -> str:
        return digest_json(sorted(build.rows_digest for build in self.builds))

    def has_query(self, query_id: str) -> bool:
        return query_id in self.queries

    def has_text(self, text: str, language: str) -> bool:
        return self.normalise(text, language) in self.texts

    def has_recording(self, recording_id: str) -> bool:  # noqa: ARG002
        return False

    def add(self, row: RowContents) -> None:
        """Take in what a row uses."""
        self.queries.add(row.query)
        self.texts.update(row.texts)
        if row.pair is not None:
            self.pairs.add(row.pair)
        self.voices.update(row.voices)

    def find_shared(self, row: RowContents, by: VoicesDisjointBy = "pair") -> Iterator[tuple[str, str]]:
        """Yield what a row has in common with these builds: the field, and what it holds.

        `by` says what of the voices must differ: their pair, or each voice.
        """
        if row.query in self.queries:
            yield "query_id", row.query
        for text, name in row.texts.items():
            if text in self.texts:
                yield name, repr(text)
        if by == "voice":
            for voice in sorted(row.voices & self.voices):
                yield "voices", voice
        elif row.pair in self.pairs:
            yield "voices", " and ".join(row.pair or ())


def read_contents(uris: Sequence[str | Store], normalise: Normalise) -> BuildContents:
    """Return what finished builds use together.

    Raises:
        BuildError: one is not a finished build.
        StorageError: one cannot be read.
    """
    contents = BuildContents(normalise)
    for uri in uris:
        store = uri if isinstance(uri, Store) else open_build(uri)
        manifest = read_spoken_manifest(store)
        contents.builds.append(describe_build(store, manifest))
        for _, row in read_row_contents(store, manifest, normalise):
            contents.add(row)
    return contents


def read_spoken_manifest(store: Store) -> SpokenManifest:
    """Read the `manifest.json` of a TPI or dyadic build.

    Raises:
        BuildError: there is none, or it is not a manifest of this format.
    """
    return read_dyadic_manifest(store) if read_build_kind(store) == DYADIC_KIND else read_manifest(store)


def describe_build(store: Store, manifest: ManifestBase) -> OtherBuild:
    """Return how a manifest names another build."""
    return OtherBuild(uri=store.uri, dataset=manifest.dataset, build=manifest.build, rows_digest=digest_rows(manifest))


def read_row_contents(
    store: Store, manifest: SpokenManifest, normalise: Normalise
) -> Iterator[tuple[ShardInfo, RowContents]]:
    """Yield what each row of a build uses, and the shard that it is in.

    Raises:
        StorageError: a shard cannot be read.
    """
    columns = _DYADIC_COLUMNS if isinstance(manifest, DyadicManifest) else COLUMNS
    for shard, batch in read_columns(store, manifest, columns):
        for row in batch.to_pylist():
            yield shard, RowContents.of(row, normalise)


def read_final_rows(store: Store, manifest: BuildManifest) -> Iterator[tuple[ShardInfo, pa.Table]]:
    """Yield the whole rows of a TPI build as FINAL tables, a row group at a time, with the shard that they are in.

    Nullable columns that came after the build was made are full of nulls.

    Raises:
        StorageError: a shard cannot be read, or its rows are of another kind.
    """
    always = [column.name for column in FINAL if not column.nullable]
    optional = [name for name in FINAL.names if name not in always]
    for shard, batch in read_columns(store, manifest, always, optional):
        try:
            rows = pa.Table.from_batches([fill_absent(batch, FINAL)]).cast(FINAL)
        except (pa.ArrowException, ValueError) as exc:
            raise StorageError(f"{store.uri}: its rows are not those of a TPI build ({exc})") from exc
        yield shard, rows


def read_columns(
    store: Store, manifest: ManifestBase, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[ShardInfo, pa.RecordBatch]]:
    """Yield some columns of a build's rows, a row group at a time, with the shard that they are in.

    The `optional` ones are left out where the build has none.

    Raises:
        StorageError: a shard cannot be read, or lacks a column.
    """
    for shard in manifest.shards:
        try:
            with open_parquet(store, shard.file, shard.bytes) as file:
                missing = [name for name in columns if name not in file.schema_arrow.names]
                if missing:
                    raise StorageError(f"{store.uri_of(shard.file)}: has no column {', '.join(missing)}")
                wanted = [*columns, *(name for name in optional if name in file.schema_arrow.names)]
                for index in range(file.num_row_groups):
                    for batch in file.read_row_group(index, columns=wanted).to_batches():
                        yield shard, batch
        except (pa.ArrowException, OSError, ValueError) as exc:
            reason = str(exc).splitlines()[0].rstrip(".")
            raise StorageError(f"{store.uri_of(shard.file)}: cannot be read as Parquet ({reason})") from exc
