"""Synthesises the corpora that the shipped alignment models are trained and measured on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bystander.schemas.engines import RowFault, SpeechEngine, SpeechReply, SpeechRequest
from bystander.schemas.errors import EngineError, InputError
from bystander.schemas.identity import make_rng
from bystander.tasks.engines.engine_audio import convert_rate, encode_wav
from bystander.tasks.training.aligner_corpus import MANIFEST
from bystander.tasks.training.aligner_texts import draw_break_texts, draw_texts

SAMPLING_RATE = 16000
LAG_S = 0.045
"""How much later than its sound a word begins by Kokoro's durations: measured on clips' first words, whose onset shows
in the level, over 480 English clips (median 50 ms; 35 to 45 ms for vowels and stops, whose onset is abrupt)."""

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
    manifest = [records[line.id].read_text("utf-8").strip() for line in lines]
    (folder / MANIFEST).write_text("\n".join(manifest) + "\n", "utf-8")


def _write_clip(folder: Path, record: Path, line: _Line, replies: Sequence[SpeechReply | RowFault]) -> None:
    pieces: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = []
    words = []
    break_word = 0
    offset = 0.0
    for number, reply in enumerate(replies):
        if isinstance(reply, RowFault) or reply.words is None:
            detail = reply.detail if isinstance(reply, RowFault) else "no word times"
            raise EngineError(f"{line.id}: {line.parts[number][:40]!r} cannot be spoken with word times ({detail})")
        if number:
            pieces.append(np.zeros(round(line.gap_s * SAMPLING_RATE), np.float32))
            offset += len(pieces[-1]) / SAMPLING_RATE
            break_word = len(words)
        samples = convert_rate(reply.samples, reply.sampling_rate, SAMPLING_RATE)
        pieces.append(samples)
        length = len(samples) / SAMPLING_RATE
        for word in reply.words:
            start = max(word.start_s - LAG_S, 0.0)
            words.append({
                "word": word.word,
                "start": round(offset + start, 4),
                "end": round(offset + min(max(word.end_s - LAG_S, start + 0.01), length), 4),
            })
        offset += length
    (folder / f"{line.id}.wav").write_bytes(encode_wav(np.concatenate(pieces), SAMPLING_RATE))
    described = {
        "id": line.id,
        "audio": f"{line.id}.wav",
        "voice": line.voice,
        "kind": line.kind,
        "break_word": break_word,
        "words": words,
    }
    record.write_text(json.dumps(described, ensure_ascii=False) + "\n", "utf-8")
