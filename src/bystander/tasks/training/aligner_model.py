"""From clips to a finished alignment model: trained, saved, read back, calibrated and measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bystander.schemas.errors import InputError
from bystander.tasks.engines.kaldi_gmm.acoustic_model import (
    MODEL_FILE,
    AcousticModel,
    Calibration,
    calibrate,
    load_model,
    save_model,
)
from bystander.tasks.engines.kaldi_gmm.clip_alignment import ClipAligner
from bystander.tasks.engines.kaldi_gmm.pronunciations import open_pronouncer
from bystander.tasks.training.aligner_accuracy import (
    calibrate_model,
    measure_starts,
    rate_decisions,
    sample_scores,
    summarise_errors,
)
from bystander.tasks.training.aligner_training import AlignerTraining, TrainingClip, TrainingReport, train_aligner

REPORT_FILE = "training.json"
_CALIBRATION_STEP = 10
_MIN_CLIPS_TO_SPARE = 50


@dataclass(frozen=True, slots=True)
class FinishedModel:
    """A model on disk, ready for `aligner.models`."""

    path: Path
    model: AcousticModel
    report: TrainingReport
    figures: dict[str, Any]


def make_model(
    clips: Sequence[TrainingClip],
    language: str,
    folder: Path,
    params: AlignerTraining | None = None,
    notes: dict[str, Any] | None = None,
    report_progress: Callable[[str], None] = lambda _: None,
) -> FinishedModel:
    """Train on the clips and write `acoustic_model.npz` and `training.json` into a folder.

    One clip in ten is not trained on but calibrates bias and thresholds (of fewer than 50 clips: all do both). Without
    word times the bias stays 0.

    Raises:
        InputError: no clip is usable, or hardly any can be aligned.
        EngineSetupError: a package is missing, or there are no pronunciations of the language.
    """
    params = params or AlignerTraining()
    pronouncer = open_pronouncer(language)
    spared = list(clips[::_CALIBRATION_STEP]) if len(clips) >= _MIN_CLIPS_TO_SPARE else list(clips)
    kept = (
        [clip for i, clip in enumerate(clips) if i % _CALIBRATION_STEP] if len(clips) >= _MIN_CLIPS_TO_SPARE else clips
    )
    model, report = train_aligner(kept, language, pronouncer, params, report_progress)
    if report.failed_last > report.used // 2:
        raise InputError(
            f"{report.failed_last} of {report.used} clips cannot be aligned with their texts; do they belong together?"
        )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MODEL_FILE
    save_model(model, path)
    # Calibrated as it will be used: with the precision of the file.
    model = load_model(path)
    calibration, figures = calibrate_model(ClipAligner(model, pronouncer), spared)
    model.set_info(
        calibrate(
            model.info, calibration, {"pronunciations": pronouncer.version, "clips": report.used, **(notes or {})}
        )
    )
    save_model(model, path)
    _write_report(folder / REPORT_FILE, model, report, figures, params)
    report_progress(f"{path}: {path.stat().st_size} bytes; {_describe(calibration)}")
    return FinishedModel(path, model, report, figures)


def measure_model(path: Path, clips: Sequence[TrainingClip]) -> dict[str, dict[str, Any]]:
    """Return word start errors with the model's bias taken out, for all words and for the words with a new intent.

    Clips count as `immediate` or `backchannel` by their `kind`; their break word is the one that the manifest names.

    Raises:
        EngineSetupError: the model cannot be opened.
    """
    model = load_model(path)
    bias_s = model.info.calibration.bias_s
    aligner = ClipAligner(model, open_pronouncer(model.info.language))
    figures: dict[str, dict[str, Any]] = {}
    errors = measure_starts(aligner, clips)
    if errors:
        figures["all words"] = summarise_errors([e for es in errors.values() for e in es], bias_s).describe()
    for kind in sorted({clip.kind for clip in clips if clip.kind}):
        at_break = [errors[clip.id][clip.break_word] for clip in clips if clip.kind == kind and clip.id in errors]
        if at_break:
            figures[f"break words, {kind}"] = summarise_errors(at_break, bias_s).describe()
    figures["decisions"] = dict(rate_decisions(sample_scores(aligner, clips), model.info.calibration))
    return figures


def _write_report(
    path: Path, model: AcousticModel, report: TrainingReport, figures: dict[str, Any], params: AlignerTraining
) -> None:
    content = {
        "language": model.info.language,
        "params": params.model_dump(mode="json"),
        "used": report.used,
        "left_out": report.left_out,
        "log_likelihoods": [round(value, 3) for value in report.log_likelihoods],
        "calibration": {
            name: getattr(model.info.calibration, name) for name in model.info.calibration.__dataclass_fields__
        },
        "figures": figures,
    }
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _describe(calibration: Calibration) -> str:
    return f"bias {1000 * calibration.bias_s:+.0f} ms, least score {calibration.min_score:g}"
