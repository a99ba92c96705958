"""Reads a user's corpus to train an alignment model on: audio, its text and, where there are any, word times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bystander.schemas.engines import Samples
from bystander.schemas.errors import InputError
from bystander.storage.transcripts.read_transcript import parse_transcript
from bystander.storage.transcripts.segments import Segment, TranscriptError
from bystander.tasks.texts.turn_words import split_turn_words
from bystander.tasks.training.aligner_training import TrainingClip

AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3")
TEXT_SUFFIXES = (".txt", ".lab")
TIMED_SUFFIXES = (".TextGrid", ".textgrid", ".ctm", ".json", ".seglst", ".stm")
"""A timed transcript counts before a plain text beside it."""
MANIFEST = "manifest.jsonl"
MARGIN_S = 0.25
"""Sound kept on either side of a segment that is cut out of a longer recording."""
MAX_CLIP_S = 60.0


@dataclass(frozen=True, slots=True)
class _Source:
    """A file and what is said in it: words with times, segments, or words alone."""

    id: str
    audio: Path
    words: tuple[str, ...] = ()
    times: tuple[tuple[float, float], ...] | None = None
    segments: tuple[Segment, ...] = ()
    kind: str = ""
    break_word: int = 0


def read_corpus(path: Path) -> list[TrainingClip]:
    """Return the clips of a folder or of a manifest, in its order.

    A folder holds a `manifest.jsonl`, or audio files, each with its transcript beside it under the same stem: a plain
    text (`.txt`, `.lab`), or a timed one (TextGrid, CTM, STM, SegLST or WhisperX-style JSON) whose segments become a
    clip each. A manifest is JSONL, a line a clip: `audio` (relative to the manifest), `text` or `words`; `words` may be
    strings, or objects with `word`, `start` and `end` in seconds. `kind` and `break_word` (from 0) may say what a clip
    is for when a model is measured.

    Raises:
        InputError: nothing is there, or a file, line or field is wrong; one sentence that names it.
    """
    if (path / MANIFEST).is_file():
        path = path / MANIFEST
    if path.is_dir():
        sources = list(_list_folder(path))
    elif path.is_file():
        sources = list(_read_manifest(path))
    else:
        raise InputError(f"{path}: there is no such folder or manifest")
    if not sources:
        raise InputError(f"{path}: holds no clip; give audio files with a .txt or .TextGrid of the same name each")
    return [clip for source in sources for clip in _cut_clips(source)]


def _list_folder(folder: Path) -> Iterator[_Source]:
    for audio in sorted(p for p in folder.rglob("*") if p.suffix.casefold() in AUDIO_SUFFIXES and p.is_file()):
        name = audio.relative_to(folder).with_suffix("").as_posix()
        timed = _find_beside(audio, TIMED_SUFFIXES)
        plain = _find_beside(audio, TEXT_SUFFIXES)
        if timed is not None:
            yield _Source(name, audio, segments=_read_segments(timed))
        elif plain is not None:
            yield _Source(name, audio, words=_split_words(_read_text(plain), str(plain)))
        else:
            raise InputError(f"{audio}: has no transcript beside it ({audio.stem}.txt, .TextGrid, .ctm or .json)")


def _find_beside(audio: Path, suffixes: Sequence[str]) -> Path | None:
    return next((audio.with_suffix(suffix) for suffix in suffixes if audio.with_suffix(suffix).is_file()), None)


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({exc})") from exc


def _split_words(text: str, where: str) -> tuple[str, ...]:
    words = tuple(split_turn_words(text))
    if not words:
        raise InputError(f"{where}: the text is empty")
    return words


def _read_segments(path: Path) -> tuple[Segment, ...]:
    try:
        _, transcript = parse_transcript(path.name, path.read_bytes())
    except TranscriptError as exc:
        raise InputError(f"{path}: {exc}") from exc
    except OSError as exc:
        raise InputError(f"{path}: cannot be read ({exc})") from exc
    return transcript.segments


def _read_manifest(path: Path) -> Iterator[_Source]:
    for number, line in enumerate(_read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as exc:
            raise InputError(f"{where}: is no JSON object ({exc})") from exc
        if not isinstance(record, Mapping) or not isinstance(record.get("audio"), str):
            raise InputError(f"{where}: needs the field `audio`, a path")
        audio = path.parent / record["audio"]
        if not audio.is_file():
            raise InputError(f"{where}: {audio} is not there")
        name = str(record.get("id") or f"{number:06d}-{audio.stem}")
        words = record.get("words")
        if words is None:
            text = record.get("text")
            if not isinstance(text, str):
                raise InputError(f"{where}: needs `text` or `words`")
            source = _Source(name, audio, words=_split_words(text, where))
        else:
            source = _read_words(name, audio, words, where)
        yield replace(source, **_read_kind(record, len(source.words), where))


def _read_kind(record: Mapping[str, Any], words: int, where: str) -> dict[str, Any]:
    kind, break_word = record.get("kind", ""), record.get("break_word", 0)
    if not isinstance(kind, str) or not isinstance(break_word, int) or not 0 <= break_word < words:
        raise InputError(f"{where}: `kind` is a name and `break_word` the position of a word, from 0")
    return {"kind": kind, "break_word": break_word}


def _read_words(name: str, audio: Path, words: Any, where: str) -> _Source:
    if not isinstance(words, list) or not words:
        raise InputError(f"{where}: `words` is no list of words")
    if all(isinstance(word, str) and word.strip() for word in words):
        return _Source(name, audio, words=tuple(words))
    spelt, times = [], []
    for number, word in enumerate(words, 1):
        try:
            start, end = float(word["start"]), float(word["end"])
            spelt.append(str(word["word"]))
        except (KeyError, TypeError, ValueError):
            raise InputError(f"{where}: word {number} needs `word`, `start` and `end` in seconds") from None
        if not 0 <= start < end < float("inf"):
            raise InputError(f"{where}: word {number} has the times {start:g} to {end:g} s")
        times.append((start, end))
    return _Source(name, audio, words=tuple(spelt), times=tuple(times))


def _cut_clips(source: _Source) -> Iterator[TrainingClip]:
    samples, rate = _read_audio(source.audio)
    if source.words:
        if source.times and source.times[-1][1] > len(samples) / rate + 0.1:
            raise InputError(
                f"{source.audio}: lasts {len(samples) / rate:.2f} s, its words {source.times[-1][1]:.2f} s"
            )
        yield TrainingClip(source.id, samples, rate, source.words, source.times, source.kind, source.break_word)
        return
    for number, segment in enumerate(source.segments):
        timed = bool(segment.words) and all(w.start_s is not None and w.end_s is not None for w in segment.words)
        words = tuple(w.word for w in segment.words) or tuple(split_turn_words(segment.text))
        whole = segment.start_s is None or segment.end_s is None
        first = 0.0 if whole else max(0.0, float(segment.start_s or 0) - MARGIN_S)
        last = len(samples) / rate if whole else min(len(samples) / rate, float(segment.end_s or 0) + MARGIN_S)
        if not words or not 0 < last - first <= MAX_CLIP_S:
            continue
        times = tuple((float(w.start_s or 0) - first, float(w.end_s or 0) - first) for w in segment.words)
        yield TrainingClip(
            f"{source.id}#{number}",
            samples[round(first * rate) : round(last * rate)],
            rate,
            words,
            times if timed and all(start < end for start, end in times) else None,
        )


def _read_audio(path: Path) -> tuple[Samples, int]:
    import soundfile

    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, RuntimeError) as exc:  # libsndfile's own error is a RuntimeError
        raise InputError(f"{path}: cannot be read as audio ({exc})") from exc
    if not len(samples):
        raise InputError(f"{path}: holds no sound")
    return np.ascontiguousarray(samples.mean(axis=1), np.float32), int(rate)
