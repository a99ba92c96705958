"""Synthesises the corpora that the shipped alignment models are trained and measured on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bystander.schemas.engines import RowFault, Samples, SpeechEngine, SpeechReply, SpeechRequest
from bystander.schemas.errors import EngineError, InputError
from bystander.schemas.identity import make_rng
from bystander.tasks.audio.speech_edges import find_sounding, find_speech_start
from bystander.tasks.engines.engine_audio import convert_rate, encode_wav
from bystander.tasks.training.aligner_corpus import MANIFEST
from bystander.tasks.training.aligner_texts import draw_break_texts, draw_texts

SAMPLING_RATE = 16000
LAG_S = {"en": -0.01, "zh": -0.02}
"""How late (negative: early) words within running speech are by the engine's times. No level shows it there: with this
much, models trained on these times err by the same constant within speech as after silence."""
_PAUSE_S = 0.04
_REACH_S = 0.12
_LONG_GAP_S = 0.1
"""A word is taken to follow a pause where the engine's own times leave this much before it."""

TRAINING_VOICES = {
    "en": (
        "af_alloy", "af_aoede", "af_nicole", "af_bella", "af_sarah", "af_kore", "am_eric", "am_fenrir", "am_michael",
        "am_santa", "am_adam", "am_echo", "bf_emma", "bf_alice", "bm_daniel", "bm_george",
    ),
    "zh": ("zf_xiaobei", "zf_xiaoxiao", "zf_xiaoyi", "zm_yunjian", "zm_yunxi", "zm_yunxia"),
}  # fmt: skip
HELD_OUT_VOICES = {
    "en": ("af_river", "af_jessica", "am_onyx", "am_liam", "bf_lily", "bm_lewis"),
    "zh": ("zf_xiaoni", "zm_yunyang"),
}
_BATCH = 6


@dataclass(frozen=True, slots=True)
class _Line:
    id: str
    parts: tuple[str, ...]
    voice: str
    seed: int
    gap_s: float = 0.0
    kind: str = "sentence"


def synthesise_training(
    engine: SpeechEngine, language: str, folder: Path, count: int, report_progress: Callable[[str], None]
) -> None:
    """Write a corpus of `count` texts, in the training voices in turn, with word times. Clips that exist are kept.

    Raises:
        InputError: there are no texts or voices of the language.
        EngineError: the engine failed, or tells no word times.
    """
    voices = _get_voices(TRAINING_VOICES, language)
    texts = draw_texts(language, count, seed=7)
    lines = [_Line(f"train{i:04d}", (text,), voices[i % len(voices)], i) for i, text in enumerate(texts)]
    _synthesise(engine, language, folder, lines, report_progress)


def synthesise_held_out(
    engine: SpeechEngine, language: str, folder: Path, count: int, report_progress: Callable[[str], None]
) -> None:
    """Write a corpus in the held-out voices: `count` sentences, and as many backchannels, pauses and clauses.

    A clause is said on its own (`immediate`) and after a backchannel and .15 to 1.2 s of silence (`backchannel`); both
    are in the manifest with their `break_word`.

    Raises:
        InputError: there are no texts or voices of the language.
        EngineError: the engine failed, or tells no word times.
    """
    voices = _get_voices(HELD_OUT_VOICES, language)
    lines = []
    pairs = draw_break_texts(language, count, seed=5)
    for i, (text, (backchannel, clause)) in enumerate(zip(draw_texts(language, count, seed=99), pairs, strict=True)):
        gap = float(make_rng(5, str(i), "aligner_gap").uniform(0.15, 1.2))
        voice = voices[i % len(voices)]
        lines.append(_Line(f"sentence{i:04d}", (text,), voice, 1000 + i))
        lines.append(_Line(f"backchannel{i:04d}", (backchannel, clause), voice, 3000 + i, gap, "backchannel"))
        lines.append(_Line(f"immediate{i:04d}", (clause,), voice, 3000 + i, kind="immediate"))
    _synthesise(engine, language, folder, lines, report_progress)


def _get_voices(table: dict[str, tuple[str, ...]], language: str) -> tuple[str, ...]:
    if language not in table:
        raise InputError(f"language {language!r}: there are voices and texts of {', '.join(sorted(table))} only")
    return table[language]


def _synthesise(
    engine: SpeechEngine, language: str, folder: Path, lines: Sequence[_Line], report_progress: Callable[[str], None]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    records = {line.id: folder / f"{line.id}.words.json" for line in lines}
    missing = [line for line in lines if not records[line.id].is_file()]
    for start in range(0, len(missing), _BATCH):
        batch = missing[start : start + _BATCH]
        keys = dict.fromkeys((part, line.voice, line.seed) for line in batch for part in line.parts)
        requests = [SpeechRequest(*key, language, word_times=True) for key in keys]
        replies = dict(zip(keys, engine.synthesise(requests), strict=True))
        for line in batch:
            _write_clip(folder, records[line.id], line, [replies[part, line.voice, line.seed] for part in line.parts])
        report_progress(f"{start + len(batch)} of {len(missing)} clips")
    write_manifest(folder, language, [json.loads(records[line.id].read_text("utf-8")) for line in lines])


def _write_clip(folder: Path, record: Path, line: _Line, replies: Sequence[SpeechReply | RowFault]) -> None:
    pieces: list[Samples] = []
    parts = []
    offset_s = 0.0
    for number, reply in enumerate(replies):
        if isinstance(reply, RowFault) or reply.words is None:
            detail = reply.detail if isinstance(reply, RowFault) else "no word times"
            raise EngineError(f"{line.id}: {line.parts[number][:40]!r} cannot be spoken with word times ({detail})")
        if number:
            pieces.append(np.zeros(round(line.gap_s * SAMPLING_RATE), np.float32))
            offset_s += len(pieces[-1]) / SAMPLING_RATE
        samples = convert_rate(reply.samples, reply.sampling_rate, SAMPLING_RATE)
        pieces.append(samples)
        words = [{"word": word.word, "start": word.start_s, "end": word.end_s} for word in reply.words]
        parts.append({"offset": offset_s, "duration": len(samples) / SAMPLING_RATE, "words": words})
        offset_s += len(samples) / SAMPLING_RATE
    (folder / f"{line.id}.wav").write_bytes(encode_wav(np.concatenate(pieces), SAMPLING_RATE))
    described = {"id": line.id, "audio": f"{line.id}.wav", "voice": line.voice, "kind": line.kind, "parts": parts}
    record.write_text(json.dumps(described, ensure_ascii=False) + "\n", "utf-8")


def write_manifest(folder: Path, language: str, records: Sequence[dict[str, Any]]) -> None:
    """Write the manifest of synthesised clips, the engine's word times corrected by what can be heard.

    How late a word is by the engine's times differs from voice to voice. So the first word of what was spoken at once,
    and a word after a pause, begin where sound rises. The others are moved by `LAG_S`.
    """
    lines = []
    for record in records:
        audio = _read_parts(folder / record["audio"], record["parts"])
        corrected = [
            _correct_times(part, samples, LAG_S[language]) for part, samples in zip(record["parts"], audio, strict=True)
        ]
        written = {key: record[key] for key in ("id", "audio", "voice", "kind")}
        written["break_word"] = sum(len(words) for words in corrected[:-1])
        written["words"] = [word for words in corrected for word in words]
        lines.append(json.dumps(written, ensure_ascii=False))
    (folder / MANIFEST).write_text("\n".join(lines) + "\n", "utf-8")


def _read_parts(path: Path, parts: Sequence[dict[str, Any]]) -> list[Samples]:
    import soundfile

    samples, _ = soundfile.read(path, dtype="float32")
    cuts = [(round(part["offset"] * SAMPLING_RATE), round(part["duration"] * SAMPLING_RATE)) for part in parts]
    return [samples[start : start + length] for start, length in cuts]


def _correct_times(part: dict[str, Any], samples: Samples, lag_s: float) -> list[dict[str, Any]]:
    sounding = find_sounding(samples, SAMPLING_RATE)
    starts: list[float] = []
    for number, word in enumerate(part["words"]):
        start = max(word["start"] - lag_s, 0.0)
        heard = None
        if number == 0 and len(sounding):
            heard = float(sounding[0, 0])
        elif number and word["start"] - part["words"][number - 1]["end"] >= _LONG_GAP_S:
            heard = find_speech_start(samples, SAMPLING_RATE, start, _REACH_S, _PAUSE_S)
        starts.append(max(start if heard is None else heard, starts[-1] + 0.01 if starts else 0.0))
    ends = [*starts[1:], part["duration"]]
    return [
        {
            "word": word["word"],
            "start": round(part["offset"] + start, 4),
            "end": round(part["offset"] + min(max(word["end"] - lag_s, start + 0.01), end), 4),
        }
        for word, start, end in zip(part["words"], starts, ends, strict=True)
    ]
