"""Clips to align, and files and programs that aligners read and run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

import fake_mfa
from bystander.schemas.alignment import AlignmentReply, AlignmentRequest
from bystander.schemas.engines import RowFault, Samples, SpeechReply, SpeechRequest
from bystander.schemas.speech_engine_configs import FakeSpeechConfig, KokoroSpeechConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.audio.trimming import find_speech
from bystander.tasks.engines.fake_speech import FakeSpeechEngine
from bystander.tasks.engines.kokoro import KokoroSpeechEngine

RATE = 24000
TEXT = "Right, but call my sister now."
ONSET_DB = 35.0
"""How far below the loudest frame a clip's speech begins."""


def make_request(
    samples: Samples, words: Sequence[str] | str, rate: int = RATE, language: str = "en", name: str = "clip"
) -> AlignmentRequest:
    return AlignmentRequest(name, samples, rate, tuple(words.split() if isinstance(words, str) else words), language)


def make_noise(seconds: float, level: float, rate: int = RATE) -> Samples:
    rng = np.random.Generator(np.random.PCG64(3))
    return (level * rng.normal(size=round(seconds * rate))).astype(np.float32)


def speak_code(text: str) -> Samples:
    (reply,) = FakeSpeechEngine(FakeSpeechConfig()).synthesise([SpeechRequest(text, "fake_01", 1)])
    assert isinstance(reply, SpeechReply)
    return reply.samples


@cache
def _open_kokoro() -> KokoroSpeechEngine:
    return KokoroSpeechEngine(KokoroSpeechConfig(), ModelStore().resolve)


@cache
def speak(texts: tuple[str, ...], voice: str) -> tuple[Samples, ...]:
    """Return the texts spoken by Kokoro, cut to their speech."""
    replies = _open_kokoro().synthesise([SpeechRequest(text, voice, 7) for text in texts])
    clips = []
    for reply in replies:
        assert isinstance(reply, SpeechReply)
        spans = find_speech(reply.samples, reply.sampling_rate, ONSET_DB)
        clips.append(reply.samples[spans[0, 0] : spans[-1, 1]])
    return tuple(clips)


def put_together(parts: Sequence[Samples | float]) -> tuple[Samples, list[float]]:
    """Return parts in a row over faint noise, floats being pauses in seconds, and where each sound begins."""
    starts: list[float] = []
    pieces: list[Samples] = []
    for part in parts:
        if isinstance(part, float):
            pieces.append(np.zeros(round(part * RATE), np.float32))
        else:
            starts.append(sum(map(len, pieces)) / RATE)
            pieces.append(part)
    clip = np.concatenate(pieces)
    return clip + make_noise(len(clip) / RATE, 3e-4)[: len(clip)], starts


def get_reply(answer: AlignmentReply | RowFault) -> AlignmentReply:
    assert isinstance(answer, AlignmentReply), answer
    return answer


def get_reason(answer: AlignmentReply | RowFault) -> str:
    assert isinstance(answer, RowFault), answer
    return answer.reason


def write_fake_mfa(folder: Path) -> Path:
    """Write a program `mfa` that is `fake_mfa`; return its path."""
    program = folder / "mfa"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {fake_mfa.__file__} "$@"\n', "utf-8")
    program.chmod(0o755)
    return program


def write_mfa_models(root: Path, *names: str) -> Path:
    """Write models as `mfa model download` leaves them, each name as an acoustic model and a dictionary."""
    for kind, ending in (("acoustic", ".zip"), ("dictionary", ".dict")):
        folder = root / "pretrained_models" / kind
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / f"{name}{ending}").write_text(f"{kind} {name}", "utf-8")
    return root


def write_ctm(path: Path, utterances: Mapping[str, Sequence[tuple[float, float, str]]], confidence: str = "") -> Path:
    """Write a CTM of (start, end, label) entries."""
    lines = [
        f"{name} 1 {start:.2f} {end - start:.2f} {label}{confidence}"
        for name, entries in utterances.items()
        for start, end, label in entries
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path
