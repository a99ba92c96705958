"""Reads and writes the published JSONL of SID-Bench: references, and predictions.

A reference is `{"audio", "total_nonbreak", "duration", "break_time", "text_with_break"}`, one a line: `break_time` is
the duration where there is no break, and the text null for silence and noise. A prediction is `{"audio",
"total_nonbreak", "break_time"}`: `total_nonbreak` is true and `break_time` -1 where the system never stopped.

The published lines have neither category nor language. Read back, a text that begins with `<break>` is a `beginning`,
another with a break a `middle`, one without a break `uninterrupted`; a clip without text is `silence` where its name
says so (`silence`, or `silecnce` as the published files have it), else `noise`. The language is that of the file's name
(`en_...`, `zh_...`), since both published files hold some clips of the other language and the paper's columns are the
files; else Chinese where the text has Chinese characters, and English. Lines may state `category`, `language`, `source`
and `recording_id` themselves.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bystander.schemas.errors import InputError, StorageError
from bystander.schemas.sid import BEGINNING, CATEGORIES, MIDDLE, NOISE, SILENCE, SPEECH_CATEGORIES, UNINTERRUPTED
from bystander.schemas.sid_evaluation import SidCase, Stops
from bystander.schemas.text_tasks import BREAK_TAG
from bystander.storage.filesystem import Store, open_file, open_store

NEVER = -1
"""`break_time` of a prediction that never stopped."""
ENDINGS = (".jsonl", ".ndjson")
_PUBLISHED = ("audio", "total_nonbreak", "duration", "break_time", "text_with_break")
_DETAILS = ("category", "language", "source", "recording_id")
_TOLERANCE_S = 0.05  # between a duration and a break time that must equal it: files round them differently
_FILE_LANGUAGE = re.compile(r"(en|zh)[_\-.]")
_SILENCE = re.compile(r"silen?c|silecnce", re.IGNORECASE)
_CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")


@dataclass(frozen=True, slots=True)
class References:
    """What files of references hold: cases in the order of the lines, digest of the files, equal lines left out."""

    cases: tuple[SidCase, ...]
    digest: str
    doubled: int


@dataclass(frozen=True, slots=True)
class Predictions:
    """What files of predictions hold: stops by audio name, the SHA-256 of the files, equal lines left out."""

    stops: Stops
    digest: str
    doubled: int
    places: Mapping[str, str] = field(default_factory=dict)
    """File and line of each."""


def read_references(path: str) -> References:
    """Return the cases of a JSONL file, or of all in a folder, in the order of names and lines.

    A line that comes twice alike counts once.

    Raises:
        InputError: names the file, line and field that is wrong: no JSON object, a field is missing or of another type,
            a time is not finite, negative or outside the clip, the flag and the times disagree, or an audio comes twice
            with different values.
    """
    cases: dict[str, SidCase] = {}
    lines: dict[str, tuple[str, dict[str, Any]]] = {}
    doubled = 0
    files = list(_read_files(path, "references"))
    for name, data in files:
        for place, record in _read_lines(name, data, "references", _PUBLISHED):
            case = _make_case(place, record, name)
            if case.id not in cases:
                cases[case.id], lines[case.id] = case, (place, record)
            elif lines[case.id][1] == record:
                doubled += 1
            else:
                raise InputError(f"references {place}: {case.id} is there already, otherwise, at {lines[case.id][0]}")
    if not cases:
        raise InputError(f"references {path}: there is none in it; write one line a clip: {', '.join(_PUBLISHED)}")
    return References(tuple(cases.values()), _digest(files), doubled)


def read_predictions(path: str) -> Predictions:
    """Return the stops of a JSONL file, or of all in a folder.

    A line that comes twice alike counts once. Stops after the clip's end are no fault: systems answer late.

    Raises:
        InputError: names the file, line and field that is wrong: no JSON object, a field is missing or of another type,
            a time is not finite or negative though the system stopped, it never stopped but has a time, or an audio
            comes twice with different values.
    """
    stops: dict[str, float | None] = {}
    places: dict[str, str] = {}
    doubled = 0
    files = list(_read_files(path, "predictions"))
    for name, data in files:
        for place, record in _read_lines(name, data, "predictions", ("audio", "total_nonbreak", "break_time")):
            audio, stop = _read_audio(place, record, "predictions"), _read_stop(place, record)
            if audio not in stops:
                stops[audio], places[audio] = stop, place
            elif stops[audio] == stop:
                doubled += 1
            else:
                raise InputError(
                    f"predictions {place}: {audio} is there already, otherwise, at {places[audio]}; keep one"
                )
    if not stops:
        raise InputError(
            f"predictions {path}: there is none in it; write one line a clip: audio, total_nonbreak, break_time"
        )
    return Predictions(stops, _digest(files), doubled, places)


def format_references(cases: Iterable[SidCase], details: bool = False) -> str:
    """Return the lines of cases, with `details` also their category, language, source and recording."""

    def make(case: SidCase) -> dict[str, Any]:
        no_break = case.break_time_s is None
        values = (case.audio, no_break, case.duration_s, case.duration_s if no_break else case.break_time_s)
        record = dict(zip(_PUBLISHED, (*values, case.text_with_break), strict=True))
        return {**record, **{name: getattr(case, name) for name in _DETAILS}} if details else record

    return _format_lines(make(case) for case in cases)


def format_predictions(stops: Stops) -> str:
    """Return the lines of stops by audio name, in their order."""
    return _format_lines(
        {"audio": audio, "total_nonbreak": stop is None, "break_time": NEVER if stop is None else stop}
        for audio, stop in stops.items()
    )


# ---- lines ---------------------------------------------------------------------------------------------------


def _make_case(place: str, record: Mapping[str, Any], file: str) -> SidCase:
    where = f"references {place}"
    audio, no_break = _read_audio(place, record, "references"), _read_flag(record, where)
    duration = _read_time(record, "duration", where)
    if duration <= 0:
        raise InputError(f"{where}: duration is {duration:g}; give the seconds of the clip, above 0")
    break_time = _read_time(record, "break_time", where)
    if no_break and abs(break_time - duration) > _TOLERANCE_S:
        raise InputError(
            f"{where}: total_nonbreak is true, but break_time {break_time:g} is not the duration {duration:g}; "
            "correct one of them"
        )
    if not 0 <= break_time <= duration + _TOLERANCE_S:
        raise InputError(f"{where}: break_time is {break_time:g}; it must be from 0 to the duration {duration:g}")
    text = record["text_with_break"]
    if text is not None and not isinstance(text, str):
        raise InputError(f"{where}: text_with_break is {text!r}; it must be text, or null for silence and noise")
    details = {name: _read_detail(record, name, where) for name in _DETAILS}
    category = details["category"] or _tell_category(audio, no_break, text)
    if category not in CATEGORIES:
        raise InputError(f"{where}: category is {category!r}; there are {', '.join(CATEGORIES)}")
    if (category not in (BEGINNING, MIDDLE)) != no_break:
        raise InputError(
            f"{where}: total_nonbreak is {str(no_break).lower()}, which no clip of category {category} has"
            f"{'' if text else '; without a text_with_break it is one without speech'}"
        )
    spoken = category in SPEECH_CATEGORIES
    return SidCase(
        id=audio,
        audio=audio,
        duration_s=duration,
        break_time_s=None if no_break else min(break_time, duration),
        category=category,
        language=details["language"] or (_tell_language(file, text or "") if spoken else None),
        source=details["source"] or file.rpartition("/")[2],
        recording_id=details["recording_id"],
        text_with_break=text,
    )


def _read_stop(place: str, record: Mapping[str, Any]) -> float | None:
    where = f"predictions {place}"
    never = _read_flag(record, where)
    if never and record["break_time"] is None:
        return None
    time = _read_time(record, "break_time", where)
    if never:
        if time != NEVER:
            raise InputError(
                f"{where}: total_nonbreak is true, but break_time is {time:g}; write {NEVER} where the system never "
                "stopped, or false where it did"
            )
        return None
    if time < 0:
        raise InputError(
            f"{where}: break_time is {time:g}, though total_nonbreak is false; give the seconds from the clip's start "
            "at which the system stopped, or total_nonbreak true"
        )
    return time


def _read_audio(place: str, record: Mapping[str, Any], kind: str) -> str:
    audio = record["audio"]
    if not isinstance(audio, str) or not audio:
        raise InputError(f"{kind} {place}: audio is {audio!r}; it must be the name of the clip's file")
    return audio


def _read_flag(record: Mapping[str, Any], where: str) -> bool:
    flag = record["total_nonbreak"]
    if not isinstance(flag, bool):
        raise InputError(f"{where}: total_nonbreak is {flag!r}; it must be true or false")
    return flag


def _read_time(record: Mapping[str, Any], name: str, where: str) -> float:
    value = record[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where}: {name} is {value!r}; it must be a number of seconds")
    try:
        time = float(value)
    except OverflowError:
        time = math.inf
    if not math.isfinite(time):
        raise InputError(f"{where}: {name} is {value!r:.40}; it must be a finite number of seconds")
    return time


def _read_detail(record: Mapping[str, Any], name: str, where: str) -> str | None:
    value = record.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise InputError(f"{where}: {name} is {value!r}; it must be text, or null")
    return value


def _tell_category(audio: str, no_break: bool, text: str | None) -> str:
    if text is None:
        return SILENCE if _SILENCE.search(audio) else NOISE
    if no_break:
        return UNINTERRUPTED
    return BEGINNING if text.lstrip().startswith(BREAK_TAG) else MIDDLE


def _tell_language(file: str, text: str) -> str:
    named = _FILE_LANGUAGE.match(file.rpartition("/")[2].lower())
    if named:
        return named[1]
    return "zh" if _CHINESE.search(text) else "en"


# ---- files ---------------------------------------------------------------------------------------------------


def _read_files(path: str, kind: str) -> Iterator[tuple[str, bytes]]:
    """Yield address and content of each file: the one that `path` names, or all of a folder, sorted."""
    try:
        if path.lower().endswith(ENDINGS):
            store, name = open_file(path)
            names = [name]
        else:
            store = open_store(path)
            names = [name for name in store.list() if "/" not in name and name.lower().endswith(ENDINGS)]
    except StorageError as exc:
        raise InputError(f"{kind} {exc}") from exc
    if not names:
        raise InputError(f"{kind} {path}: holds no file that ends in {' or '.join(ENDINGS)}")
    for name in names:
        yield _address(store, path, name), _read_bytes(store, name, kind)


def _address(store: Store, path: str, name: str) -> str:
    return path if path.lower().endswith(ENDINGS) else store.uri_of(name)


def _read_bytes(store: Store, name: str, kind: str) -> bytes:
    try:
        return store.read_bytes(name)
    except StorageError as exc:
        raise InputError(f"{kind} {exc}") from exc


def _read_lines(name: str, data: bytes, kind: str, fields: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place of each line that is not blank, and its object, which has all `fields`."""
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"{name}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise InputError(f"{kind} {place}: is not JSON ({exc}); write one object a line") from exc
        if not isinstance(record, dict):
            raise InputError(f"{kind} {place}: is no JSON object; write one with the fields {', '.join(fields)}")
        if missing := [field for field in fields if field not in record]:
            raise InputError(f"{kind} {place}: has no field {' and no field '.join(missing)}")
        yield place, record


def _digest(files: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for _, data in files:
        digest.update(hashlib.sha256(data).digest())
    return digest.hexdigest()


def _format_lines(records: Iterable[Mapping[str, Any]]) -> str:
    encode: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    return "".join(f"{encode(dict(record))}\n" for record in records)
