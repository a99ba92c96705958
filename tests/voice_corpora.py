"""Small corpora of stand-in speech in the layouts that voice banks are made from."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile

from bystander.schemas.engines import Samples
from bystander.schemas.voice_bank_config import IndexVoicesConfig, load_index_config
from bystander.tasks.engines.fake_speech import encode_speech

RATE = 24000
AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def make_clip(voice: int, seed: int = 0, seconds: float = 8.0, noise: float = 1e-3, level: float = 0.5) -> Samples:
    """Words of a stand-in voice (0 to 31) with pauses, in noise; the fake verifier tells voices apart."""
    rng = np.random.default_rng(seed)
    words = ("please", "turn the", "kitchen light", "off before", "you leave", "tonight")
    pieces = [np.zeros(RATE // 4, np.float32)]
    while sum(map(len, pieces)) < (seconds - 0.25) * RATE:
        pieces += [encode_speech(str(rng.choice(words)), voice), np.zeros(int(0.2 * RATE), np.float32)]
    samples = np.concatenate(pieces)[: int((seconds - 0.25) * RATE)]
    samples = np.concatenate([samples, np.zeros(RATE // 4, np.float32)]) * np.float32(level)
    return samples + (noise * rng.standard_normal(len(samples))).astype(np.float32)


def write_clip(path: Path, samples: Samples, rate: int = RATE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, subtype="PCM_16", format=None if path.suffix != ".txt" else "WAV")
    return path


def encode_clip(samples: Samples, rate: int = RATE) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate, format="FLAC", subtype="PCM_16")
    return buffer.getvalue()


def write_folders(root: Path, voices: Mapping[str, int], clips: int = 3, seconds: float = 8.0) -> Path:
    """A folder a speaker; the number is the stand-in voice."""
    for speaker, voice in voices.items():
        for number in range(clips):
            clip = make_clip(voice, hash_seed(speaker, number), seconds)
            write_clip(root / speaker / f"{number}.flac", clip)
    return root


def write_mls(root: Path, speakers: Mapping[str, tuple[str, int]], metainfo: Sequence[str] | None = None) -> Path:
    """Multilingual LibriSpeech in small: `<subset>/audio/<speaker>/<book>/<speaker>_<book>_<utterance>.flac`."""
    lines = [" SPEAKER   |   GENDER   | PARTITION  |  MINUTES   |  BOOK ID   |    TITLE    |   CHAPTER   "]
    for number, (speaker, (subset, voice)) in enumerate(speakers.items()):
        gender = "F" if voice % 2 else "M"
        for book in ("1001", "1002"):
            lines.append(f"  {speaker}   |     {gender}      |   {subset}    |   15.3     |   {book}    | A | B ")
            name = f"{speaker}_{book}_000001"
            clip = make_clip(voice, 100 * number + int(book), 14.0)
            write_clip(root / subset / "audio" / speaker / book / f"{name}.flac", clip)
            with (root / subset / "transcripts.txt").open("a") as file:
                file.write(f"{name}\tplease turn the kitchen light off\n")
            with (root / subset / "segments.txt").open("a") as file:
                file.write(f"{name}\thttp://example.org/{book}.mp3\t0.0\t14.0\n")
    (root / "metainfo.txt").write_text("\n".join(metainfo if metainfo is not None else lines) + "\n")
    return root


def write_table(path: Path, rows: Sequence[Mapping[str, Any]], group_rows: int = 4, **kinds: pa.DataType) -> Path:
    """Rows of `audio` and what else they have, in row groups of a few."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    kinds = {"audio": AUDIO, **kinds}
    table = pa.table({name: pa.array([row.get(name) for row in rows], kinds.get(name)) for name in names})
    pq.write_table(table, path, row_group_size=group_rows)
    return path


def make_config(source: Path | str, **fields: Any) -> IndexVoicesConfig:
    """Settings with the fake verifier and one worker; `index__min_snr_db=20` sets a field within."""
    given = {name.replace("__", "."): value for name, value in fields.items()}
    return load_index_config(
        (), {"source.path": str(source), "verifier.engine": "fake_verifier", "workers": 1, **given}
    )


def hash_seed(speaker: str, number: int) -> int:
    return sum(ord(sign) * (at + 1) for at, sign in enumerate(speaker)) * 100 + number
