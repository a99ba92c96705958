"""Reading a local copy of VoiceBench in the layout of its data set on Hugging Face, in bounded memory.

`<root>/<part>/<split>-00000-of-00001.parquet`, with the columns `audio` ({bytes, path}), `prompt` and, by part,
`reference`, `instruction_id_list` and `kwargs`; or `<root>/<part>/<split>.jsonl` of the same fields, whose `audio` is
the path of a sound file, from the JSONL file's folder. A row that cannot be used is rejected with a reason. What makes
a whole file useless is an `InputError`.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bystander.schemas.errors import InputError
from bystander.schemas.ifeval_instructions import INSTRUCTIONS, find_setting_fault
from bystander.schemas.voicebench import CHOICES, VOICEBENCH_REJECT, VOICEBENCH_ROW, VoiceBenchPart

_SHARD = re.compile(r"^(?P<split>.+?)-\d{5}-of-\d{5}$")
_ENDINGS = (".parquet", ".jsonl")
_BATCH_ROWS = 64  # audio of a batch is in memory at once

_COLUMNS = {
    "open": ("audio", "prompt"),
    "reference": ("audio", "prompt", "reference"),
    "choice": ("audio", "prompt", "reference"),
    "instructions": ("audio", "prompt", "instruction_id_list", "kwargs"),
    "refusal": ("audio", "prompt"),
}


@dataclass(slots=True)
class VoiceBenchFiles:
    """The files of one part, in order. `rejects` fills while rows are read: VOICEBENCH_REJECT, a dict a row."""

    part: VoiceBenchPart
    files: tuple[tuple[str, Path], ...]
    """Each file's split and path."""
    rejects: list[dict[str, Any]] = field(default_factory=list)

    def read(self, limit: int | None = None) -> Iterator[pa.Table]:
        """Yield the usable rows as VOICEBENCH_ROW tables of some tens of rows, at most `limit` rows in all.

        Raises:
            InputError: a file cannot be read, or lacks a column that the part needs.
        """
        left = limit
        positions: dict[str, int] = {}
        self.rejects.clear()
        for split, path in self.files:
            for batch in _read_records(path, _COLUMNS[self.part.kind]):
                kept = []
                for number, record in batch:
                    position = positions.get(split, 0)
                    positions[split] = position + 1
                    row_id = f"{self.part.name}/{split}/{position:05d}"
                    try:
                        row = _make_row(record, self.part, path)
                    except _UnusableRow as fault:
                        self.rejects.append(
                            {
                                "file": path.name,
                                "row": number,
                                "id": row_id,
                                "reject_reason": fault.reason,
                                "reject_detail": fault.detail,
                            }
                        )
                        continue
                    kept.append({"id": row_id, "part": self.part.name, "split": split, **row})
                    if left is not None and len(kept) == left:
                        break
                if kept:
                    yield pa.Table.from_pylist(kept, VOICEBENCH_ROW)
                if left is not None:
                    left -= len(kept)
                    if not left:
                        return

    def reject_table(self) -> pa.Table:
        """Return the rows rejected by the last reading."""
        return pa.Table.from_pylist(self.rejects, VOICEBENCH_REJECT)


class _UnusableRow(Exception):  # noqa: N818 - it is a verdict on a row, and never leaves this file
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def find_voicebench(root: str, part: VoiceBenchPart, splits: Sequence[str] = ()) -> VoiceBenchFiles:
    """Return the files of a part below `root`.

    Args:
        root: folder with one folder a part, named as published.
        part: the part.
        splits: which of its splits; by default the part's own.

    Raises:
        InputError: the folder of the part or of a split is missing, or there are files of both formats.
    """
    base = Path(root)
    if not base.is_dir():
        raise InputError(f"VoiceBench {root}: there is no such folder; give the local copy of its data set")
    folder = next((base / name for name in part.folders if (base / name).is_dir()), None)
    if folder is None:
        raise InputError(
            f"VoiceBench {root}: has no folder {' or '.join(part.folders)} for {part.title}; "
            "download it, or leave the part out with --parts"
        )
    found = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix.lower() in _ENDINGS)
    if len({path.suffix.lower() for path in found}) > 1:
        raise InputError(
            f"VoiceBench {folder}: holds Parquet and JSONL files, which would be read twice; keep one kind"
        )
    by_split: dict[str, list[Path]] = {}
    for path in found:
        match = _SHARD.match(path.stem)
        by_split.setdefault(match["split"] if match else path.stem, []).append(path)
    if not by_split:
        raise InputError(f"VoiceBench {folder}: holds no {' or '.join(_ENDINGS)} file")
    wanted = list(splits) or ([part.split] if part.split else list(by_split))
    missing = [split for split in wanted if split not in by_split]
    if missing:
        raise InputError(f"VoiceBench {folder}: has no split {', '.join(missing)}; it has {', '.join(by_split)}")
    return VoiceBenchFiles(part, tuple((split, path) for split in wanted for path in by_split[split]))


def _read_records(path: Path, columns: Sequence[str]) -> Iterator[list[tuple[int, Any]]]:
    """Yield batches of (row number from 1, record). A record that is no object comes as a `_UnusableRow`."""
    reader = _read_parquet if path.suffix.lower() == ".parquet" else _read_json_lines
    yield from reader(path, columns)


def _read_parquet(path: Path, columns: Sequence[str]) -> Iterator[list[tuple[int, Any]]]:
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, columns, file.schema_arrow.names)
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)):
                records = batch.to_pylist()
                yield [(number + i, record) for i, record in enumerate(records, start=1)]
                number += len(records)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as exc:
        after = f" after row {number}" if number else ""
        raise InputError(f"VoiceBench {path}: cannot be read{after} ({_first_line(exc)})") from exc


def _read_json_lines(path: Path, columns: Sequence[str]) -> Iterator[list[tuple[int, Any]]]:
    batch: list[tuple[int, Any]] = []
    try:
        with path.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, start=1):
                if not line.strip():
                    continue
                record = _parse_line(line)
                if number == 1 and isinstance(record, Mapping):
                    _check_columns(path, columns, list(record))
                batch.append((number, record))
                if len(batch) == _BATCH_ROWS:
                    yield batch
                    batch = []
    except OSError as exc:
        raise InputError(f"VoiceBench {path}: cannot be read ({exc.strerror})") from exc
    except UnicodeDecodeError as exc:
        raise InputError(f"VoiceBench {path}: is not UTF-8 text; convert it") from exc
    if batch:
        yield batch


def _parse_line(line: str) -> Any:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as exc:
        return _UnusableRow("not_an_object", f"is not JSON ({_first_line(exc)})")
    return record if isinstance(record, Mapping) else _UnusableRow("not_an_object", "is JSON, but not an object")


def _check_columns(path: Path, wanted: Sequence[str], names: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InputError(f"VoiceBench {path}: has no column {', '.join(missing)}; it has {', '.join(names)}")


def _make_row(record: Any, part: VoiceBenchPart, path: Path) -> dict[str, Any]:
    """Return the columns of a row that its record gives; raise `_UnusableRow` where it cannot be used."""
    if isinstance(record, _UnusableRow):
        raise record
    prompt = record.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise _UnusableRow("no_prompt", "field 'prompt' holds no text")
    row: dict[str, Any] = {"prompt": prompt, "reference": None, "instructions": []}
    if part.kind in ("reference", "choice"):
        row["reference"] = _take_reference(record.get("reference"), part)
    if part.kind == "instructions":
        row["instructions"] = _take_instructions(record.get("instruction_id_list"), record.get("kwargs"))
    return {**row, **_take_audio(record.get("audio"), path)}


def _take_reference(value: Any, part: VoiceBenchPart) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _UnusableRow("no_reference", "field 'reference' holds no text")
    text = value.strip()
    if part.kind == "choice":
        text = text.upper()
        if len(text) != 1 or text not in CHOICES:
            raise _UnusableRow("reference_not_a_letter", f"field 'reference' is {value!r}, not one of {CHOICES}")
    return text


def _take_instructions(names: Any, settings: Any) -> list[dict[str, str]]:
    if not isinstance(names, Sequence) or isinstance(names, str) or not names:
        raise _UnusableRow("no_instructions", "field 'instruction_id_list' holds no list of ids")
    if not isinstance(settings, Sequence) or isinstance(settings, str) or len(settings) != len(names):
        raise _UnusableRow("bad_instruction_settings", f"field 'kwargs' is no list of {len(names)} objects")
    instructions = []
    for name, given in zip(names, settings, strict=True):
        if name not in INSTRUCTIONS:
            raise _UnusableRow("unknown_instruction", f"field 'instruction_id_list' holds {name!r}")
        if given is not None and not isinstance(given, Mapping):
            raise _UnusableRow("bad_instruction_settings", f"field 'kwargs' holds {given!r}, which is no object")
        known = {key: value for key, value in (given or {}).items() if value is not None}
        if fault := find_setting_fault(name, known):
            raise _UnusableRow("bad_instruction_settings", f"field 'kwargs': {fault}")
        chosen = {key: known[key] for key in INSTRUCTIONS[name]}
        instructions.append({"id": name, "settings": json.dumps(chosen, sort_keys=True, ensure_ascii=False)})
    return instructions


def _take_audio(value: Any, path: Path) -> dict[str, Any]:
    import soundfile

    data, name = (value.get("bytes"), value.get("path")) if isinstance(value, Mapping) else (None, value)
    if data is None and isinstance(name, str) and name:
        data = _read_sound_file(path.parent / name)
    if not isinstance(data, bytes) or not data:
        raise _UnusableRow("no_audio", "field 'audio' holds neither bytes nor the path of a file that can be read")
    try:
        # All of it, not its header alone: a clip cut short would end the evaluation later.
        samples, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    except soundfile.LibsndfileError as exc:
        raise _UnusableRow("undecodable_audio", f"field 'audio': {_first_line(exc)}") from exc
    if not len(samples):
        raise _UnusableRow("undecodable_audio", "field 'audio' is a clip without any samples")
    return {
        "audio": {"bytes": data, "path": Path(name).name if isinstance(name, str) and name else None},
        "sampling_rate": rate,
        "duration_s": len(samples) / rate,
    }


def _read_sound_file(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _first_line(exc: BaseException) -> str:
    return str(exc).strip().split("\n", 1)[0][:200]
