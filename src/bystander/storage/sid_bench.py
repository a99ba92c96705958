"""Reads the bench that interruption detection is evaluated on: a finished build, or published references with clips."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bystander.schemas.errors import BuildError, InputError, StorageError
from bystander.schemas.identity import digest_json
from bystander.schemas.sid import SID_CLIP
from bystander.schemas.sid_evaluation import SidCase, SidExample
from bystander.storage.build_manifest import MANIFEST_NAME, ShardInfo
from bystander.storage.filesystem import Store, open_file, open_store
from bystander.storage.parquet_files import open_parquet
from bystander.storage.releases import open_build
from bystander.storage.sid_jsonl import ENDINGS, read_references
from bystander.storage.sid_manifest import read_sid_manifest
from bystander.storage.table_batches import cut_evenly

AUDIO_FOLDERS = ("", "en", "zh", "silence_or_noise")
"""Where clips lie beside published references: in the same folder, or in those of the published layout."""

_LIGHT = [
    "id",
    "duration_s",
    "language",
    "category",
    "total_nonbreak",
    "break_time_s",
    "text_with_break",
    "recording_id",
    "source",
]
_AUDIO_NAME = "audio.path"
_HEARD = ["id", "audio", "words", "context_text", "context_start_s", "context_end_s"]
"""Columns of a build that show what a clip is like."""


@dataclass(frozen=True, slots=True)
class SidBench:
    """Cases of a bench, in the order of its files, and where their clips are."""

    uri: str
    dataset: str
    build: str
    digest: str
    """Of the shards, or of the references."""
    cases: tuple[SidCase, ...]
    doubled: int = 0
    """Equal lines of the references that were left out."""
    _store: Store | None = field(default=None, repr=False)
    _shards: tuple[ShardInfo, ...] = field(default=(), repr=False)

    def take(self, rows: int | None) -> SidBench:
        """Return the bench with at most so many cases of each language and category, the first ones."""
        if rows is None:
            return self
        seen: dict[tuple[str | None, str], int] = {}
        kept = []
        for case in self.cases:
            key = (case.language, case.category)
            seen[key] = seen.get(key, 0) + 1
            if seen[key] <= rows:
                kept.append(case)
        return SidBench(self.uri, self.dataset, self.build, self.digest, tuple(kept), 0, self._store, self._shards)

    def read_clips(self, batch_rows: int, audio: str | None = None) -> Iterator[pa.Table]:
        """Yield the cases with their sound as SID_CLIP tables of `batch_rows` rows, in order.

        Args:
            batch_rows: rows of a table; the last one may be shorter.
            audio: folder or URL of the clips of references; without it, they lie beside them.

        Raises:
            InputError: a clip of the references is missing (names the first, and how many are) or cannot be read.
            StorageError: a shard cannot be read.
        """
        tables = self._read_shards() if self._store is not None else self._read_files(audio)
        yield from cut_evenly(tables, batch_rows)

    def read_examples(self, ids: Sequence[str], audio: str | None = None) -> dict[str, SidExample]:
        """Return what some cases sound like, by id; those whose clips are not at hand are left out.

        Raises:
            StorageError: a shard cannot be read.
        """
        if self._store is not None:
            return _read_rows(self._store, self._shards, ids)
        store = open_store(audio or _folder_of(self.uri))
        found, _ = _locate_clips([case for case in self.cases if case.id in set(ids)], store)
        return {row_id: SidExample(store.read_bytes(name)) for row_id, name in found.items()}

    def _read_shards(self) -> Iterator[pa.Table]:
        assert self._store is not None
        wanted = {case.id for case in self.cases}
        for shard in self._shards:
            with open_parquet(self._store, shard.file, shard.bytes) as part:
                for group in range(part.num_row_groups):
                    table = part.read_row_group(group, columns=SID_CLIP.names)
                    at = [place for place, row_id in enumerate(table["id"].to_pylist()) if row_id in wanted]
                    if at:
                        columns = [table[column.name].cast(column.type) for column in SID_CLIP]
                        yield pa.Table.from_arrays(columns, schema=SID_CLIP).take(pa.array(at, pa.int64()))

    def _read_files(self, audio: str | None) -> Iterator[pa.Table]:
        store, names = _find_clips(self.cases, audio or _folder_of(self.uri))
        for case in self.cases:
            data = store.read_bytes(names[case.id])
            row = {
                "id": case.id,
                "audio": {"bytes": data, "path": case.audio},
                "sampling_rate": _read_rate(data, store.uri_of(names[case.id])),
                "duration_s": case.duration_s,
            }
            yield pa.Table.from_pylist([row], schema=SID_CLIP)


def is_references(uri: str) -> bool:
    """Return whether a path names published references: a JSONL file, or a folder of them that is no build."""
    if uri.lower().endswith(ENDINGS):
        return True
    store = open_build(uri)
    return not store.exists(MANIFEST_NAME) and any(
        "/" not in name and name.lower().endswith(ENDINGS) for name in store.list()
    )


def read_sid_bench(uri: str) -> SidBench:
    """Return the cases of a finished build of SID rows, or of published references.

    Raises:
        InputError: nothing is named, or a line of the references is wrong.
        BuildError: it is no finished build of SID rows, is damaged, or two rows share an id.
    """
    if not uri:
        raise InputError("bench: name the folder of a finished build, or a JSONL file of references, with --bench")
    if is_references(uri):
        found = read_references(uri)
        return SidBench(
            uri, "references", posixpath.basename(uri.rstrip("/")), found.digest, found.cases, found.doubled
        )
    store = open_build(uri)
    if not store.exists(MANIFEST_NAME):
        raise BuildError(f"bench {uri}: has neither a {MANIFEST_NAME} of a build nor JSONL files of references")
    manifest = read_sid_manifest(store)
    cases: list[SidCase] = []
    for shard in manifest.shards:
        if not store.exists(shard.file) or store.sha256(shard.file) != shard.sha256:
            raise BuildError(f"bench {uri}: {shard.file} is missing or not what the manifest says; build it again")
        cases += _read_cases(uri, store, shard)
    if not cases:
        raise BuildError(f"bench {uri}: has no row")
    if len({case.id for case in cases}) < len(cases):
        raise BuildError(f"bench {uri}: two rows share an id; verify the build")
    digest = digest_json([shard.sha256 for shard in manifest.shards])
    return SidBench(uri, manifest.dataset, manifest.build, digest, tuple(cases), 0, store, manifest.shards)


class CaseNames:
    """Finds the case that a system's prediction is about, by the name that it gives the clip."""

    def __init__(self, cases: Iterable[SidCase]) -> None:
        """A clip answers to its id and its file's name, and, where no other clip does, to that without its ending."""
        self._exact: dict[str, str] = {}
        loose: dict[str, set[str]] = {}
        for case in cases:
            self._exact.update({case.audio: case.id})
            for name in (case.audio, case.id):
                loose.setdefault(_strip(name), set()).add(case.id)
        self._exact.update({case.id: case.id for case in cases})
        self._loose = {name: next(iter(ids)) for name, ids in loose.items() if len(ids) == 1}

    def find(self, name: str) -> str | None:
        """Return the id of the case that a name means, with or without folders and ending; None if there is none."""
        found = self._exact.get(name) or self._exact.get(posixpath.basename(name))
        return found or self._loose.get(_strip(name))


def _strip(name: str) -> str:
    return posixpath.splitext(posixpath.basename(name))[0]


def _read_cases(uri: str, store: Store, shard: ShardInfo) -> Iterator[SidCase]:
    try:
        with open_parquet(store, shard.file, shard.bytes) as part:
            lost = [name for name in _LIGHT if name not in part.schema_arrow.names]
            if lost:
                raise BuildError(f"bench {uri}: {shard.file} has no column {', '.join(lost)}; it holds no SID rows")
            rows = part.read(columns=[*_LIGHT, _AUDIO_NAME]).to_pylist()
    except pa.ArrowException as exc:
        raise StorageError(f"bench {uri}: {shard.file} cannot be read ({exc}); build it again") from exc
    return map(_make_case, rows)


def _make_case(row: Mapping[str, Any]) -> SidCase:
    return SidCase(
        id=row["id"],
        audio=row["audio"]["path"] or row["id"],
        duration_s=row["duration_s"],
        break_time_s=None if row["total_nonbreak"] else row["break_time_s"],
        category=row["category"],
        language=row["language"],
        source=row["source"],
        recording_id=row["recording_id"],
        text_with_break=row["text_with_break"],
    )


def _find_clips(cases: Sequence[SidCase], folder: str) -> tuple[Store, dict[str, str]]:
    """Return the store of a folder, and the path there of each case's clip."""
    store = open_store(folder)
    names, lost = _locate_clips(cases, store)
    if lost:
        raise InputError(
            f"references: {len(lost)} of {len(cases)} clips are not in {folder} or its folders "
            f"{', '.join(AUDIO_FOLDERS[1:])}, the first is {lost[0]}; name their folder with --audio, or score "
            "predictions alone, which needs no clips"
        )
    return store, names


def _locate_clips(cases: Sequence[SidCase], store: Store) -> tuple[dict[str, str], list[str]]:
    """Return the path of each case's clip by the case's id, and the names of those that are not there."""
    there = set(store.list())
    names: dict[str, str] = {}
    lost = []
    for case in cases:
        found = next((name for base in AUDIO_FOLDERS if (name := posixpath.join(base, case.audio)) in there), None)
        if found is None:
            lost.append(case.audio)
        else:
            names[case.id] = found
    return names, lost


def _read_rows(store: Store, shards: Iterable[ShardInfo], ids: Sequence[str]) -> dict[str, SidExample]:
    wanted = pa.array(ids, pa.string())
    found: dict[str, SidExample] = {}
    for shard in shards:
        with open_parquet(store, shard.file, shard.bytes) as part:
            for group in range(part.num_row_groups):
                at = pc.is_in(part.read_row_group(group, columns=["id"])["id"], wanted)
                if not pc.any(at).as_py():
                    continue
                for row in part.read_row_group(group, columns=_HEARD).filter(at).to_pylist():
                    context = row["context_start_s"], row["context_end_s"]
                    found[row["id"]] = SidExample(
                        row["audio"]["bytes"],
                        tuple(row["words"]),
                        row["context_text"],
                        None if None in context else context,
                    )
    return found


def _read_rate(data: bytes, where: str) -> int:
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(data)) as clip:
            return int(clip.samplerate)
    except (soundfile.SoundFileError, RuntimeError) as exc:
        raise InputError(f"{where}: is no audio that can be read ({exc}); convert it to WAV or FLAC") from exc


def _folder_of(uri: str) -> str:
    return open_file(uri)[0].uri if uri.lower().endswith(ENDINGS) else uri
