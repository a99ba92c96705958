"""What the flows that train have in common: one process at a time, going on after a stop, and what comes of it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bystander.flows.listeners import current_listener
from bystander.flows.prefect_listener import PrefectListener
from bystander.flows.replaced_outcome import tell_replaced
from bystander.flows.training_progress import TrainingProgress
from bystander.schemas.errors import StorageError
from bystander.schemas.training_config import TRAINED, TrainingConfig
from bystander.storage.build_lock import lock_build
from bystander.storage.filesystem import open_store
from bystander.storage.training_card import tell_change, tell_counts
from bystander.storage.training_manifest import (
    TrainingKind,
    TrainingManifest,
    digest_training,
    find_training,
    locate_work_folder,
    open_training,
)
from bystander.tasks.training.contract import FitJob
from bystander.tasks.training.publish_training import LEFT_OUT_FILE, publish_training
from bystander.tasks.training.trained import Trained, TrainedPhase, TrainingInputs


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """A finished run: where it is, its manifest, what a person wants to hear of it, and whether anything was done."""

    location: str
    manifest: TrainingManifest
    summary: tuple[str, ...]
    is_new: bool


@dataclass(frozen=True, slots=True)
class TrainingDesk:
    """Where a run is made: folders of this machine, and who is told of it."""

    folder: Path
    listener: PrefectListener

    @property
    def output(self) -> Path:
        """Folder for the files to publish, which is empty when training begins."""
        return self.folder / "files"

    def checkpoints(self, phase: str) -> Path:
        """Return the folder of a phase's checkpoints."""
        return self.folder / "checkpoints" / phase

    def fit(self, job: FitJob) -> TrainedPhase:
        """Run the trainer, going on from its last whole checkpoint; the job's folder is that of its phase here.

        Raises: as `tasks.training.fit.fit`.
        """
        from bystander.tasks.training.fit import fit

        progress = TrainingProgress(self.listener, job.phase, job.config.optimisation)
        outcome = fit(replace(job, folder=self.checkpoints(job.phase)), progress.on_record, progress.on_phase)
        held_out = len(job.held_out) if job.held_out is not None else 0
        return TrainedPhase(job.phase, job.config.optimisation, len(job.train), held_out, outcome)


def run_training(
    config: TrainingConfig,
    kind: TrainingKind,
    architecture: str,
    inputs: TrainingInputs,
    train: Callable[[TrainingDesk], Trained],
) -> TrainingOutcome:
    """Train and publish, or return what lies published from just the same.

    A process that is stopped leaves whole checkpoints and no half of a run; the same command goes on from there.

    Args:
        config: of the run.
        kind: what it is trained for.
        architecture: name of the model's kind, as in the configuration.
        inputs: what it is trained on, and from which model.
        train: makes the run at the desk that it is given: `desk.fit(job)` for each phase, files into `desk.output`.

    Raises:
        BuildError: another process makes this run, or its checkpoints come from other data.
        StorageError: something cannot be read or written.
    """
    store, name = open_store(config.store), config.training_name
    folder = open_training(store, name)
    listener = PrefectListener(current_listener(), name, "Training")
    with lock_build(store, TRAINED, name) as lock:
        digest = digest_training(kind, config, inputs.data, inputs.base_model)
        manifest = find_training(store, name, digest)
        is_new = manifest is None
        if manifest is None:
            tell_replaced(folder, listener.on_phase)
            with _open_desk(locate_work_folder(store, name), listener) as desk:
                run = train(desk)
                listener.on_phase("publishing")
                lock.assert_held()
                manifest = publish_training(folder, config, kind, architecture, inputs, run)
        else:
            shutil.rmtree(locate_work_folder(store, name), ignore_errors=True)  # of one that was killed at its very end
            listener.on_phase("nothing new: the published run was trained on just this")
    summary = summarise_training(manifest, folder.uri)
    listener.publish_summary(summary, folder.uri)
    return TrainingOutcome(folder.uri, manifest, summary, is_new)


def summarise_training(manifest: TrainingManifest, location: str) -> tuple[str, ...]:
    """Return what a person wants to hear of a run, a sentence a line."""
    parts = ", ".join(f"{part.an_epoch} {name}" for name, part in manifest.data.parts.items())
    lines = [f"{location}: {manifest.architecture}, trained on {parts or 'no'} rows an epoch."]
    for phase in manifest.phases:
        losses = tell_change(phase.first_loss, phase.last_loss)
        line = f"{phase.phase}: {phase.steps} steps" + (f", loss {losses}" if losses else "")
        if phase.last_held_out_loss is not None:
            held_out = tell_change(phase.first_held_out_loss, phase.last_held_out_loss)
            line += f"; held-out loss {held_out}, lowest {phase.best_held_out_loss:.4f} at step {phase.best_step}"
        lines.append(f"{line}.")
        if phase.resumed_from:
            steps = ", ".join(map(str, phase.resumed_from))
            lines.append(f"{phase.phase} was stopped, and taken up again at step {steps}.")
    if manifest.data.left_out:
        lines.append(f"Rows left out: {tell_counts(manifest.data.left_out)}; see {LEFT_OUT_FILE}.")
    told = {name: value for name, value in manifest.figures.items() if isinstance(value, int | float | str)}
    lines += [
        f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}" for name, value in told.items()
    ]
    return (*lines, *manifest.notes)


@contextlib.contextmanager
def _open_desk(folder: Path, listener: PrefectListener) -> Iterator[TrainingDesk]:
    """Make the folders of a run, and remove them when the block ends without an error."""
    desk = TrainingDesk(folder, listener)
    try:
        shutil.rmtree(desk.output, ignore_errors=True)
        desk.output.mkdir(parents=True)
    except OSError as exc:
        raise StorageError(f"{desk.output}: cannot be made ({exc.strerror})") from exc
    yield desk
    shutil.rmtree(folder, ignore_errors=True)
