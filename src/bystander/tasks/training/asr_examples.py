"""Examples of stage 1: clips and what is said in them, from builds and from Parquet with transcripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import RowFault, Samples
from bystander.schemas.errors import ConfigError, InputError
from bystander.schemas.sid_lm_config import SidLmConfig, TranscribedSource
from bystander.schemas.train_sid_config import TrainSidConfig
from bystander.schemas.train_tpi_config import DyadicSource
from bystander.tasks.training.contract import ExampleSource
from bystander.tasks.training.dyadic_rows import index_dyadic
from bystander.tasks.training.hold_out import hold_out_voices
from bystander.tasks.training.mixture import split_held_out
from bystander.tasks.training.row_draws import draw_once
from bystander.tasks.training.row_index import RowIndex, index_sid_builds, index_tpi_builds, join_indexes
from bystander.tasks.training.shard_examples import ShardExamples
from bystander.tasks.training.sid_crops import SAMPLING_RATE, hear_clip


@dataclass(frozen=True, slots=True)
class AlignmentExample:
    """A clip, shape (n,), float32, 16 kHz, and its transcript."""

    id: str
    samples: Samples
    text: str


@dataclass(frozen=True, slots=True)
class MakeAlignment:
    """From rows to `AlignmentExample`s, as `ShardExamples` asks for them."""

    text_columns: tuple[str, ...]
    """What they say one after another."""
    max_s: float
    """Longest clip: of a longer one the beginning would not be heard, though its words stand in the text."""

    def __call__(self, row: Mapping[str, Any], _: np.random.Generator) -> AlignmentExample | RowFault:
        """Return an example, or `empty_transcript`, `unreadable_audio` or `too_long_to_align`."""
        text = " ".join(" ".join(row[name] or "" for name in self.text_columns).split())
        if not text:
            return RowFault("empty_transcript", "the row has no text")
        try:
            samples = hear_clip(row["audio"] or b"")
        except InputError as exc:
            return RowFault("unreadable_audio", str(exc))
        if len(samples) > self.max_s * SAMPLING_RATE:
            return RowFault("too_long_to_align", f"{len(samples) / SAMPLING_RATE:.1f} s; {self.max_s:g} s are heard")
        return AlignmentExample(row["id"], samples, text)


class JoinedSource:
    """Examples of several sources, one after another, as one."""

    def __init__(self, sources: Sequence[ExampleSource]) -> None:
        self._sources = tuple(sources)
        self._starts = np.cumsum([0, *(len(source) for source in self._sources)])
        groups, first = [np.zeros(0, np.int64)], 0
        for source in self._sources:
            groups.append(source.groups + first)
            first = max(first, int(groups[-1].max(initial=first - 1)) + 1)
        self._groups = np.concatenate(groups)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def lengths(self) -> npt.NDArray[np.float64]:
        return np.concatenate([np.zeros(0), *(source.lengths for source in self._sources)])

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        return self._groups

    def read(self, numbers: Sequence[int], epoch: int) -> list[Any]:
        """Return the examples of these numbers, in order; each source is asked once."""
        wanted = np.asarray(numbers, np.int64)
        owners = np.searchsorted(self._starts, wanted, side="right") - 1
        examples: list[Any] = [None] * len(wanted)
        for owner in np.unique(owners):
            places = np.flatnonzero(owners == owner)
            inner = [int(number) for number in wanted[places] - self._starts[owner]]
            for place, example in zip(places, self._sources[owner].read(inner, epoch), strict=True):
                examples[place] = example
        return examples


@dataclass(frozen=True, slots=True)
class AlignmentRows:
    """Sources of stage 1; `held_out` is None where nothing is held out."""

    train: JoinedSource
    held_out: JoinedSource | None
    parts: tuple[ShardExamples, ...]
    """What they are joined of: each tells which rows it left out."""
    indexes: tuple[RowIndex, ...]


def open_alignment(config: TrainSidConfig, model: SidLmConfig, left_out_file: Path | None = None) -> AlignmentRows:
    """Open the rows of a run's stage 1.

    Raises: as `open_alignment_rows`.
    """
    return open_alignment_rows(
        config.data if model.align_on_builds else (),
        model.transcripts,
        model.tpi_builds,
        max_s=model.max_context_s,
        seed=config.seed,
        held_out=config.held_out.share,
        left_out_file=left_out_file,
    )


def open_alignment_rows(
    builds: Sequence[str],
    transcripts: Sequence[TranscribedSource] = (),
    tpi_builds: Sequence[str] = (),
    *,
    max_s: float,
    seed: int,
    held_out: float,
    left_out_file: Path | None = None,
) -> AlignmentRows:
    """Open all rows with a text, each once an epoch. What stage 2 holds out of a build, stage 1 does too.

    Raises:
        ConfigError: there is no clip with a text to train on.
        BuildError: one is no finished build of its kind, or a shard is not as its manifest says.
        InputError: Parquet is missing or lacks a column.
        StorageError: a shard cannot be read.
    """
    # Requests with replies are read as they are; that the reply is the request again costs nothing.
    dyadic = [
        DyadicSource(
            path=one.path, audio_column=one.audio_column, text_column=one.text_column, reply_column=one.text_column
        )
        for one in transcripts
    ]
    found: list[tuple[RowIndex, tuple[str, ...]]] = []
    if builds:
        found.append((index_sid_builds(builds, to_train_on=True), ("text",)))
    if tpi_builds:
        found.append(
            (
                index_tpi_builds(tpi_builds, to_train_on=True, option="model.tpi_builds"),
                ("primary_text", "third_party_text"),
            )
        )
    if dyadic:
        try:
            found.append((index_dyadic(dyadic, join_indexes(())), ("request",)))
        except InputError as exc:
            raise InputError(f"--transcripts {str(exc).removeprefix('dyadic ')}") from exc
    train: list[ShardExamples] = []
    held: list[ShardExamples] = []
    for index, columns in found:
        with_text = index.rows["text_chars"].to_numpy() > 0
        # What stage 2 holds out of a build, stage 1 does too.
        is_sid = any(source.kind == "sid" for source in index.sources)
        queries = index.rows["query_id"]
        is_held = hold_out_voices(index, seed, held_out).held if is_sid else split_held_out(queries, seed, held_out)
        for chosen, sources in ((with_text & ~is_held, train), (with_text & is_held, held)):
            sources.append(
                ShardExamples(
                    index,
                    MakeAlignment(columns, max_s),
                    ("audio", *columns),
                    rate=None,
                    seed=seed,
                    draws=draw_once(np.flatnonzero(chosen)),
                    left_out_file=left_out_file,
                )
            )
    joined, held_joined = JoinedSource(train), JoinedSource(held)
    if not len(joined):
        raise ConfigError(
            "alignment: there is no clip with a text; name builds of SID rows with speech in `data`, or Parquet in "
            "`model.transcripts`, or set `alignment` to null"
        )
    return AlignmentRows(
        joined, held_joined if len(held_joined) else None, (*train, *held), tuple(index for index, _ in found)
    )
