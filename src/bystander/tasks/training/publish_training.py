"""Publishes a training run: its files, histories, card and page, the manifest last."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from bystander.pages.training_report import render_training_report
from bystander.schemas.training_config import TrainingConfig
from bystander.schemas.training_data import DataRecord, LeftOutRow
from bystander.storage.build_manifest import MANIFEST_NAME, REPORT_NAME, get_code_version, list_package_versions
from bystander.storage.card_parts import CARD_NAME
from bystander.storage.filesystem import Store
from bystander.storage.training_card import render_training_card
from bystander.storage.training_manifest import (
    PACKAGES,
    PhaseRecord,
    TrainedFile,
    TrainingKind,
    TrainingManifest,
    digest_training,
    write_training_manifest,
)
from bystander.tasks.training.mixture import tell_data
from bystander.tasks.training.report_training import describe_training
from bystander.tasks.training.trained import Trained, TrainedPhase, TrainingInputs
from bystander.tasks.training.training_history import format_history

_CHUNK_BYTES = 1 << 20
LEFT_OUT_FILE = "left_out.jsonl"
"""Of a run: its rows that were not trained on, a JSON object a line; the manifest counts them by reason."""
_OWN_NAMES = frozenset({CARD_NAME, MANIFEST_NAME, REPORT_NAME, LEFT_OUT_FILE})


def publish_training(
    folder: Store, config: TrainingConfig, kind: TrainingKind, architecture: str, inputs: TrainingInputs, run: Trained
) -> TrainingManifest:
    """Write a run's folder and return its manifest; without one, it is unfinished.

    What lay there before is removed first, its manifest before all else.

    Raises:
        StorageError: a file cannot be written.
    """
    folder.remove(MANIFEST_NAME)
    folder.remove_temporaries()  # of a run that was killed here
    folder.remove("", recursive=True)
    data = _count_left_out(inputs.data, run.left_out)
    files = [_copy(folder, path, name) for name, path in _list_files(run.folder)]
    if rows := (*inputs.left_out, *run.left_out):
        files.append(_write(folder, LEFT_OUT_FILE, "".join(f"{row.model_dump_json()}\n" for row in rows).encode()))
    files += [
        _write(folder, _name_history(phase), format_history(phase.outcome.history).encode()) for phase in run.phases
    ]
    manifest = TrainingManifest(
        name=config.training_name,
        kind=kind,
        architecture=architecture,
        content_digest=digest_training(kind, config, inputs.data, inputs.base_model),
        config=config.model_dump(mode="json"),
        data=data,
        base_model=inputs.base_model,
        phases=tuple(_describe_phase(phase) for phase in run.phases),
        figures=dict(run.figures),
        notes=(*run.notes, *tell_data(inputs.data)),
        files=tuple(files),
        code_version=get_code_version(),
        packages=list_package_versions(PACKAGES),
    )
    card = _write(folder, CARD_NAME, render_training_card(manifest, run.usage).encode())
    report = _write(folder, REPORT_NAME, render_training_report(describe_training(manifest, run)).encode())
    manifest = manifest.model_copy(update={"files": (*files, card, report)})
    write_training_manifest(folder, manifest)
    return manifest


def _count_left_out(data: DataRecord, rows: Iterable[LeftOutRow]) -> DataRecord:
    """Return the record with rows that were found unusable when they were read, a row once for each reason."""
    found = Counter(reason for _, _, reason in {(row.file, row.row, row.reason) for row in rows})
    return data.model_copy(update={"left_out": dict(sorted((found + Counter(data.left_out)).items()))})


def _describe_phase(phase: TrainedPhase) -> PhaseRecord:
    losses = [record.loss for record in phase.outcome.history if record.loss is not None]
    held_out = [
        (record.held_out_loss, record.step) for record in phase.outcome.history if record.held_out_loss is not None
    ]
    best = min(held_out, default=(None, None))
    return PhaseRecord(
        phase=phase.phase,
        optimisation=phase.optimisation.model_dump(mode="json"),
        examples=phase.examples,
        held_out=phase.held_out,
        steps=phase.outcome.steps,
        resumed_from=phase.outcome.resumed_from,
        history=_name_history(phase),
        first_loss=losses[0] if losses else None,
        last_loss=losses[-1] if losses else None,
        first_held_out_loss=held_out[0][0] if held_out else None,
        last_held_out_loss=held_out[-1][0] if held_out else None,
        best_held_out_loss=best[0],
        best_step=best[1],
    )


def _name_history(phase: TrainedPhase) -> str:
    return f"history/{phase.phase}.jsonl"


def _list_files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in _OWN_NAMES:
            yield name, path


def _copy(folder: Store, path: Path, name: str) -> TrainedFile:
    with path.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
        source.seek(0)
        with folder.open_write(name) as sink:
            shutil.copyfileobj(source, sink, _CHUNK_BYTES)
    return TrainedFile(file=name, bytes=path.stat().st_size, sha256=digest)


def _write(folder: Store, name: str, data: bytes) -> TrainedFile:
    folder.write_bytes(name, data)
    return TrainedFile(file=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
