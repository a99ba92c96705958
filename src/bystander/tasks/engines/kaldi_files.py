"""Files of alignments that Kaldi writes: CTM, phones.txt, and arks of integer vectors.

kaldi-io opens `cmd|` as a shell command, so it is given open files only, and no path that could be one gets here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.errors import EngineSetupError, InputError
from bystander.tasks.engines.found_words import FoundWord

_IMPORT_LOCK = threading.Lock()


def check_path(path: str, setting: str) -> Path:
    """Return the path of a regular file on this machine.

    Raises:
        EngineSetupError: it is a pipe, a command, a Kaldi specifier (`ark:...`), or no file.
    """
    if "|" in path or (path.startswith(("ark", "scp")) and ":" in path) or path.strip() in {"", "-"}:
        raise EngineSetupError(f"kaldi_ark: {setting}: {path!r} is no plain path; pipes and specifiers are not opened")
    found = Path(path)
    if not found.is_file():
        raise EngineSetupError(f"kaldi_ark: {setting}: {path}: there is no such file")
    return found


def read_ctm(path: Path) -> dict[str, list[FoundWord]]:
    """Return the entries of each utterance in order of their starts: `utterance channel start duration label [score]`.

    Raises:
        InputError: names the line that is no entry.
    """
    utterances: dict[str, list[FoundWord]] = {}
    for number, line in enumerate(_read_lines(path), start=1):
        fields = line.split()
        if not fields or fields[0].startswith(";;"):
            continue
        try:
            start_s, duration_s = float(fields[2]), float(fields[3])
            label, score = fields[4], float(fields[5]) if len(fields) > 5 else None
        except (IndexError, ValueError):
            raise InputError(
                f"{path}: line {number} is no CTM entry (utterance, channel, start, duration, label): {line[:80]!r}"
            ) from None
        utterances.setdefault(fields[0], []).append(FoundWord(label, start_s, start_s + duration_s, score))
    return {name: sorted(entries, key=lambda entry: entry.start_s) for name, entries in utterances.items()}


def read_phone_table(path: Path) -> dict[int, str]:
    """Return the symbols of a phones.txt by number.

    Raises:
        InputError: names the line that is no symbol and number.
    """
    table: dict[int, str] = {}
    for number, line in enumerate(_read_lines(path), start=1):
        fields = line.split()
        if len(fields) != 2 or not fields[1].isdigit():
            raise InputError(f"{path}: line {number} is no symbol and number: {line[:80]!r}")
        table[int(fields[1])] = fields[0]
    return table


def read_phone_ark(path: Path, table: dict[int, str], frame_shift_s: float) -> dict[str, list[FoundWord]]:
    """Return the runs of each utterance's phones, frame by frame in the ark, as entries with times.

    Raises:
        EngineSetupError: kaldi-io is missing.
        InputError: the file is no ark of integer vectors, or has a phone that is not in the table.
    """
    utterances: dict[str, list[FoundWord]] = {}
    try:
        for name, frames in _read_vectors(path):
            utterances[name] = _join_runs(frames, table, frame_shift_s)
    except KeyError as exc:
        raise InputError(f"{path}: phone {exc} is not in the phone table") from None
    return utterances


def _read_vectors(path: Path) -> Iterator[tuple[str, npt.NDArray[np.int32]]]:
    kaldi_io = _import_kaldi_io()
    with path.open("rb") as stream:
        try:
            yield from kaldi_io.read_vec_int_ark(stream)
        except (AssertionError, ValueError, IndexError, TypeError, AttributeError) as exc:
            raise InputError(f"{path}: is no ark of integer vectors ({exc or type(exc).__name__})") from exc


def _join_runs(frames: npt.NDArray[np.int32], table: dict[int, str], frame_shift_s: float) -> list[FoundWord]:
    edges = [0, *(np.flatnonzero(np.diff(frames)) + 1).tolist(), len(frames)]
    return [
        FoundWord(table[int(frames[start])], start * frame_shift_s, end * frame_shift_s)
        for start, end in pairwise(edges)
        if end > start
    ]


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"{path}: cannot be read as text ({exc})") from exc


def _import_kaldi_io() -> Any:
    # On import it prints a banner unless $KALDI_ROOT exists, and puts that folder's programs into $PATH.
    with _IMPORT_LOCK:
        before = {name: os.environ.get(name) for name in ("KALDI_ROOT", "PATH")}
        os.environ["KALDI_ROOT"] = os.sep
        try:
            import kaldi_io
        except ImportError as exc:
            raise EngineSetupError("the package kaldi-io is missing; run: pip install kaldi-io") from exc
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
    return kaldi_io
