"""The curves of a published training run, as text."""

from __future__ import annotations

from bystander.storage.filesystem import Store, open_store
from bystander.storage.training_manifest import TrainingManifest
from bystander.tasks.training.contract import StepRecord
from bystander.tasks.training.text_curve import draw_curve
from bystander.tasks.training.training_history import parse_history


def read_histories(folder: Store, manifest: TrainingManifest) -> dict[str, tuple[StepRecord, ...]]:
    """Return the records of each phase of a run.

    Raises:
        StorageError: a history cannot be read.
        InputError: a history is damaged.
    """
    return {
        phase.phase: parse_history(folder.read_bytes(phase.history).decode(), folder.uri_of(phase.history))
        for phase in manifest.phases
    }


def draw_curves(location: str, manifest: TrainingManifest) -> str:
    """Return the curves of all phases, each under its name.

    Raises: as `read_histories`.
    """
    histories = read_histories(open_store(location), manifest)
    return "\n".join(f"{phase}\n{draw_curve(records)}" for phase, records in histories.items())
