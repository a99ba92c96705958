"""Rows to be read in a recording session, sheets of them, and what two microphones hear of a take."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.pages.session_sheet import render_session_sheet
from bystander.schemas.engines import SpeechReply, SpeechRequest
from bystander.schemas.recording_session import SessionPlan, SessionSheet
from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
from bystander.storage.filesystem import open_store
from bystander.storage.model_store import ModelStore
from bystander.storage.session_files import write_session
from bystander.tasks.audio.trimming import find_speech
from bystander.tasks.engines.kokoro import KokoroSpeechEngine
from bystander.tasks.session.plan_takes import plan_takes
from final_rows import make_row

RATE = 24000
LINES = (
    ("Give me directions to the train station.", "That is not quite right, the bridge is closed this week."),
    ("Write a birthday poem for a gardener.", "Oh, and a line about tomatoes too."),
    ("How do I grow basil on a windowsill?", "Get to the point, you are worse than my aunt."),
    ("Call the library and ask about the printer.", "Never mind, the library is closed on Wednesdays."),
)
Sound = npt.NDArray[np.float32]


@cache
def _make_row(at: int) -> dict[str, Any]:
    return {name: value for name, value in make_row(at).items() if name != "audio"}


def make_rows(count: int = len(LINES)) -> list[dict[str, Any]]:
    """Return rows without audio; those beyond the first four say the lines again."""
    rows = []
    for at in range(count):
        primary, third = LINES[at % len(LINES)]
        row = deepcopy(_make_row(at))
        texts = {"query_text": primary, "request": primary, "primary_complete": primary, "primary_text": primary}
        rows.append(row | texts | {"third_party_text": third, "timing": "after_completion", "offset_asked_s": -0.4})
    return rows


def make_sheet(rows: list[dict[str, Any]] | None = None, **plan: Any) -> SessionSheet:
    """Return the sheet of rows, all of them if `takes` is not given."""
    rows = make_rows() if rows is None else rows
    settings = SessionPlan(**{"speakers": ("ann", "ben"), "rooms": ("hallway",), "takes": len(rows), **plan})
    facts = {
        "pack": {"name": "reference", "digest": "ab" * 32, "classes": {"actionable": ["x"], "ignorable": []}},
        "taxonomy": {"name": "reference", "digest": "cd" * 32, "scenarios": {}},
        "engines": {},
        "seed": 0,
    }
    return SessionSheet(
        prefix="XD",
        build="tpi-bench/demo",
        rows_digest="ef" * 32,
        build_facts=facts,
        plan=settings,
        takes=tuple(plan_takes(rows, settings, "XD")),
    )


def write_sheet(folder: Path, sheet: SessionSheet) -> Path:
    write_session(open_store(str(folder)), sheet, render_session_sheet(sheet))
    return folder


@cache
def _open_kokoro() -> KokoroSpeechEngine:
    return KokoroSpeechEngine(KokoroSpeechConfig(), ModelStore().resolve)


@cache
def say(text: str, voice: str) -> Sound:
    """Return a line from its first sound to its last, at -24 dBFS."""
    (reply,) = _open_kokoro().synthesise([SpeechRequest(text, voice, 0)])
    assert isinstance(reply, SpeechReply)
    spans = find_speech(reply.samples, reply.sampling_rate, 35.0)
    line = reply.samples[spans[0, 0] : spans[-1, 1]]
    return np.asarray(line * 10 ** (-24 / 20) / np.sqrt(np.mean(line.astype(np.float64) ** 2)), np.float32)


def say_take(primary: str, third: str, offset_s: float) -> Sound:
    """Return both lines, a channel each, with a leak of -20 dB: shape (n, 2)."""
    first, second = say(primary, "am_michael"), say(third, "bf_emma")
    start = len(first) + round(offset_s * RATE)
    clean = np.zeros((max(len(first), start + len(second)), 2), np.float32)
    clean[: len(first), 0] = first
    clean[start : start + len(second), 1] = second
    return clean + np.float32(0.1) * clean[:, ::-1]


def add_room(parts: list[Sound], level_dbfs: float = -65.0) -> Sound:
    """Return parts one after the other, in noise: shape (n, 2)."""
    whole = np.concatenate(parts)
    noise = np.random.default_rng(0).standard_normal(whole.shape) * 10 ** (level_dbfs / 20)
    return np.asarray(whole + noise, np.float32)


def make_quiet(seconds: float) -> Sound:
    return np.zeros((round(seconds * RATE), 2), np.float32)
