"""Small studies: a bench of many scenes, an evaluation of it written by hand, and raters whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from bystander.schemas.evaluation import ANSWERED, JUDGED
from bystander.schemas.evaluation_scores import BenchInfo, EvaluationScores, RaterInfo
from bystander.schemas.study import KINDS, SIZES, StudyCell, StudySettings
from bystander.schemas.study_wording import load_wording
from bystander.storage.build_manifest import read_manifest
from bystander.storage.evaluation_manifest import EvaluationFile, EvaluationManifest, write_evaluation_manifest
from bystander.storage.filesystem import Store, open_store
from bystander.storage.shards import write_table
from bystander.storage.study_files import open_study, read_key
from bystander.tasks.evaluation_folder import write_text
from bystander.tasks.make_study import MadeStudy, make_study
from final_rows import make_row, write_build

SUBJECTS = (
    "window pasta garden violin passport blanket harbour muffin lantern kettle orchard puzzle saddle thermos bicycle "
    "cactus dentist elevator festival guitar hammock island jacket keyboard"
).split()
ANSWER = "Certainly, the {subject} {index} is ready whenever you like it."
GOOD, POOR = "good", "poor"


def make_study_rows(count: int = 24) -> list[dict[str, Any]]:
    """Rows about different things, each with a reply that fits no other; the first three have one-speaker twins."""
    rows = []
    for index in range(count):
        row = make_row(index, split="tpi_test")
        subject = SUBJECTS[index % len(SUBJECTS)]
        row["primary_complete"] = row["primary_text"] = f"Please tell me about the {subject} number {index}."
        row["third_party_text"] = f"Better take the {subject} from yesterday."
        row["reply"] = ANSWER.format(subject=subject, index=index)
        rows.append(row)
    for index in range(3):
        twin = make_row(index, hard_negative=True, split="janus_test")
        rows[index]["twin_id"] = twin["id"]
        rows.append(twin)
    return rows


def write_bench(folder: Path, count: int = 24) -> Path:
    write_build(folder, make_study_rows(count), content_digest="a" * 64)
    return folder


def write_evaluation(folder: Path, bench: Path, scores: Callable[[str, int], tuple[int, int]] | None = None) -> Path:
    """Write an evaluation of `good` (the bench's replies) and `poor`; `scores` gives a judge's RSF and OH by system and
    place of the row."""
    store = open_store(folder)
    manifest = read_manifest(open_store(bench))
    rows = make_study_rows()
    tests = [{"test": "tpi_test" if row["n_speakers"] == 2 else "janus_test", **row} for row in rows]
    files: list[EvaluationFile] = []
    for system in (GOOD, POOR):
        answered, judged = [], []
        for at, row in enumerate(tests):
            answer = row["reply"] if system == GOOD else f"Sorry, nothing on item {at} here."
            answered.append({**row, "answer": answer, "answer_fault": None})
            rsf, oh = scores(system, at) if scores else (int(system == GOOD), 4 if system == GOOD else 2)
            verdicts = {
                name: {"score": score, "rationale": "", "raw_output": "", "attempts": 1, "fault": None}
                for name, score in (("rsf", rsf), ("oh", oh))
            }
            judged.append({**answered[-1], **verdicts})
        for file, schema, found, judge in (
            (f"answers/{system}.parquet", ANSWERED, answered, None),
            (f"verdicts/{system}.rules.parquet", JUDGED, judged, "rules"),
        ):
            table = pa.Table.from_pylist([{n: one[n] for n in schema.names} for one in found], schema=schema)
            info = write_table(store, file, schema, [table])
            files.append(EvaluationFile(**info.model_dump(), system=system, judge=judge))
    result = EvaluationScores(
        name="sample",
        seed=0,
        confidence=0.95,
        bench=BenchInfo(
            uri=str(bench),
            dataset=manifest.dataset,
            build=manifest.build,
            content_digest=manifest.content_digest,
            rows={"tpi_test": 24},
            linked_pairs=3,
        ),
        pack="reference",
        pack_digest="d" * 64,
        systems=(RaterInfo(name=GOOD, identity={}), RaterInfo(name=POOR, identity={})),
        judges=(RaterInfo(name="rules", identity={}),),
        scores=(),
        code_version="0",
    )
    files.append(write_text(store, "scores.json", result.model_dump_json()))
    write_evaluation_manifest(
        store,
        EvaluationManifest(
            name="sample", content_digest="e" * 64, config={}, files=tuple(files), code_version="0", packages={}
        ),
    )
    return folder


def make_sample(store: Path, kind: str, bench: Path, evaluation: Path | None = None, **fields: Any) -> MadeStudy:
    """Make a study called after its kind."""
    assert kind in KINDS
    raters, per_rater = SIZES[kind]  # type: ignore[index]
    replies = kind in ("reply", "preference", "satisfaction")
    given = {
        "kind": kind,
        "bench": str(bench),
        "evaluations": (str(evaluation),) if replies and evaluation else (),
        "raters": min(raters, 10),
        "per_rater": min(per_rater, 5),
        **fields,
    }
    name = given.pop("name", kind)
    return make_study(str(store), name, StudySettings.model_validate(given), load_wording(kind))  # type: ignore[arg-type]


Choose = Callable[[int, StudyCell, str], str | None]
"""From the number of a rater, what stands at a place and the question to an answer; None leaves it open."""


def write_batch(study: Store, path: Path, choose: Choose, seconds: float = 9.0) -> Path:
    """Write a file of results as Mechanical Turk's, a rater a sheet."""
    import csv

    key, manifest = read_key(study), open_study(study.uri)[1]
    rows = []
    for number, (sheet, cells) in enumerate(key.sheets.items()):
        row = {
            "HITId": f"H{number}",
            "WorkerId": f"WORKER{number}",
            "AssignmentId": f"A{number}",
            "AssignmentStatus": "Submitted",
            "Answer.sheet": sheet,
            "Answer.consent": "yes",
        }
        for place, cell in enumerate(cells, start=1):
            for question in manifest.wording.questions:
                value = choose(number, cell, question.name)
                row[f"Answer.p{place:02d}.{question.name}"] = "{}" if value is None else value
            row[f"Answer.p{place:02d}.seconds"] = str(seconds)
        rows.append(row)
    with path.open("w", newline="") as sink:
        writer = csv.DictWriter(sink, sorted({name for row in rows for name in row}))
        writer.writeheader()
        writer.writerows(rows)
    return path


def pass_traps(cell: StudyCell, question: str, otherwise: str) -> str:
    """Return the accepted answer of a trap, else `otherwise`."""
    return cell.trap.expected.get(question, (otherwise,))[0] if cell.trap else otherwise


def read_shown(study: Store) -> list[dict[str, Any]]:
    return list(json.loads(study.read_bytes("sheets.json")))
