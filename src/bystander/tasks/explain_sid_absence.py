"""Why a row of one SID build is not in another: refused there, left out, not cut, its recording missing or not made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bystander.schemas.build_differences import Cause
from bystander.schemas.description_changes import Change, list_changes
from bystander.schemas.sid import NOISE, SILENCE
from bystander.storage.build_contents import read_columns
from bystander.storage.build_manifest import ManifestBase
from bystander.storage.filesystem import Store
from bystander.storage.sid_manifest import SidManifest
from bystander.tasks.explain_absence import Absence, describe_rejection, say_changes
from bystander.tasks.row_ways import CUT, PLAN_SILENCES, Way
from bystander.tasks.trace_causes import StageChanges

SID_ABSENCE_COLUMNS = ("id", "recording_id", "category", "synthetic")
"""Columns of a row that is to be explained."""


class SidAbsence(Absence):
    """Explains the absence of rows from one of two SID builds."""

    def __init__(self, store: Store, manifest: SidManifest, changes: StageChanges, where: str) -> None:
        """Read what is needed of the build that lacks the rows, as `Absence` does."""
        super().__init__(store, manifest, changes, where)
        self._recordings = set(self._refused.recording_ids)
        for _, batch in read_columns(store, manifest, ("recording_id",)):
            self._recordings.update(batch.column("recording_id").to_pylist())

    def explain(self, row: Mapping[str, Any], way: Way) -> Cause:
        """Return why a row, with the columns `SID_ABSENCE_COLUMNS`, is not in the build."""
        where, recording = self._where, row["recording_id"]
        if row["id"] in self._refused.rows:
            return describe_rejection(self._refused.rows[row["id"]], way, self._changes, where)
        if row["category"] in (SILENCE, NOISE):
            step = PLAN_SILENCES if row["category"] == SILENCE else "plan_noise"
            changes = self._list_clip_changes(row["category"])
            fields = ", ".join(change.field for change in changes)
            reason = say_changes(changes) or ": other clips are made of what its input has"
            return Cause("not_drawn", step, fields, f"{where} never began it{reason}")
        if recording in self._refused.recordings:
            found = describe_rejection(self._refused.recordings[recording], way, self._changes, where)
            return Cause("rejected", found.stage, found.field, f"its recording is missing: {found.sentence}")
        if recording in self._recordings:
            until = [step.name for step in way.steps][: [step.name for step in way.steps].index(CUT) + 1]
            changes = list(dict.fromkeys(change for step in until for change in self._changes.of(step)))
            fields = ", ".join(change.field for change in changes)
            return Cause("not_drawn", CUT, fields, f"{where} has no such turn in its recording{say_changes(changes)}")
        if not row["synthetic"]:
            return Cause("no_request", "input", "recordings", f"its recording is not in the input of {where}")
        changes = self._list_changes(("seed", "targets", "conversations", "surplus", "max_waves"))
        fields = ", ".join(change.field for change in changes)
        reason = say_changes(changes) or ": the quotas were full before its turn came"
        return Cause("not_drawn", "plan_conversations", fields, f"{where} never began its conversation{reason}")

    def _list_clip_changes(self, category: str) -> list[Change]:
        asked = self._list_changes(("seed", "noise") if category == NOISE else ("seed", "recordings"))
        targets = self._list_changes(("targets",))
        return [*asked, *(change for change in targets if change.field == f"targets.{category}")]

    def _list_changes(self, fields: tuple[str, ...]) -> list[Change]:
        return list(
            list_changes(
                *(_select(manifest, fields) for manifest in self._changes.manifests),
            )
        )


def _select(manifest: ManifestBase, fields: tuple[str, ...]) -> dict[str, Any]:
    return {name: manifest.config[name] for name in fields if name in manifest.config}
