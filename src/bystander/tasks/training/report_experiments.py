"""What one page shows of several: training runs, detectors on benches, an experiment with mixtures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from bystander.schemas.errors import BuildError, MissingFileError
from bystander.schemas.mixture_results import RESULTS_NAME, MixtureResults
from bystander.schemas.sid_evaluation import AVERAGE
from bystander.schemas.sid_evaluation_scores import SidScores
from bystander.schemas.training_report import DetectorBench, DetectorRow, PhaseCurves, TrainingReport
from bystander.storage.build_manifest import REPORT_NAME
from bystander.storage.evaluation_manifest import read_evaluation
from bystander.storage.filesystem import Store, open_store
from bystander.storage.training_manifest import read_training
from bystander.tasks.training.published_curves import read_histories

TRAINED_ENGINES = frozenset({"recurrent", "sid_lm"})
"""Detectors that trainers of this package make."""
_VAD = "_vad"
"""Ends the names of the engines that tell speech from silence, and nothing more."""


def describe_experiments(
    runs: Sequence[Store], evaluations: Sequence[Store], mixtures: Store | None, goal: float | None, beside: Store
) -> TrainingReport:
    """Return what the page shows, with links to the pages of all that it joins.

    Args:
        runs: folders of training runs, whose curves are shown.
        evaluations: folders of evaluations of interruption detection, a bench each.
        mixtures: folder of an experiment with mixtures.
        goal: how many times better than the best VAD in APT a trained detector is hoped to be.
        beside: the folder that the page will lie in.

    Raises:
        BuildError: something is unfinished, damaged or of another kind.
        StorageError: something cannot be read.
    """
    phases: list[PhaseCurves] = []
    facts: list[tuple[str, str]] = []
    notes: list[str] = []
    links: list[tuple[str, str]] = []
    seen: dict[str, str] = {}
    for folder in runs:
        manifest = read_training(folder)
        for phase, history in read_histories(folder, manifest).items():
            resumed = next(one.resumed_from for one in manifest.phases if one.phase == phase)
            phases.append(PhaseCurves(f"{manifest.name}, {phase}", history, resumed))
        facts.append((f"training {manifest.name}", f"{folder.uri}, content {manifest.content_digest[:12]}"))
        seen |= {open_store(source.address).uri: manifest.name for source in manifest.data.sources}
        notes += manifest.notes
        links.append((f"training {manifest.name}", _find_page(folder, beside)))
    benches = []
    for folder in evaluations:
        _, scores = read_evaluation(folder, SidScores)
        benches.append(describe_bench(scores, goal, seen.get(open_store(scores.bench.uri).uri)))
        facts.append((f"evaluation {scores.name}", f"{folder.uri}, bench {scores.bench.digest[:12]}"))
        links.append((f"evaluation {scores.name}", _find_page(folder, beside)))
    results = None if mixtures is None else read_results(mixtures)
    if mixtures is not None and results is not None:
        facts.append((f"mixtures {results.name}", f"{mixtures.uri}, content {results.content_digest[:12]}"))
        notes += results.notes
        links.append((f"mixtures {results.name}", _find_page(mixtures, beside)))
    return TrainingReport(
        title="Experiments in miniature",
        summary="Small models, trained on finished builds, and how they do on benches.",
        facts=facts,
        tiles=_count_tiles(benches, results),
        phases=phases,
        notes=tuple(dict.fromkeys(notes)),
        benches=benches,
        mixtures=results,
        links=links,
    )


def describe_bench(scores: SidScores, goal: float | None = None, seen_by: str | None = None) -> DetectorBench:
    """Return the detectors of an evaluation beside each other, over all clips of its bench.

    `seen_by` is a training run that had this bench as its data.
    """
    identities = {system.name: system.identity for system in scores.systems}
    rows = []
    for score in scores.scores:
        one = score.group(AVERAGE) or score.groups[-1]
        engine = _find_engine(identities.get(score.system, {}))
        is_trained = engine in TRAINED_ENGINES
        rows.append(
            DetectorRow(score.system, one.fir, one.irl, one.apt, is_vad=engine.endswith(_VAD), is_trained=is_trained)
        )
    note = "" if seen_by is None else f"{seen_by} was trained on these very clips: its figures say nothing of others."
    return DetectorBench(
        f"{scores.bench.dataset} / {scores.bench.build}", scores.bench.cases[AVERAGE], rows, goal, note
    )


def read_results(folder: Store) -> MixtureResults:
    """Return what an experiment with mixtures found.

    Raises:
        BuildError: it is unfinished, damaged or of another version.
        StorageError: it cannot be read.
    """
    try:
        return MixtureResults.model_validate_json(folder.read_bytes(RESULTS_NAME))
    except MissingFileError as exc:
        uri = folder.uri_of(RESULTS_NAME)
        raise BuildError(f"{uri}: is missing, so this is no finished experiment with mixtures") from exc
    except ValidationError as exc:
        fault = exc.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise BuildError(
            f"{folder.uri_of(RESULTS_NAME)}: is damaged or of another version ({where}: {fault['msg']})"
        ) from exc


def _find_engine(identity: Mapping[str, object]) -> str:
    """Return the name of a detector's engine, of the one within a rule of K chunks in a row."""
    settings = identity.get("settings")
    inner = settings.get("of") if isinstance(settings, Mapping) else None
    return str(inner or identity.get("name", ""))


def _find_page(folder: Store, beside: Store) -> str:
    """Return the address of a folder's page, relative where both lie on this machine's disk."""
    page, start = folder.local_path(REPORT_NAME), beside.local_path()
    if page is None or start is None:
        return folder.uri_of(REPORT_NAME)
    return os.path.relpath(page, start).replace(os.sep, "/")


def _count_tiles(benches: Sequence[DetectorBench], results: MixtureResults | None) -> list[tuple[str, str]]:
    tiles = [(f"clips of {bench.title}", f"{bench.clips:,}") for bench in benches]
    if results is not None:
        tiles += [("models on mixtures", f"{len(results.runs):,}"), ("seeds a mixture", f"{len(results.seeds):,}")]
    return tiles
