"""The contract of a stage: a named, versioned, pure function from a table to kept and rejected rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from bystander.schemas.activity import VoiceActivityDetector
from bystander.schemas.alignment import Aligner
from bystander.schemas.arrays import build_array
from bystander.schemas.detection import Detector
from bystander.schemas.engines import (
    CandidateEngine,
    EngineRole,
    Recogniser,
    RowFault,
    SpeakerVerifier,
    SpeechEngine,
    TextEngine,
)
from bystander.schemas.errors import StageContractError
from bystander.schemas.exclusions import NO_EXCLUSIONS, Exclusions
from bystander.schemas.packs import PromptPack
from bystander.schemas.recordings import AudioDecoder
from bystander.schemas.taxonomy import Taxonomy

REJECT_FIELDS: tuple[pa.Field, ...] = (
    pa.field("reject_stage", pa.string(), nullable=False),
    pa.field("reject_reason", pa.string(), nullable=False),
    pa.field("reject_detail", pa.string()),
    pa.field("raw_output", pa.string()),
)
"""Columns that a rejected row gains: stage, stable reason code, one sentence, and the raw model output if any."""


class Params(BaseModel):
    """Base of all settings: frozen, no unknown fields, no number that is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class StageContext:
    """All that a stage may use besides its rows. Engines are handed in; a stage opens none."""

    build_seed: int
    params: Params
    taxonomy: Taxonomy
    pack: PromptPack
    engines: Mapping[EngineRole, Any] = field(default_factory=dict)
    exclusions: Exclusions = NO_EXCLUSIONS

    @property
    def writer(self) -> TextEngine:
        return cast(TextEngine, self.engines["writer"])

    @property
    def judge(self) -> TextEngine:
        return cast(TextEngine, self.engines["judge"])

    @property
    def speech(self) -> SpeechEngine:
        return cast(SpeechEngine, self.engines["speech"])

    @property
    def recogniser(self) -> Recogniser:
        return cast(Recogniser, self.engines["recogniser"])

    @property
    def verifier(self) -> SpeakerVerifier:
        return cast(SpeakerVerifier, self.engines["verifier"])

    @property
    def candidate(self) -> CandidateEngine:
        return cast(CandidateEngine, self.engines["candidate"])

    @property
    def decoder(self) -> AudioDecoder:
        return cast(AudioDecoder, self.engines["decoder"])

    @property
    def vad(self) -> VoiceActivityDetector | None:
        return cast("VoiceActivityDetector | None", self.engines.get("vad"))

    @property
    def aligner(self) -> Aligner:
        return cast(Aligner, self.engines["aligner"])

    @property
    def second_aligner(self) -> Aligner | None:
        return cast("Aligner | None", self.engines.get("second_aligner"))

    @property
    def detector(self) -> Detector:
        return cast(Detector, self.engines["detector"])

    @property
    def taggers(self) -> list[TextEngine]:
        """The tagger, and the second one where there is one."""
        return [self.engines[role] for role in ("tagger", "second_tagger") if role in self.engines]


@dataclass(frozen=True, slots=True)
class StageOutput:
    """`kept` has the schema that the stage writes; `rejected` the schema read plus `REJECT_FIELDS`.

    `kept_at` and `rejected_at` are the positions of those rows in the table read, ascending: together they are every
    position once. They let a result be stored as what it adds to its input, and be reused when other columns change.
    """

    kept: pa.Table
    rejected: pa.Table
    kept_at: tuple[int, ...]
    rejected_at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage. `version` is raised whenever the rows that it would write change.

    `reads` and `writes` are Arrow schemas; `reasons` are all codes that it rejects with; `engines` the roles it needs.
    `uses` names the columns of `reads` that its results depend on (empty: all): when only others change, its stored
    result still holds, and the others need not be handed to it. `text_tasks` names the tasks of the pack that it
    renders.
    """

    name: str
    version: int
    reads: pa.Schema
    writes: pa.Schema
    reasons: frozenset[str]
    run: Callable[[pa.Table, StageContext], StageOutput]
    params_type: type[Params] = Params
    engines: tuple[EngineRole, ...] = ()
    optional_engines: tuple[EngineRole, ...] = ()
    """Roles that it uses where a configuration fills them."""
    uses: tuple[str, ...] = ()
    text_tasks: tuple[str, ...] = ()
    from_engines: tuple[str, ...] = ()
    """Columns that it writes from what its engines answer. The others then follow from its rows, its settings and its
    version alone, whatever its prompts and engines are. Empty: any column may depend on its engines."""
    class_fields: tuple[str, ...] = ()
    """Fields of the pack's classes that it looks at itself, whether or not a template shows them; of `kinds`, the keys.
    """
    checks_leaks: bool = False
    """Whether it refuses texts in which the key of a class stands, and looks at nothing else of the classes."""
    uses_taxonomy: bool = False
    uses_exclusions: bool = False
    """Whether its results depend on what other builds use."""
    list_files: Callable[[Any], Sequence[tuple[str, Path]]] | None = None
    """From its settings to the files of the user's that it reads, each with a name: their contents decide its rows."""

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that must be handed to it, in the order of `reads`."""
        return tuple(name for name in self.reads.names if not self.uses or name in self.uses)

    def __call__(self, rows: pa.Table, context: StageContext) -> StageOutput:
        """Run the stage and hold it to its contract: schemas, known reasons, and no row lost or doubled.

        `rows` may lack columns that the stage does not use (audio that is only carried on is dear to read and copy).
        The output lacks them too, unless the stage writes them anew.

        Raises:
            StageContractError: the stage broke its contract.
        """
        given = [name for name in self.reads.names if name in rows.schema.names]
        if rows.schema.names != given or not {*self.needed} <= {*given}:
            raise StageContractError(f"{self.name}: reads {self.reads.names}, was given {rows.schema.names}")
        output = self.run(rows, context)
        left_out = {*self.reads.names} - {*given}
        written = {*output.kept.schema.names}
        if output.kept.schema != pa.schema([c for c in self.writes if c.name in written or c.name not in left_out]):
            raise StageContractError(f"{self.name}: wrote a table of another schema: {output.kept.schema}")
        if output.rejected.schema != reject_schema(pa.schema([self.reads.field(name) for name in given])):
            raise StageContractError(f"{self.name}: wrote rejects of another schema: {output.rejected.schema}")
        if (len(output.kept), len(output.rejected)) != (len(output.kept_at), len(output.rejected_at)) or sorted(
            [*output.kept_at, *output.rejected_at]
        ) != list(range(len(rows))):
            raise StageContractError(
                f"{self.name}: {len(rows)} rows in, {len(output.kept)} kept, {len(output.rejected)} rejected; "
                "every row must be one or the other, once"
            )
        unknown = set(output.rejected["reject_reason"].to_pylist()) - self.reasons
        if unknown:
            raise StageContractError(f"{self.name}: rejects with undeclared reasons {sorted(unknown)}")
        return output


def reject_schema(reads: pa.Schema) -> pa.Schema:
    """Return the schema of a stage's rejects: its input columns and `REJECT_FIELDS`."""
    schema = reads
    for column in REJECT_FIELDS:
        schema = schema.append(column)
    return schema


def split_rows(
    stage: str,
    rows: pa.Table,
    outcomes: Sequence[Mapping[str, Any] | RowFault],
    writes: pa.Schema,
) -> StageOutput:
    """Build a stage's output from one outcome a row: the new column values of a kept row, or why it is rejected.

    Columns of `writes` that `rows` has too are carried over unless the outcome gives them anew. Those that are in
    neither are left out, which `Stage` takes only for columns that the stage was not handed.
    """
    if len(outcomes) != len(rows):
        raise StageContractError(f"{stage}: {len(rows)} rows, {len(outcomes)} outcomes")
    kept_at = [i for i, outcome in enumerate(outcomes) if not isinstance(outcome, RowFault)]
    lost_at = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, RowFault)]
    # Rows that carry audio are dear to copy: where none is lost, none is.
    taken = rows.take(pa.array(kept_at, pa.int64())) if lost_at else rows
    values = [cast(Mapping[str, Any], outcomes[i]) for i in kept_at]
    fields: list[pa.Field] = []
    columns: list[pa.Array | pa.ChunkedArray] = []
    for column in writes:
        if values and column.name in values[0]:
            columns.append(build_array([value[column.name] for value in values], column.type))
        elif column.name in taken.schema.names:
            columns.append(taken[column.name])
        elif not values:
            columns.append(pa.array([], column.type))
        else:
            continue
        fields.append(column)
    kept = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    faults = [cast(RowFault, outcomes[i]) for i in lost_at]
    rejected = rows.take(pa.array(lost_at, pa.int64()))
    extra: list[list[str | None]] = [
        [stage] * len(faults),
        [fault.reason for fault in faults],
        [fault.detail or None for fault in faults],
        [fault.raw_output for fault in faults],
    ]
    for column, cells in zip(REJECT_FIELDS, extra, strict=True):
        rejected = rejected.append_column(column, pa.array(cells, column.type))
    return StageOutput(kept=kept, rejected=rejected, kept_at=tuple(kept_at), rejected_at=tuple(lost_at))
