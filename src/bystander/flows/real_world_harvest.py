"""Rows of a build of real recordings as they are harvested: utterances, pairs with clips, labels and replies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar

import pyarrow as pa

from bystander.flows.harvest import Harvest
from bystander.schemas.real_world import LOCATED_PAIR, REVIEWED_PAIR, SCORED_PAIR
from bystander.schemas.real_world_config import CorpusSource, RealWorldConfig, name_corpus
from bystander.schemas.review import ReviewDecision
from bystander.schemas.tpi import SCORED
from bystander.storage.build_manifest import CorpusInfo
from bystander.storage.corpora.corpus_audio import CorpusAudio, RecordingAudio
from bystander.storage.corpora.read_corpora import read_corpus
from bystander.tasks.environment import StageEnvironment


class UtteranceHarvest(Harvest):
    """Utterances that became one side of a good pair."""

    SUMMARY: ClassVar[pa.Schema] = pa.schema([SCORED_PAIR.field("id")])
    FINISHED: ClassVar[pa.Schema] = SCORED_PAIR


class ClipHarvest(Harvest):
    """Pairs with their clip, where there is one, that people did not reject."""

    SUMMARY: ClassVar[pa.Schema] = pa.schema([REVIEWED_PAIR.field(name) for name in ("id", "duration_s")])
    FINISHED: ClassVar[pa.Schema] = REVIEWED_PAIR


class ReplyHarvest(Harvest):
    """The same pairs, labelled and replied to."""

    SUMMARY: ClassVar[pa.Schema] = pa.schema([SCORED.field(name) for name in ("id", "label")])
    FINISHED: ClassVar[pa.Schema] = SCORED


@dataclass(slots=True)
class Corpora:
    """The corpora of a build, read once, with their audio."""

    sources: Sequence[CorpusSource]
    utterances: list[pa.Table] = field(default_factory=list)
    """UTTERANCE rows of each."""
    audio: dict[str, CorpusAudio] = field(default_factory=dict)
    """By the corpus's name."""
    _located: dict[tuple[str, str], RecordingAudio | None] = field(default_factory=dict)

    @classmethod
    def read(cls, config: RealWorldConfig) -> Corpora:
        """Read all utterances, and list the audio.

        Raises:
            InputError: a corpus cannot be read.
        """
        corpora = cls(config.corpora)
        for source in config.corpora:
            corpora.utterances.append(read_corpus(source))
            corpora.audio[name_corpus(source)] = CorpusAudio(source.audio)
        return corpora

    def cut(self, partition_rows: int) -> Iterator[pa.Table]:
        """Yield UTTERANCE rows in tables of at least `partition_rows`, but for the last; no recording is cut."""
        waiting: list[pa.Table] = []
        for table in self.utterances:
            start = 0
            for _, group in groupby(table["recording"].to_pylist()):
                length = sum(1 for _ in group)
                waiting.append(table.slice(start, length))
                start += length
                if sum(map(len, waiting)) >= partition_rows:
                    yield pa.concat_tables(waiting).combine_chunks()
                    waiting = []
        if waiting:
            yield pa.concat_tables(waiting).combine_chunks()

    def locate(self, pairs: pa.Table, decisions: Mapping[str, ReviewDecision], undecided: str) -> pa.Table:
        """Return SCORED_PAIR rows with the files of their recordings, and what was decided, as LOCATED_PAIR."""
        rows: list[dict[str, Any]] = []
        for row in pairs.to_pylist():
            audio = self._find(row["corpus"], row["recording"])
            decision = decisions.get(row["id"])
            rows.append(
                {
                    **row,
                    "audio_files": list(audio.files) if audio is not None else [],
                    "audio_digests": list(audio.digests) if audio is not None else [],
                    "decision": None if decision is None else decision.dump_json(),
                    "undecided": undecided,
                }
            )
        return pa.Table.from_pylist(rows, schema=LOCATED_PAIR)

    def describe(self) -> list[CorpusInfo]:
        """Return what a manifest says of the corpora; audio counts as there where it was looked for and found."""
        return [
            CorpusInfo(
                name=name_corpus(source),
                path=source.path,
                licence=source.licence,
                utterances=len(table),
                recordings=len(set(table["recording"].to_pylist())),
                recordings_with_audio=sum(
                    corpus == name_corpus(source) and audio is not None for (corpus, _), audio in self._located.items()
                ),
            )
            for source, table in zip(self.sources, self.utterances, strict=True)
        ]

    def _find(self, corpus: str, recording: str) -> RecordingAudio | None:
        key = corpus, recording
        if key not in self._located:
            self._located[key] = self.audio[corpus].find(recording)
        return self._located[key]


def read_replies(
    harvest: ReplyHarvest, environment: StageEnvironment, columns: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return some columns of every finished row, by id."""
    schema = pa.schema([SCORED.field(name) for name in columns])
    ids = set(harvest.summary()["id"].to_pylist())
    return {row["id"]: row for row in harvest.read_columns(environment, ids, schema).to_pylist()}
