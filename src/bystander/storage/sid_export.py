"""Writes the rows of a SID build in the layout that SID-Bench was published in: JSONL files, and folders of clips."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa

from bystander.schemas.errors import InputError
from bystander.schemas.sid_evaluation import NOISE_SILENCE, SidCase
from bystander.storage.filesystem import open_store
from bystander.storage.sid_bench import read_sid_bench
from bystander.storage.sid_jsonl import format_references

AudioFormat = Literal["wav", "flac"]

_FILES = {NOISE_SILENCE: ("silence_noise_test.jsonl", "silence_or_noise")}


def export_sid_bench(
    bench: str, folder: str, audio: AudioFormat = "wav", details: bool = True, batch_rows: int = 64
) -> dict[str, int]:
    """Write `<language>_test_lines.jsonl` and `<language>/`, `silence_noise_test.jsonl` and `silence_or_noise/`.

    What is written can be read by `sid_bench.read_sid_bench` again, and by the authors' scorer.

    Args:
        bench: folder or URL of a finished build.
        folder: folder or URL to write to; files of the same names are replaced.
        audio: format of the clips, mono, 16 bit, at their own rate.
        details: whether lines also state category, language, source and recording, which the published lines have not.
        batch_rows: clips held at once.

    Returns:
        Lines of each JSONL file written.

    Raises:
        InputError: a clip cannot be decoded.
        BuildError: the bench is no finished build.
    """
    found = read_sid_bench(bench)
    target = open_store(folder)
    cases = {case.id: replace(case, audio=f"{case.id}.{audio}") for case in found.cases}
    for table in found.read_clips(batch_rows):
        for row_id, data in _list_clips(table):
            path = posixpath.join(_name_files(cases[row_id])[1], cases[row_id].audio)
            target.write_bytes(path, _recode(data, audio, row_id), durable=False)
    files: dict[str, list[SidCase]] = {}
    for case in cases.values():
        files.setdefault(_name_files(case)[0], []).append(case)
    for name, members in files.items():
        target.write_bytes(name, format_references(members, details).encode())
    return {name: len(members) for name, members in files.items()}


def _name_files(case: SidCase) -> tuple[str, str]:
    """Return the JSONL file and the folder of a case."""
    return _FILES.get(case.group, (f"{case.group}_test_lines.jsonl", case.group))


def _list_clips(table: pa.Table) -> Iterable[tuple[str, bytes]]:
    return ((row["id"], row["audio"]["bytes"]) for row in table.select(["id", "audio"]).to_pylist())


def _recode(data: bytes, audio: AudioFormat, row_id: str) -> bytes:
    """Return a clip in the wanted format; its samples stay what they are where 16 bits hold them."""
    import io

    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(data)) as clip:
            if clip.format.lower() == audio and clip.channels == 1:
                return data
            samples, rate = clip.read(dtype="int16", always_2d=True)[:, 0], clip.samplerate
    except (soundfile.SoundFileError, RuntimeError) as exc:
        raise InputError(f"bench: the clip of row {row_id} cannot be decoded ({exc}); build the bench again") from exc
    buffer = io.BytesIO()
    soundfile.write(buffer, np.ascontiguousarray(samples), rate, format=audio.upper(), subtype="PCM_16")
    return buffer.getvalue()
