"""Why a row of one TPI build is not in another: refused there, left out by the quotas, never begun, not asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from bystander.schemas.build_differences import Cause
from bystander.schemas.config import QuerySource
from bystander.schemas.description_changes import Change, list_changes
from bystander.schemas.errors import BystanderError
from bystander.storage.build_contents import read_columns
from bystander.storage.build_manifest import BuildManifest, ManifestBase
from bystander.storage.filesystem import Store
from bystander.storage.query_files import read_queries
from bystander.tasks.rejected_rows import Rejection, read_rejected_rows
from bystander.tasks.row_ways import Way
from bystander.tasks.trace_causes import StageChanges

TPI_ABSENCE_COLUMNS = ("id", "query_id", "query_text", "n_speakers", "twin_id")
"""Columns of a row that is to be explained."""

QUOTA_STEPS = frozenset({"select_quotas", "select_texts", "select_sid"})
_SHOWN = 3
_DRAW = "draw_scenarios"


class Absence:
    """Explains the absence of rows from one of two builds."""

    def __init__(self, store: Store, manifest: ManifestBase, changes: StageChanges, where: str) -> None:
        """Read what the build that lacks the rows refused.

        Args:
            store: its folder.
            manifest: its manifest.
            changes: what differs between the two builds.
            where: how to name it, in sentences.

        Raises:
            StorageError: a file of it cannot be read.
        """
        self._changes = changes
        self._where = where
        self._refused = read_rejected_rows(store, manifest)


class TpiAbsence(Absence):
    """Explains the absence of rows from one of two TPI builds."""

    def __init__(self, store: Store, manifest: BuildManifest, changes: StageChanges, where: str) -> None:
        """Read what is needed of the build that lacks the rows, as `Absence` does."""
        super().__init__(store, manifest, changes, where)
        self._manifest = manifest
        self._ambiguity: dict[str, float | None] = {}
        self._queries = set(self._refused.query_ids)
        for _, batch in read_columns(store, manifest, ("id", "query_id"), ("ambiguity_score",)):
            for row in batch.to_pylist():
                self._ambiguity[row["id"]] = row.get("ambiguity_score")
                self._queries.add(row["query_id"])
        self._input: frozenset[str] | None = None
        self._input_is_read = False

    def explain(self, row: Mapping[str, Any], way: Way) -> Cause:
        """Return why a row, with the columns `TPI_ABSENCE_COLUMNS`, is not in the build."""
        if row["id"] in self._refused.rows:
            return describe_rejection(self._refused.rows[row["id"]], way, self._changes, self._where)
        if self._manifest.parts_of is not None:
            return Cause("other_source", "split", "", f"not in the build that {self._where} was cut from")
        if row["n_speakers"] == 1 and row["twin_id"] is not None:
            return self._explain_single(row, way)
        return self._explain_request(row)

    def _explain_single(self, row: Mapping[str, Any], way: Way) -> Cause:
        stage = "build_hard_negatives"
        if row["twin_id"] not in self._ambiguity:
            pair = self.explain({**row, "id": row["twin_id"], "n_speakers": 2}, way)
            return Cause(pair.code, pair.stage, pair.field, f"its two-speaker row is missing: {pair.sentence}")
        params = (self._manifest.config.get("stages") or {}).get(stage) or {}
        least, score = params.get("min_ambiguity"), self._ambiguity[row["twin_id"]]
        if least is not None and score is not None and score < least:
            changes = [change for change in self._changes.of(stage) if change.field == "params.min_ambiguity"]
            said = say_changes(changes)
            return Cause(
                "rejected", stage, "not_ambiguous", f"{self._where} finds its transcript not ambiguous enough{said}"
            )
        asked = [change for change in self._list_targets() if change.field == "targets.hard_negatives"]
        return Cause(
            "not_drawn",
            stage,
            "targets.hard_negatives",
            f"{self._where} needed no more hard negatives{say_changes(asked)}",
        )

    def _explain_request(self, row: Mapping[str, Any]) -> Cause:
        rejection = self._refused.requests.get(row["query_text"])
        if row["query_id"] not in self._queries:
            if rejection is not None:
                said = say_changes(self._changes.of(rejection.stage))
                sentence = f"{self._where} refused its request: {rejection.stage}, {rejection.reason}{said}"
                return Cause("no_request", rejection.stage, rejection.reason, sentence)
            if self._has_request(row["query_text"]) is False:
                return Cause("no_request", "input", "queries", f"its request is not in the input of {self._where}")
        changes = self._list_plan_changes()
        fields = ", ".join(change.field for change in changes)
        reason = say_changes(changes) or ": the quotas were full before its turn came"
        if row["query_id"] not in self._queries and self._has_request(row["query_text"]) is None:
            reason += "; or its request is not in the input, which is not to be seen any more"
        return Cause("not_drawn", _DRAW, fields, f"{self._where} never began it{reason}")

    def _has_request(self, text: str) -> bool | None:
        """Return whether a request of a query that no row was seen of is in the build's input; None: not known.

        It is not if each usable query of the build was seen in some row. Else the input is looked at, if it is still
        there and has as many records as it had.
        """
        counts = next((one for one in self._manifest.stages if one.stage == "normalise_queries"), None)
        if counts is None:
            return None
        if counts.kept <= len(self._queries):
            return False
        if not self._input_is_read:
            self._input_is_read = True
            self._input = _read_input(self._manifest, counts.rows_in)
        return None if self._input is None else text in self._input

    def _list_plan_changes(self) -> list[Change]:
        """Return what changed of that which decides the rows that are begun, and their order."""
        before, after = self._changes.manifests
        drawn = [change for change in self._changes.of(_DRAW) if change.field != "build_seed"]
        plain = [
            {key: m.config.get(key) for key in ("on_top_of", "wave_surplus", "max_waves")} for m in (before, after)
        ]
        seeds = list_changes({"seed": before.seed}, {"seed": after.seed})
        found = [*seeds, *self._list_targets(), *drawn, *list_changes(*plain)]
        counts = [{"queries": {"usable": _count_usable(m)}} for m in (before, after)]
        return found or list(list_changes(*counts))

    def _list_targets(self) -> tuple[Change, ...]:
        return list_changes(*({"targets": m.config.get("targets")} for m in self._changes.manifests))


def describe_rejection(rejection: Rejection, way: Way, changes: StageChanges, where: str) -> Cause:
    """Return the cause of a row that was refused, with what changed on its way until then."""
    stage, reason = rejection.stage, rejection.reason
    if stage in QUOTA_STEPS:
        asked = list_changes(*({"seed": m.seed, "targets": m.config.get("targets")} for m in changes.manifests))
        return Cause("quota", stage, reason, f"the quotas of {where} had no room for it{say_changes(asked)}")
    steps = [step.name for step in way.steps]
    until = steps[: steps.index(stage) + 1] if stage in steps else steps
    found = list(dict.fromkeys(change for step in until for change in changes.of(step)))
    said = say_changes(found)
    if not said and changes.are_known:
        said = ", though nothing changed that decides it"
    return Cause("rejected", stage, reason, f"{where} rejected it in {stage}: {reason}{said}")


def say_changes(changes: Iterable[Change]) -> str:
    """Return the first few changes in brackets; nothing if there are none."""
    said = list(dict.fromkeys(change.sentence for change in changes))
    more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return f" ({'; '.join(said[:_SHOWN])}{more})" if said else ""


def _count_usable(manifest: ManifestBase) -> int | None:
    return next((one.kept for one in manifest.stages if one.stage == "normalise_queries"), None)


def _read_input(manifest: BuildManifest, records: int) -> frozenset[str] | None:
    """Return the texts of a build's input, or None if it is gone or has other records by now."""
    try:
        source = QuerySource.model_validate(manifest.config.get("queries") or {})
        texts: list[str | None] = []
        for table in read_queries(source):
            texts += table["query_text"].to_pylist()
    except (BystanderError, ValidationError, OSError, pa.ArrowException):
        return None
    return frozenset(text for text in texts if text is not None) if len(texts) == records else None
