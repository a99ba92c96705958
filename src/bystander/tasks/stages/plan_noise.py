"""Plans clips of environmental noise: from folders of recordings, and from generators for what those leave open."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from bystander.schemas.arrays import build_array
from bystander.schemas.errors import ConfigError
from bystander.schemas.identity import derive_seed, make_id
from bystander.schemas.ordering import interleave
from bystander.schemas.sid import NOISE, NOISE_PLAN
from bystander.schemas.sid_config import NoiseSource
from bystander.tasks.audio.noise_generators import GENERATORS
from bystander.tasks.audio.surroundings import list_clips

GENERATED = "generated/"
"""Before the name of a generator in a row's `source`."""
_OWN_LICENCE = "Apache-2.0"
"""This project's, of what its generators make."""
_SEEDED_AS = "plan_noise"
_FOLDERS, _GENERATORS = "noise.folders", "noise.generators"
_ESC_TABLE = Path("meta/esc50.csv")


@dataclass(frozen=True, slots=True)
class NoiseFile:
    """A file of noise: where it is, its name for people (folder and path within), and what kind it is."""

    path: Path
    name: str
    category: str


@dataclass(frozen=True, slots=True)
class NoiseItem:
    """A noise clip that is to be made: from a file, or else from the generator that `source` names."""

    id: str
    source: str
    licence: str | None
    file: NoiseFile | None
    draw: int


def list_noise_files(folder: str, skip: AbstractSet[str] = frozenset()) -> list[NoiseFile]:
    """Return the noise files of a folder, ordered by name, without the categories in `skip`.

    Layouts, told by what is there:
        ESC-50: `meta/esc50.csv` names the files in `audio/` and their categories.
        MUSAN: `noise/` beside `speech/` or `music/`, of which only `noise/` is noise; its subfolders are categories.
        Any other: all audio files; the folder that a file lies in is its category.

    Raises:
        ConfigError: the folder is missing or holds no audio file, or a table does not fit its files.
    """
    root = Path(folder)
    if (root / _ESC_TABLE).is_file():
        files = _read_esc(root)
    else:
        musan = (root / "noise").is_dir() and ((root / "speech").is_dir() or (root / "music").is_dir())
        top = root / "noise" if musan else root
        files = [
            NoiseFile(path, f"{root.name}/{path.relative_to(root).as_posix()}", path.parent.name)
            for path in list_clips(str(top), _FOLDERS)
        ]
    kept = [file for file in files if file.category not in skip]
    if not kept:
        raise ConfigError(f"{_FOLDERS}: all files of {folder} are of categories that noise.skip_categories leaves out")
    return kept


def plan_noise(
    count: int, source: NoiseSource, build_seed: int, taken: AbstractSet[str] = frozenset()
) -> list[NoiseItem]:
    """Return `count` noise clips, fewer where there are no more files and no generator.

    Files come first, each once; folders take turns, and within a folder its categories do, in an order drawn by the
    seed, so that a plan of any size is spread over them. Generators, in turn, fill up the rest. The first `n` of a
    plan are the plan of `n`. With sides, files of the other side are left out, and generated clips are others. Clips
    whose ids are in `taken` (made before, or rejected) are passed over.

    Raises:
        ConfigError: there is no such generator, a folder is wrong, or it has no file on the side that is used.
    """
    unknown = sorted(set(source.generators) - set(GENERATORS))
    if unknown:
        raise ConfigError(f"{_GENERATORS}: no generator {', '.join(unknown)}; there are {', '.join(GENERATORS)}")
    skip = frozenset(source.skip_categories)
    folders = [
        _spread(_take_side(folder, list_noise_files(folder, skip), source), build_seed) for folder in source.folders
    ]
    side = () if source.use == "all" else (source.use,)
    items: list[NoiseItem] = []
    passed = set(taken)
    for file in interleave(folders):
        # With the size, for folders of one name; a file that is in two of them is one clip.
        row_id = make_id("noise", file.name, _measure_file(file.path))
        if row_id not in passed and len(items) < count:
            passed.add(row_id)
            items.append(NoiseItem(row_id, file.name, source.licence, file, 0))
    draw = 0
    while source.generators and len(items) < count:
        kind = source.generators[draw % len(source.generators)]
        row_id = make_id("noise", kind, build_seed, draw, *side)
        if row_id not in taken:
            items.append(NoiseItem(row_id, f"{GENERATED}{kind}", _OWN_LICENCE, None, draw))
        draw += 1
    return items


def read_noise_plan(items: Sequence[NoiseItem]) -> pa.Table:
    """Return items as `NOISE_PLAN` rows, with the bytes of their files; hand over as many as memory holds.

    Raises:
        ConfigError: a file cannot be read.
    """
    rows = [
        {
            "id": item.id,
            "category": NOISE,
            "source": item.source,
            "licence": item.licence,
            "synthetic": item.file is None,
            "pieces": [] if item.file is None else [{"bytes": _read(item.file.path), "path": item.file.name}],
            "draw": item.draw,
        }
        for item in items
    ]
    columns = [build_array([row[field.name] for row in rows], field.type) for field in NOISE_PLAN]
    return pa.Table.from_arrays(columns, schema=NOISE_PLAN)


def _read_esc(root: Path) -> list[NoiseFile]:
    table = root / _ESC_TABLE
    try:
        with table.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as exc:
        raise ConfigError(f"{_FOLDERS}: {table} cannot be read as CSV ({exc})") from exc
    if not rows or not {"filename", "category"} <= set(rows[0]):
        raise ConfigError(f"{_FOLDERS}: {table} has no columns filename and category, or no rows")
    files: list[NoiseFile] = []
    for number, row in enumerate(rows, start=2):
        path = root / "audio" / (row["filename"] or "")
        if not path.is_file():
            raise ConfigError(f"{_FOLDERS}: {table}, line {number}: there is no audio/{row['filename']}")
        files.append(NoiseFile(path, f"{root.name}/audio/{row['filename']}", row["category"] or ""))
    return sorted(files, key=lambda file: file.name)


def _take_side(folder: str, files: Sequence[NoiseFile], source: NoiseSource) -> list[NoiseFile]:
    """Return the files on the side that is used; a file is known by its own name, wherever it lies.

    Raises:
        ConfigError: there are none.
    """
    taken = [file for file in files if source.admits("sid_noise", file.path.name)]
    if not taken:
        raise ConfigError(
            f"{_FOLDERS}: none of the {len(files)} files of {folder} is on the side that is used (noise.use "
            f"{source.use!r}, noise.hold_out {source.hold_out:g}); add files, or set noise.use to all"
        )
    return taken


def _spread(files: Sequence[NoiseFile], build_seed: int) -> list[NoiseFile]:
    by_category: dict[str, list[NoiseFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: (derive_seed(build_seed, file.name, _SEEDED_AS), file.name)):
        by_category[file.category].append(file)
    order = sorted(
        by_category, key=lambda category: (derive_seed(build_seed, category, _SEEDED_AS, "category"), category)
    )
    return interleave([by_category[category] for category in order])


def _measure_file(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as exc:
        raise ConfigError(f"{_FOLDERS}: {path} cannot be read ({exc})") from exc


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise ConfigError(f"{_FOLDERS}: {path} cannot be read ({exc})") from exc
