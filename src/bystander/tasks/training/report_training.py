"""What the page of a run shows, from its manifest, its curves and what its trainer measured."""

from __future__ import annotations

from bystander.schemas.training_report import PhaseCurves, TrainingReport
from bystander.storage.training_manifest import TrainingManifest
from bystander.tasks.training.trained import Trained

_WHAT = {
    "tpi": "a model of requests that a bystander cuts in on",
    "sid": "a detector of interruptions",
}


def describe_training(manifest: TrainingManifest, run: Trained) -> TrainingReport:
    """Return what the page of a finished run shows."""
    sections, base = run.sections, manifest.base_model
    rows = sum(part.rows for part in manifest.data.parts.values())
    origin = f", from {base.name}" if base else ""
    return TrainingReport(
        title=f"Training {manifest.name}",
        summary=f"{manifest.architecture}{origin}: {_WHAT[manifest.kind]}, trained on {rows:,} rows.",
        facts=(
            ("content digest", manifest.content_digest),
            *(
                (("base model", f"{base.name}, {base.revision or 'no revision'}, {base.digest or 'no digest'}"),)
                if base
                else ()
            ),
            ("seed", str(manifest.config["seed"])),
            ("rows trained on, digest of their ids", manifest.data.train_digest),
            ("rows held out, digest of their ids", manifest.data.held_out_digest),
            ("code", manifest.code_version),
            ("packages", ", ".join(f"{name} {version}" for name, version in manifest.packages.items())),
        ),
        settings=manifest.config,
        data=manifest.data,
        phases=tuple(
            PhaseCurves(phase.phase, phase.outcome.history, phase.outcome.resumed_from) for phase in run.phases
        ),
        figures=tuple(
            (name, _show(value)) for name, value in manifest.figures.items() if isinstance(value, int | float | str)
        ),
        notes=manifest.notes,
        crops=sections.crops,
        threshold=sections.threshold,
        benches=sections.benches,
    )


def _show(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
