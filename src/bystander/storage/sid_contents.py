"""What finished SID builds use: their recordings, turns, texts and clips of noise, read without their audio."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from bystander.schemas.exclusions import VoicePair
from bystander.schemas.identity import digest_json
from bystander.schemas.sid import NOISE, SILENCE
from bystander.storage.build_contents import Normalise, read_columns
from bystander.storage.build_manifest import OtherBuild, ShardInfo, digest_rows
from bystander.storage.filesystem import Store
from bystander.storage.releases import open_build
from bystander.storage.sid_manifest import SidManifest, read_sid_manifest
from bystander.tasks.texts.backchannels import LEXICON_LANGUAGES, find_substance
from bystander.tasks.texts.turn_words import split_turn_words

FEWEST_WORDS = 3
"""Shorter texts ("hold on", "what then") are anybody's: they are not held against other builds."""

_COLUMNS = ("id", "category", "language", "text", "context_text", "recording_id", "source")
_TEXTS = ("text", "context_text")


def find_telling_text(text: str, language: str, normalise: Normalise) -> str:
    """Return what is compared of a turn's text: its words from the first new intent on, normalised; "" for nothing.

    Acknowledgements are everybody's, and so are texts of fewer than `FEWEST_WORDS` words.
    """
    if language not in LEXICON_LANGUAGES:
        return ""
    substance = find_substance(text, language)
    return normalise(substance, language) if len(split_turn_words(substance)) >= FEWEST_WORDS else ""


@dataclass(frozen=True, slots=True)
class SidRowContents:
    """What one row uses. `texts` leads from the compared form to the name of the text."""

    id: str
    recordings: frozenset[str]
    """Its own, or those that a clip of silence is made of."""
    noise: str | None
    """Id of a clip of noise, which is a hash of its file's name and size, or of its generator and seed."""
    texts: Mapping[str, str]

    @classmethod
    def of(cls, row: Mapping[str, Any], normalise: Normalise) -> SidRowContents:
        """Return what a row with the columns id, category, language, text, context_text, recording_id, source uses."""
        texts: dict[str, str] = {}
        for name in _TEXTS:
            if row[name] is not None:
                texts.setdefault(find_telling_text(row[name], row["language"], normalise), name)
        texts.pop("", None)
        recordings = row["source"].split() if row["category"] == SILENCE else [row["recording_id"]]
        return cls(
            id=row["id"],
            recordings=frozenset(name for name in recordings if name),
            noise=row["id"] if row["category"] == NOISE else None,
            texts=texts,
        )


@dataclass(slots=True)
class SidContents:
    """Everything that builds use, as `schemas.exclusions.Exclusions`."""

    normalise: Normalise
    builds: list[OtherBuild] = field(default_factory=list)
    recordings: set[str] = field(default_factory=set)
    noise: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    pairs: AbstractSet[VoicePair] = frozenset()
    voices: AbstractSet[str] = frozenset()
    """Voices and pairs of them are kept apart by sides, not by what other builds use."""

    @property
    def digest(self) -> str:
        return digest_json(sorted(build.rows_digest for build in self.builds))

    def has_query(self, query_id: str) -> bool:  # noqa: ARG002
        return False

    def has_text(self, text: str, language: str) -> bool:
        return find_telling_text(text, language, self.normalise) in self.texts

    def has_recording(self, recording_id: str) -> bool:
        return recording_id in self.recordings

    def add(self, row: SidRowContents) -> None:
        """Take in what a row uses."""
        self.recordings.update(row.recordings)
        self.texts.update(row.texts)
        if row.noise is not None:
            self.noise.add(row.noise)

    def find_shared(self, row: SidRowContents) -> Iterator[tuple[str, str]]:
        """Yield what a row has in common with these builds: the field, and what it holds."""
        for recording in sorted(row.recordings & self.recordings):
            yield "recording_id", recording
        if row.noise in self.noise:
            yield "id", str(row.noise)
        for text, name in row.texts.items():
            if text in self.texts:
                yield name, repr(text)


def read_sid_contents(uris: Sequence[str | Store], normalise: Callable[[str, str], str]) -> SidContents:
    """Return what finished SID builds use together.

    Raises:
        BuildError: one is not a finished SID build.
        StorageError: one cannot be read.
    """
    contents = SidContents(normalise)
    for uri in uris:
        store = uri if isinstance(uri, Store) else open_build(uri)
        manifest = read_sid_manifest(store)
        contents.builds.append(describe_sid_build(store, manifest))
        for _, row in read_sid_row_contents(store, manifest, normalise):
            contents.add(row)
    return contents


def describe_sid_build(store: Store, manifest: SidManifest) -> OtherBuild:
    """Return how a manifest names another build."""
    return OtherBuild(uri=store.uri, dataset=manifest.dataset, build=manifest.build, rows_digest=digest_rows(manifest))


def read_sid_row_contents(
    store: Store, manifest: SidManifest, normalise: Normalise
) -> Iterator[tuple[ShardInfo, SidRowContents]]:
    """Yield what each row of a build uses, and the shard that it is in.

    Raises:
        StorageError: a shard cannot be read.
    """
    for shard, batch in read_columns(store, manifest, _COLUMNS):
        for row in batch.to_pylist():
            yield shard, SidRowContents.of(row, normalise)
