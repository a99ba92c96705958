"""Speaks a recording session by its sheet with Kokoro's voices, with faults planted, for `recording_sessions.py`.

What is known of it: when each line begins and ends, in clean clips, and which fault was planted where.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from bystander.schemas.engines import SpeechReply, SpeechRequest
from bystander.schemas.recording_session import SessionSheet, Take
from bystander.schemas.speech_engine_configs import KokoroSpeechConfig
from bystander.storage.model_store import ModelStore
from bystander.tasks.audio.resampling import resample
from bystander.tasks.audio.trimming import find_speech
from bystander.tasks.engines.kokoro import KokoroSpeechEngine

RATE = 24000
Sound = npt.NDArray[np.float64]
FAULTS = ("missing", "wrong_line", "clipped", "late", "quiet", "swapped", "repeated")
"""In this order, on 7 of 12 takes."""
EXPECTED = {
    "missing": "missing_take",
    "wrong_line": "misread",
    "clipped": "clipped",
    "late": "came_in_late",
    "quiet": "too_quiet",
    "repeated": "repeated_take",
    "swapped": None,
}
"""The reason that the import is to file it under; swapped channels become a row all the same."""
_LEAK_DB, _LEAK_S = -16.0, 0.004
_NOISE_DBFS, _SPEECH_DBFS = -62.0, -24.0
_RT60_S = 0.3


@dataclass(frozen=True)
class Said:
    """One try at a take: two clean lines in one clip, shape (n, 2), the primary's first."""

    take: Take
    clean: Sound
    offset_s: float
    """The third party's first sound after the primary's last one."""
    fault: str | None


class Speaker:
    """Speaks the lines of a sheet in other voices than those of the build."""

    def __init__(self, sheet: SessionSheet, seed: int) -> None:
        self._engine = KokoroSpeechEngine(KokoroSpeechConfig(), ModelStore().resolve)
        used = {take.row[role] for take in sheet.takes for role in ("primary_voice", "third_party_voice")}
        free = [
            voice.id for voice in self._engine.voices if voice.id not in used and voice.id != "af_nicole"
        ]  # whispers
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(free)[: len(sheet.plan.speakers)]
        self.voices = dict(zip(sheet.plan.speakers, (str(voice) for voice in chosen), strict=True))
        self._seed = seed

    def say(self, text: str, person: str) -> Sound:
        """Return a line from its first sound to its last."""
        (reply,) = self._engine.synthesise([SpeechRequest(text.removesuffix("..."), self.voices[person], self._seed)])
        if not isinstance(reply, SpeechReply):
            raise SystemExit(f"{text}: {reply.detail}")
        spans = find_speech(reply.samples, reply.sampling_rate, 35.0)
        line = reply.samples[spans[0, 0] : spans[-1, 1]].astype(np.float64)
        line = resample(line.astype(np.float32), reply.sampling_rate, RATE).astype(np.float64)
        return line * 10 ** (_SPEECH_DBFS / 20) / np.sqrt(np.mean(line**2))


def say_session(sheet: SessionSheet, seed: int) -> Iterator[Said]:
    """Yield all tries in order: cut-ins are off by 0.15 s (standard deviation), 7 of 12 takes have a fault."""
    rng = np.random.default_rng([seed, 1])
    speaker = Speaker(sheet, seed)
    for at, take in enumerate(sheet.takes):
        number, left = divmod(at * len(FAULTS), 12)
        fault = FAULTS[number % len(FAULTS)] if left < len(FAULTS) else None
        primary = speaker.say(take.row["primary_text"], take.primary)
        line = sheet.takes[(at + 3) % len(sheet.takes)].row if fault == "wrong_line" else take.row
        third = speaker.say(line["third_party_text"], take.third_party)
        offset = float(np.clip(take.offset_s + rng.normal(0, 0.15), 0.3 - len(primary) / RATE, 0.6))
        if fault == "late":
            offset = 1.3
        first = Said(take, _lay(primary, third, offset), offset, fault)
        if fault == "repeated":
            again = float(np.clip(take.offset_s + rng.normal(0, 0.15), 0.3 - len(primary) / RATE, 0.6))
            yield first
            yield Said(take, _lay(primary, third, again), again, fault)
        elif fault != "missing":
            yield first


def _lay(primary: Sound, third: Sound, offset_s: float) -> Sound:
    start = len(primary) + round(offset_s * RATE)
    clean = np.zeros((max(len(primary), start + len(third)), 2))
    clean[: len(primary), 0] = primary
    clean[start : start + len(third), 1] = third
    return clean


def record(said: Said, rng: np.random.Generator) -> Sound:
    """Return what two microphones hear of a try: rooms that ring, leaks, and the faults of recording."""
    length = round(_RT60_S * RATE)
    decay = 10 ** (-3 * np.arange(length) / length)
    heard = np.zeros((len(said.clean) + length, 2))
    for person in (0, 1):
        for microphone in (0, 1):
            answer = rng.standard_normal(length) * decay * 0.02
            answer[0 if person == microphone else round(_LEAK_S * RATE)] += 1.0
            gain = 1.0 if person == microphone else 10 ** (_LEAK_DB / 20)
            wet = np.fft.irfft(np.fft.rfft(said.clean[:, person], 2 * len(heard)) * np.fft.rfft(answer, 2 * len(heard)))
            heard[:, microphone] += gain * wet[: len(heard)]
    if said.fault == "clipped":
        heard = np.clip(heard * 12, -0.9999, 0.9999)
    if said.fault == "quiet":
        heard *= 10 ** (-33 / 20)
    return heard[:, ::-1] if said.fault == "swapped" else heard


def write_recordings(tries: Sequence[Said], speaker: Speaker, folder: Path, seed: int) -> None:
    """Write `mono.wav` (16 kHz), `two.flac` (48 kHz, a channel a person) and `takes/` (44.1 kHz, a file a try)."""
    rng = np.random.default_rng([seed, 2])
    shutil.rmtree(folder / "takes", ignore_errors=True)  # takes of an earlier run
    (folder / "takes").mkdir(parents=True)
    parts: list[Sound] = [np.zeros((2 * RATE, 2))]
    met: dict[str, int] = {}
    for said in tries:
        heard = record(said, rng)
        slate = np.zeros((0, 2))
        if said.take.number % 3:  # every third slate is forgotten
            words = speaker.say(f"{said.take.slate}.", said.take.primary)
            slate = record(replace(said, clean=np.stack([words, 0 * words], 1), fault=None), rng)
        parts += [slate, np.zeros((round(rng.uniform(0.7, 3.2) * RATE), 2)) if len(slate) else slate]
        parts += [heard, np.zeros((round(rng.uniform(2.5, 5.0) * RATE), 2))]
        met[said.take.code] = met.get(said.take.code, 0) + 1
        name = f"{said.take.code}{'' if met[said.take.code] == 1 else '-' + str(met[said.take.code])}.wav"
        quiet = np.zeros((round(rng.uniform(0.5, 1.0) * RATE), 2))
        _write(folder / "takes" / name, _add_noise(np.concatenate([quiet, heard, quiet]), rng), 44100)
    whole = _add_noise(np.concatenate(parts), rng)
    _write(folder / "two.flac", whole, 48000)
    _write(folder / "mono.wav", whole.sum(axis=1, keepdims=True), 16000)


def _add_noise(sound: Sound, rng: np.random.Generator) -> Sound:
    white = np.fft.rfft(rng.standard_normal((len(sound), 2)), axis=0)
    pink = np.fft.irfft(white / np.sqrt(np.maximum(np.arange(len(white)), 30))[:, None], len(sound), axis=0)
    return sound + pink * 10 ** (_NOISE_DBFS / 20) / np.sqrt(np.mean(pink**2))


def _write(path: Path, sound: Sound, rate: int) -> None:
    values = np.clip(sound, -0.99997, 0.99997).astype(np.float32)
    soundfile.write(path, np.clip(resample(values, RATE, rate), -0.99997, 0.99997), rate, subtype="PCM_16")
