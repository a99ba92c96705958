"""Builds with just the rows of another one: its requests, texts, voices and audio, with labels and replies of a pack.

Nothing is spoken and nothing is heard: of a row, only what the pack decides is made, from the published texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from bystander.flows.build_summary import count_strata
from bystander.flows.listeners import BuildListener
from bystander.flows.tpi_build import TpiBuild
from bystander.flows.tpi_harvest import RowHarvest
from bystander.schemas.config import TpiConfig
from bystander.schemas.tpi import CHECKED, HARD_NEGATIVE_LABEL, REALISTIC, REPLIED, VOICED
from bystander.storage.build_manifest import BuildKind, Quota
from bystander.tasks.build_rejects import SetAside
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.publish_tpi import SELECTION, TpiRows
from bystander.tasks.stages import HARD_NEGATIVE_REPLY_STAGES, RELABEL_STAGES
from bystander.tasks.stages.restore_rows import replace_columns
from bystander.tasks.stages.select_quotas import Selection

_OF_PAIRS = ("label", "kind", "label_score", "reply", "reply_attempts")
"""What is made anew of a two-speaker row."""
_OF_SINGLES = ("reply", "reply_attempts")
"""What is made anew of a one-speaker row."""


class _LabelHarvest(RowHarvest):
    """Two-speaker rows with new labels and replies."""

    SUMMARY: ClassVar[pa.Schema] = pa.schema(
        [REPLIED.field(n) for n in ("id", "scenario", "category", "label", "timing")]
    )
    FINISHED: ClassVar[pa.Schema] = REPLIED


class _ReplyHarvest(RowHarvest):
    """One-speaker rows with new replies."""

    FINISHED: ClassVar[pa.Schema] = VOICED


class _SameRowsBuild(TpiBuild[TpiConfig]):
    """Every row of the base is tried once; there are as many of each class as come."""

    row_stages = RELABEL_STAGES
    keeps_lone: ClassVar[bool]
    """Whether a one-speaker row is kept whose two-speaker row is not."""

    def __init__(self, config: TpiConfig, environment: StageEnvironment, listener: BuildListener) -> None:
        super().__init__(config, environment, listener)
        self.rows = _LabelHarvest(RELABEL_STAGES)
        self.singles = _ReplyHarvest(HARD_NEGATIVE_REPLY_STAGES)

    def harvest(self) -> Selection:
        pairs, singles = self.get_base().pairs, self.get_base().singles
        self.listener.on_phase(
            f"new labels and replies for {len(pairs)} two-speaker and {len(singles)} one-speaker rows"
        )
        self.grow(self.rows, pairs.select(REALISTIC.names), "same-rows")
        if len(singles):
            # The stage goes from a two-speaker row to its twin. Of some benches' rows only the twin is published, and
            # all that is read of a row is in it.
            at = VOICED.get_field_index("id")
            bases = singles.set_column(at, VOICED.field(at), singles["twin_id"].cast(pa.string()))
            self.grow(self.singles, replace_columns(bases, {"twin_id": [None] * len(bases)}), "same-rows-one-speaker")
        return self._select()

    def arrange_rows(self, selection: Selection) -> TpiRows:
        base, chosen = self.get_base(), set(selection.ids)
        made = self._read_made()
        left_out = set(self.singles.summary()["id"].to_pylist()) - chosen

        def change(rows: pa.Table) -> pa.Table:
            return _lay_over(rows, made)

        def read(ids: set[str]) -> Iterator[pa.Table]:
            for split in base.manifest.counts.by_split:
                yield from base.read_split(split, ids, change)

        return TpiRows(
            splits={split: base.read_split(split, chosen, change) for split in base.manifest.counts.by_split},
            set_aside=[SetAside(SELECTION, "twin_rejected", len(chosen), CHECKED, read(left_out))],
            twins=selection.twins,
            lone=frozenset(set(selection.hard_negatives) - set(selection.twins)),
        )

    def list_quotas(self, selection: Selection) -> list[Quota]:
        labels, scenarios = count_strata(selection, self.rows.summary())
        counts = {item.key: labels[item.key] for item in self.environment.pack.classes}
        counts[HARD_NEGATIVE_LABEL] = len(selection.hard_negatives)
        return [
            *(Quota(label=label, asked=count, got=count) for label, count in counts.items()),
            *(Quota(scenario=key, asked=scenarios[key], got=scenarios[key]) for key in self.scenarios),
        ]

    def report_accepted(self) -> None:
        # Which label a row gets is open, so there is nothing to hold the counts of single labels against.
        if self.base is not None:
            accepted = {"two-speaker rows": len(self.rows.summary()), "one-speaker rows": len(self.singles.summary())}
            wanted = {"two-speaker rows": len(self.base.pairs), "one-speaker rows": len(self.base.singles)}
            self.listener.on_accepted(accepted, wanted)

    def _select(self) -> Selection:
        pairs = set(self.rows.summary()["id"].to_pylist())
        singles = self.singles.summary()
        twin_of = dict(zip(singles["id"].to_pylist(), singles["twin_id"].to_pylist(), strict=True))
        twins = {row_id: pair for row_id, pair in sorted(twin_of.items()) if pair in pairs}
        chosen = twin_of if self.keeps_lone else twins
        return Selection(tuple(sorted(pairs)), tuple(sorted(chosen)), twins, shortfalls=())

    def _read_made(self) -> dict[str, dict[str, Any]]:
        """Return the new values of each row that has some."""
        made: dict[str, dict[str, Any]] = {}
        for harvest, columns in ((self.rows, _OF_PAIRS), (self.singles, _OF_SINGLES)):
            ids = set(harvest.summary()["id"].to_pylist())
            schema = pa.schema(
                [VOICED.field(name) for name in ("id", *columns, "twin_id") if name in harvest.FINISHED.names]
            )
            for row in harvest.read_columns(self.environment, ids, schema).to_pylist():
                made[row["id"]] = {name: row[name] for name in columns}
                # A twin has the scores of its transcript's row.
                if row.get("twin_id") in made:
                    made[row["id"]]["label_score"] = made[row["twin_id"]]["label_score"]
        return made


class SameTrainRows(_SameRowsBuild):
    """The rows of a TPI-Train: a one-speaker row goes with its two-speaker row."""

    kind: ClassVar[BuildKind] = "tpi_train"
    keeps_lone = False


class SameBenchRows(_SameRowsBuild):
    """The rows of a TPI-Bench."""

    kind: ClassVar[BuildKind] = "tpi_bench"
    keeps_lone = True


def _lay_over(rows: pa.Table, made: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    old = rows.select(_OF_PAIRS).to_pylist()
    new = [{**row, **made.get(row_id, {})} for row_id, row in zip(rows["id"].to_pylist(), old, strict=True)]
    return replace_columns(rows, {name: [row[name] for row in new] for name in _OF_PAIRS})
