"""Synthetic finished TPI rows with real FLAC, and a whole build made of them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import soundfile

from bystander.schemas.tpi import FINAL, HARD_NEGATIVE_LABEL
from bystander.storage.build_manifest import (
    BuildManifest,
    EngineInfo,
    FileInfo,
    ModelFileInfo,
    PackInfo,
    Quota,
    StageCounts,
    TaxonomyInfo,
    count_rows,
    write_manifest,
)
from bystander.storage.filesystem import Store, open_store
from bystander.storage.shards import write_shards, write_table

RATE = 24000
SCENARIOS = {"simple_correction_with_alternative": "disagreement", "priority_alert": "topic_change"}
CLASSES = {"actionable": ("correction_disambiguation", "goal_suggestion"), "ignorable": ()}
REJECTS = pa.schema([("request", pa.string()), ("reject_stage", pa.string()), ("reject_reason", pa.string())])
ENGINES = {
    "writer": EngineInfo(kind="text", name="fake_text", model="fake", revision="1"),
    "speech": EngineInfo(kind="speech", name="kokoro", model="kokoro-v1.0-int8", revision="abc"),
}


def make_clip(segments: list[dict[str, Any]], duration_s: float) -> bytes:
    """FLAC of tones under a syllable-like envelope: 180 Hz for the primary, 320 Hz for the third party."""
    time = np.arange(round(duration_s * RATE)) / RATE
    samples = np.zeros(len(time))
    for segment in segments:
        inside = (time >= segment["start_s"]) & (time < segment["end_s"])
        tone = np.sin(2 * np.pi * (180 if segment["speaker"] == "primary" else 320) * time)
        envelope = 0.15 + 0.85 * np.abs(np.sin(2 * np.pi * 2.1 * (time - segment["start_s"]))) ** 1.5
        samples += np.where(inside, 0.3 * tone * envelope, 0.0)
    sink = io.BytesIO()
    soundfile.write(sink, samples.astype(np.float32), RATE, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def make_row(index: int, hard_negative: bool = False, split: str = "train") -> dict[str, Any]:
    """Row `index`; a hard negative is the twin of the pair of the same index, which must then be `twinned`."""
    scenario = list(SCENARIOS)[index % 2]
    label = HARD_NEGATIVE_LABEL if hard_negative else list(CLASSES)[index // 2 % 2]
    kinds = CLASSES.get(label, ())
    within = index % 3 == 0
    complete = f"Please book a table for {index} at seven tonight."
    first_end = round(2.4 + 0.1 * (index % 7), 3)
    overlap = 0.3 + 0.05 * (index % 5)
    duration = round(first_end + 1.9, 3)
    if hard_negative:
        segments = [{"speaker": "primary", "start_s": 0.0, "end_s": duration}]
    else:
        segments = [
            {"speaker": "primary", "start_s": 0.0, "end_s": first_end},
            {"speaker": "third_party", "start_s": round(first_end - overlap, 6), "end_s": duration},
        ]
    row_id = f"{'hn' if hard_negative else 'row'}-{index:04d}"
    return {
        "id": row_id,
        "split": split,
        "audio": {"bytes": make_clip(segments, duration), "path": f"{row_id}.flac"},
        "sampling_rate": RATE,
        "duration_s": duration,
        "n_speakers": 1 if hard_negative else 2,
        "query_id": f"query-{index}",
        "query_text": f"book a table for {index} at 7 tonight",
        "query_source": "queries.jsonl",
        "language": "en",
        "request": f"Book a table for {index} at seven tonight.",
        "primary_complete": complete,
        "primary_text": f"Please book a table for {index}..." if within else complete,
        "third_party_text": "No, make it eight, we'll be late.",
        "primary_recognised": f"please book a table for {index}",
        "third_party_recognised": None if hard_negative else "no make it eight we'll be late",
        "scenario": scenario,
        "category": SCENARIOS[scenario],
        "timing": "within_sentence" if within else "after_completion",
        "label": label,
        "kind": kinds[index % len(kinds)] if kinds else None,
        "label_score": 0.8,
        "reply": f"A table for {index} at seven; someone suggested eight, shall I change it?",
        "pack": "reference",
        "pack_digest": "d" * 64,
        "primary_voice": "af_alloy",
        "third_party_voice": None if hard_negative else "am_eric",
        "segments": segments,
        "offset_asked_s": None if hard_negative else -overlap - 0.01,
        "overlap_s": None if hard_negative else overlap,
        "loudness_difference_db": None if hard_negative else 1.5,
        "primary_wer_raw": 0.1,
        "primary_wer": 0.0,
        "third_party_wer_raw": None if hard_negative else 0.2,
        "third_party_wer": None if hard_negative else 0.0,
        "primary_recognition_temperature": 0.2 * (index % 3),
        "third_party_recognition_temperature": None if hard_negative else 0.0,
        "track_similarity": 0.9 if hard_negative else 0.5,
        "mixture_similarity": 0.88 if hard_negative else 0.55,
        "realism_score": 0.7,
        "ambiguity_score": 4.5 if hard_negative else 2.0,
        "twin_id": f"row-{index:04d}" if hard_negative else None,
        "write_attempts": 1,
        "reply_attempts": 1,
        "primary_attempts": 1 + index % 3,
        "third_party_attempts": None if hard_negative else 1,
        "engines": json.dumps({role: engine.model_dump() for role, engine in ENGINES.items()}),
        "seed": 7,
    }


def make_rows(pairs: int = 8, hard_negatives: int = 2) -> list[dict[str, Any]]:
    """Pairs, the first of which have hard-negative twins."""
    rows = [make_row(index) for index in range(pairs)]
    for index in range(hard_negatives):
        rows[index]["twin_id"] = f"hn-{index:04d}"
        rows.append(make_row(index, hard_negative=True))
    return rows


def make_bench_rows(pairs: int = 8, hard_negatives: int = 3, linked: int = 2) -> list[dict[str, Any]]:
    """TPI-Test and Janus-Test; the first `linked` hard negatives are twins of pairs there, the others of none."""
    rows = [make_row(index, split="tpi_test") for index in range(pairs)]
    for index in range(linked):
        rows[index]["twin_id"] = f"hn-{index:04d}"
    rows += [make_row(index, hard_negative=True, split="janus_test") for index in range(linked)]
    alone = [make_row(pairs + i, hard_negative=True, split="janus_test") for i in range(hard_negatives - linked)]
    return rows + [row | {"twin_id": None} for row in alone]


def make_table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=FINAL)


def make_reject_rows() -> list[dict[str, str]]:
    rejects = [("normalise_queries", "too_long"), ("normalise_queries", "duplicate"), ("check_realism", "unrealistic")]
    return [{"request": f"Reject {i}", "reject_stage": s, "reject_reason": r} for i, (s, r) in enumerate(rejects)]


def make_manifest(rows: list[dict[str, Any]], **changes: Any) -> BuildManifest:
    pairs = sum(row["n_speakers"] == 2 for row in rows)
    counts = count_rows([make_table(rows)])
    values: dict[str, Any] = {
        "dataset": "tpi-train",
        "build": "build-test",
        "seed": 7,
        "config": {"profile": "laptop", "stages": {"synthesise_speech": {"max_wer": 0.0}}},
        "code_version": "0.1.0",
        "packages": {"python": "3.11.0", "numpy": "2.3.0"},
        "pack": PackInfo(name="reference", digest="d" * 64, classes=CLASSES),
        "taxonomy": TaxonomyInfo(name="tpi-26", digest="e" * 64, scenarios=SCENARIOS),
        "engines": ENGINES,
        "models": (
            ModelFileInfo(
                name="kokoro-v1.0-int8", bytes=9, sha256="a" * 64, licence="Apache-2.0", sources=("pip: kokoro-part",)
            ),
        ),
        "sampling_rate": RATE,
        "stages": (
            StageCounts(
                stage="normalise_queries", rows_in=pairs + 3, kept=pairs + 1, reasons={"too_long": 1, "duplicate": 1}
            ),
            StageCounts(stage="check_realism", rows_in=pairs + 1, kept=pairs, reasons={"unrealistic": 1}),
        ),
        "quotas": tuple(Quota(label=label, asked=got, got=got) for label, got in counts.by_label.items()),
        "counts": counts,
        "shards": (),
    }
    return BuildManifest(**(values | changes))


def write_build(folder: Path | str, rows: list[dict[str, Any]], by_split: bool = False, **changes: Any) -> Store:
    """Write rows as a complete build: all in the split `train`, or each in its own."""
    store = open_store(folder)
    splits: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        splits.setdefault(row["split"] if by_split else "train", []).append(row)
    shards = [
        shard
        for split, members in splits.items()
        for shard in write_shards(store, "data", split, FINAL, [make_table(members)], sampling_rate=RATE)
    ]
    rejects: tuple[FileInfo, ...] = tuple(
        write_table(
            store,
            f"rejects/{stage}.parquet",
            REJECTS,
            [pa.Table.from_pylist([r for r in make_reject_rows() if r["reject_stage"] == stage], schema=REJECTS)],
        )
        for stage in ("normalise_queries", "check_realism")
    )
    store.write_bytes("README.md", b"# A build\n")
    store.write_bytes("report.html", b"<html><p>A build</p></html>\n")
    write_manifest(store, make_manifest(rows, **({"shards": tuple(shards), "rejects": rejects} | changes)))
    return store
