"""Finished SID rows with real FLAC, and builds made of them, whose break times are known."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import soundfile

from bystander.schemas.sid import BEGINNING, MIDDLE, NOISE, SID_BENCH_SPLIT, SID_FINAL, SILENCE, UNINTERRUPTED
from bystander.storage.build_manifest import EngineInfo
from bystander.storage.filesystem import Store, open_store
from bystander.storage.shards import write_shards
from bystander.storage.sid_manifest import PromptsInfo, SidManifest, SidRowCounter

RATE = 16000
PAUSE_S = 0.3
ONSET_S = 0.25
"""Silence before the first word."""
_BACKCHANNELS = {"en": ("Right", "yeah"), "zh": ("嗯", "对")}
_SUBSTANCE = {"en": ("but", "how", "much", "is", "it"), "zh": ("那个", "要", "多少", "钱")}
_PHONE = {"en": "AH0", "zh": "a1"}


def make_words(language: str, category: str) -> tuple[list[dict[str, Any]], int | None]:
    """Return the timed words of a turn, and the position of its first substantive one."""
    backchannel = () if category == BEGINNING else _BACKCHANNELS[language]
    substance = () if category == UNINTERRUPTED else _SUBSTANCE[language]
    words, time = [], ONSET_S
    for position, word in enumerate((*backchannel, *substance)):
        if position == len(backchannel) and backchannel:
            time += PAUSE_S
        times = {"start_s": round(time, 3), "end_s": round(time + 0.22, 3)}
        words.append({"word": word, **times, "score": 0.9, "in_vocabulary": True})
        time += 0.24
    return words, len(backchannel) if substance else None


def make_clip(words: Sequence[Mapping[str, Any]], duration_s: float, level: float = 0.0, seed: int = 0) -> bytes:
    """FLAC of a tone for every word, over white noise of this level."""
    time = np.arange(round(duration_s * RATE)) / RATE
    samples = level * np.random.default_rng(seed).standard_normal(len(time))
    for position, word in enumerate(words):
        inside = (time >= word["start_s"]) & (time < word["end_s"])
        samples += np.where(inside, 0.3 * np.sin(2 * np.pi * (180 + 20 * position) * time), 0.0)
    sink = io.BytesIO()
    soundfile.write(sink, samples.astype(np.float32), RATE, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def make_sid_row(index: int = 0, category: str = MIDDLE, language: str = "en", **changes: Any) -> dict[str, Any]:
    """Return a row of SID_FINAL; two rows in a row are of one recording. `changes` are laid over it."""
    spoken = category not in (SILENCE, NOISE)
    words, break_index = make_words(language, category) if spoken else ([], None)
    duration_s = {SILENCE: 1.0, NOISE: 1.5 + 0.5 * (index % 3)}.get(category, 0.0)
    if spoken:
        duration_s = round(words[-1]["end_s"] + 0.3, 3)
    text = " ".join(word["word"] for word in words)
    tagged = " ".join(
        f"<break> {word['word']}" if position == break_index else word["word"] for position, word in enumerate(words)
    )
    row_id = f"{category}-{language if spoken else 'xx'}-{index:04d}"
    break_time_s = duration_s if break_index is None else words[break_index]["start_s"]
    level = {SILENCE: 0.0005, NOISE: 0.1}.get(category, 0.0005)
    return {
        "id": row_id,
        "split": SID_BENCH_SPLIT,
        "audio": {"bytes": make_clip(words, duration_s, level, index), "path": f"{row_id}.flac"},
        "sampling_rate": RATE,
        "duration_s": duration_s,
        "language": language if spoken else None,
        "category": category,
        "total_nonbreak": break_index is None,
        "break_time_s": break_time_s,
        "break_word_index": break_index,
        "text": text if spoken else None,
        "text_with_break": tagged if spoken else None,
        "words": words,
        "phones": [
            {"phone": _PHONE[language], "start_s": w["start_s"], "end_s": w["end_s"], "word_index": position}
            for position, w in enumerate(words)
        ],
        "recording_id": f"recording-{language}-{index // 2}" if spoken else None,
        "source": "synthetic" if spoken else ("rain" if category == NOISE else f"recording-en-{index}"),
        "licence": "CC0-1.0",
        "speaker": f"speaker-{index % 3}" if spoken else None,
        "turn_start_s": 3.0 + index if spoken else None,
        "context_text": "Let me read the whole list to you." if spoken else None,
        "context_start_s": -1.0 if spoken else None,
        "context_end_s": 1.2 if spoken else None,
        "overlap_s": 0.9 if spoken else None,
        "transcript_source": "script" if spoken else None,
        "tag_votes": [{"tagger": "rule_tagger", "break_word_index": break_index}] if spoken else [],
        "tag_agreement": 1.0 if spoken else None,
        "aligner": "fake_aligner" if spoken else None,
        "alignment_is_fallback": False if spoken else None,
        "alignment_score": 0.9 if spoken else None,
        "second_aligner": None,
        "aligner_disagreement_s": None,
        "synthetic": True,
        "true_category": category if spoken else None,
        "true_break_word_index": break_index,
        "true_break_time_s": break_time_s if break_index is not None else None,
        "engines": json.dumps({"aligner": {"name": "fake_aligner"}}),
        "seed": 7,
        **changes,
    }


def make_sid_rows(per_category: int = 2, languages: Sequence[str] = ("en", "zh")) -> list[dict[str, Any]]:
    """Return so many rows of each category a language, of silence and of noise."""
    rows = [
        make_sid_row(index, category, language)
        for language in languages
        for category in (BEGINNING, MIDDLE, UNINTERRUPTED)
        for index in range(per_category)
    ]
    return rows + [make_sid_row(index, category) for category in (SILENCE, NOISE) for index in range(per_category)]


def make_sid_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=SID_FINAL)


def write_sid_build(folder: Path | str, rows: Sequence[Mapping[str, Any]], **changes: Any) -> Store:
    """Write rows as shards with their manifest."""
    store = open_store(folder)
    shards = write_shards(store, "data", SID_BENCH_SPLIT, SID_FINAL, [make_sid_table(rows)], sampling_rate=RATE)
    counter = SidRowCounter()
    counter.add(make_sid_table(rows))
    values: dict[str, Any] = {
        "kind": "sid_bench",
        "dataset": "sid-bench",
        "build": "build-test",
        "seed": 7,
        "config": {"profile": "rules"},
        "code_version": "0.1.0",
        "packages": {"python": "3.11.0"},
        "engines": {"aligner": EngineInfo(kind="aligner", name="fake_aligner", model="fake", revision="1")},
        "sampling_rate": RATE,
        "stages": (),
        "shards": tuple(shards),
        "prompts": PromptsInfo(name="sid", digest="d" * 64),
        "counts": counter.finish(),
    }
    manifest = SidManifest(**(values | changes))
    store.write_bytes("manifest.json", manifest.model_dump_json().encode())
    return store


def write_sid_train(folder: Path | str, rows: Sequence[Mapping[str, Any]]) -> Store:
    """Write rows as a build that may be trained on."""
    return write_sid_build(folder, rows, kind="sid_train", dataset="sid-train")
