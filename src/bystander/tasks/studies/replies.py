"""Replies that systems gave in evaluations, and the bench's own."""

from __future__ import annotations

import io

import pyarrow.parquet as pq

from bystander.schemas.errors import InputError
from bystander.schemas.evaluation_scores import EvaluationScores
from bystander.schemas.study import StudySettings, StudySource
from bystander.storage.bench_rows import Bench
from bystander.storage.evaluation_manifest import EvaluationManifest, read_evaluation
from bystander.storage.filesystem import Store, open_store
from bystander.tasks.studies.items import Answers

BENCH_SYSTEM = "bench"
"""The name under which the bench's own replies are rated."""


def read_replies(bench: Bench, settings: StudySettings) -> tuple[Answers, tuple[StudySource, ...]]:
    """Return the replies of the systems of a study, by system and row, and the evaluations that they are from.

    Raises:
        InputError: a system is unknown or stands in two evaluations, an evaluation is of another bench, or the number
            of systems does not fit the kind.
    """
    if settings.kind in ("realism", "naturalness"):
        if settings.evaluations or settings.systems:
            raise InputError(f"--evaluation and --system: a study of {settings.kind} shows no replies")
        return {}, ()
    found: dict[str, dict[str, str | None]] = {}
    sources = []
    for address in settings.evaluations:
        folder = open_store(address)
        manifest, scores = read_evaluation(folder, EvaluationScores)
        if scores.bench.content_digest != bench.manifest.content_digest:
            raise InputError(
                f"evaluation {address}: is of another bench, {scores.bench.uri}; evaluate the systems on "
                f"{bench.store.uri}"
            )
        sources.append(StudySource(uri=folder.uri, name=manifest.name, content_digest=manifest.content_digest))
        for system, answers in _read_answers(folder, manifest).items():
            if system in found:
                raise InputError(f"evaluation {address}: system {system} stands in another evaluation too; rename one")
            found[system] = answers
    chosen = list(settings.systems or found)
    if BENCH_SYSTEM in chosen and BENCH_SYSTEM not in found:
        found[BENCH_SYSTEM] = {row["id"]: row["reply"] for row in bench.rows}
    unknown = [system for system in chosen if system not in found]
    if unknown:
        raise InputError(
            f"--system {unknown[0]}: is not in the evaluations; there are {', '.join([*found, BENCH_SYSTEM])}"
        )
    if settings.kind == "preference" and len(set(chosen)) != 2:
        raise InputError(
            f"--system: a preference is between two systems, and there are {len(set(chosen))}; name two of "
            f"{', '.join(dict.fromkeys([*found, BENCH_SYSTEM]))}"
        )
    if not chosen:
        raise InputError("--evaluation: name one whose replies are rated, or the bench's own with --system bench")
    return {system: found[system] for system in dict.fromkeys(chosen)}, tuple(sources)


def _read_answers(folder: Store, manifest: EvaluationManifest) -> dict[str, dict[str, str | None]]:
    return {
        info.system: {
            row["id"]: row["answer"]
            for row in pq.read_table(io.BytesIO(folder.read_bytes(info.file)), columns=["id", "answer"]).to_pylist()
        }
        for info in manifest.files
        if info.system is not None and info.judge is None and info.file.startswith("answers/")
    }
