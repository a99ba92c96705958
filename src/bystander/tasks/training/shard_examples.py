"""Training examples read from Parquet shards when they are asked for, from a disk or an object store."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bystander.schemas.engines import RowFault, Samples
from bystander.schemas.errors import BuildError, CorruptPartError, InputError
from bystander.schemas.identity import make_rng
from bystander.schemas.sid import SID_FINAL
from bystander.schemas.tpi import FINAL
from bystander.schemas.training_data import LeftOutRow, SourceKind
from bystander.storage.filesystem import Store, open_store
from bystander.storage.parquet_files import open_parquet
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.audio.resampling import resample
from bystander.tasks.training.left_out_rows import append_left_out, read_left_out
from bystander.tasks.training.row_draws import RowDraws, draw_once
from bystander.tasks.training.row_index import AUDIO_COLUMN, IndexedFile, RowIndex, locate, tell_remedy

MakeExample = Callable[[dict[str, Any], np.random.Generator], Any]
"""A row to an example, or to a `RowFault` where none can be made of it. It can be pickled.

The row has `id`, `query_id`, `part`, `duration_s`, the columns asked for, and with a rate `samples`, float32 in
[-1, 1], shape (n,). The generator hangs on (seed, row id, epoch), so the same row is another example in each epoch.
"""

CACHE_MIB = 512
"""Bound of the row groups that a source keeps, in each process that reads. One is kept however big it is."""
_KEPT_FOOTERS = 64
_SLACK_S = 0.05
"""By how much a clip may be shorter than its row says before it counts as cut short."""
_SCHEMAS: Mapping[SourceKind, pa.Schema] = {"tpi": FINAL, "sid": SID_FINAL}
"""Rows of builds. Their nullable columns may be missing in builds that are older than these columns."""
_OF_INDEX = ("id", "query_id", "part", "duration_s")
_REMEDIES = {"longer_than_max_length": "raise model.max_length", "longer_than_the_model_hears": "leave the file out"}
"""What to do where not one row of a row group can be used, by the reason of its last; else the file is at fault."""


class ShardExamples:
    """An `ExampleSource` over the rows of an index. Row groups are read whole, once while a plan keeps to them.

    A row that cannot be decoded, or that `make_example` has a fault for, is left out: the next one of its row group
    that can be used takes its place, and `left_out` tells. Damaged Parquet is an error.
    """

    def __init__(
        self,
        index: RowIndex,
        make_example: MakeExample,
        columns: Sequence[str],
        *,
        rate: int | None,
        seed: int,
        draws: RowDraws | None = None,
        seconds_a_character: float = 0.0,
        cache_mib: float = CACHE_MIB,
        left_out_file: Path | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            index: of the rows.
            make_example: what is made of each.
            columns: of a build, that it wants besides the row's id; `audio` gives the encoded bytes. Those that dyadic
                Parquet lacks are null, and so are nullable ones that came after a build was made.
            rate: in Hz, at which sound is wanted; None where no samples are.
            seed: of the run.
            draws: what an epoch has of the rows; each once without it.
            seconds_a_character: what a character of the reply adds to an example's length.
            cache_mib: bound of the row groups that are kept, in MiB.
            left_out_file: where rows that are left out are noted, by all processes that read.

        Raises:
            BuildError: a shard has no such column.
        """
        self._files = index.files
        self._makes = make_example
        self._columns = tuple(dict.fromkeys(columns))
        self._rate = rate
        self._seed = seed
        self._draws = draw_once(np.arange(len(index))) if draws is None else draws
        self._cache_bytes = round(cache_mib * (1 << 20))
        self._left_out_file = left_out_file
        self._light = index.rows.select(list(_OF_INDEX))
        self._at = {name: index.rows[name].to_numpy() for name in ("file", "row_group", "row")}
        seconds = index.rows["duration_s"].to_numpy() + seconds_a_character * index.rows["reply_chars"].to_numpy()
        self._lengths = self._draws.average(seconds)
        pairs = np.stack([self._at["file"], self._at["row_group"]], axis=1).reshape(-1, 2)
        numbers = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
        self._groups: npt.NDArray[np.int64] = numbers[self._draws.rows[self._draws.starts]]
        for file in self._files:
            self._check_columns(file, index.sources[file.source].kind)
        self._open()

    def _open(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], _RowGroup] = OrderedDict()
        self._footers: OrderedDict[int, pq.FileMetaData] = OrderedDict()
        self._faults: dict[tuple[str, int], LeftOutRow] = {}
        self._whole: set[int] = set()
        self._stores: dict[str, Store] = {}
        self.groups_read = 0
        """Row groups that this process has read."""
        self.bytes_read = 0
        """Bytes of theirs, unpacked."""

    def __getstate__(self) -> dict[str, Any]:
        fresh = {"_lock", "_kept", "_footers", "_faults", "_whole", "_stores", "groups_read", "bytes_read"}
        return {name: value for name, value in self.__dict__.items() if name not in fresh}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __len__(self) -> int:
        return len(self._draws)

    @property
    def lengths(self) -> npt.NDArray[np.float64]:
        """Shape (examples,): seconds."""
        return self._lengths

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """Shape (examples,): row groups."""
        return self._groups

    @property
    def left_out(self) -> tuple[LeftOutRow, ...]:
        """Rows that were found unusable when they were read, here or by whoever shares the file of them."""
        noted = read_left_out(self._left_out_file) if self._left_out_file is not None else ()
        return tuple(({(row.file, row.row): row for row in noted} | self._faults).values())

    def list_ids(self, epoch: int = 0) -> list[str]:
        """Return the ids of the rows that an epoch's examples stand for, in the order of their numbers."""
        picked = self._draws.pick(np.arange(len(self)), epoch)
        ids: list[str] = self._light["id"].take(pa.array(picked)).to_pylist()
        return ids

    def read(self, numbers: Sequence[int], epoch: int) -> list[Any]:
        """Return the examples of these numbers, in order.

        Raises:
            CorruptPartError: a shard is damaged.
            StorageError: a shard cannot be read.
            InputError: none of the rows of a row group can be used.
        """
        wanted = np.asarray(numbers, np.int64)
        rows = self._draws.pick(wanted, epoch)
        examples: list[Any] = [None] * len(rows)
        with self._lock:
            for place in np.lexsort((self._at["row"][rows], self._at["row_group"][rows], self._at["file"][rows])):
                examples[place] = self._make(int(rows[place]), epoch, int(self._draws.copies[wanted[place]]))
        return examples

    def _make(self, row: int, epoch: int, copy: int) -> Any:
        example = self._try(row, epoch, copy)
        if not isinstance(example, RowFault):
            return example
        for other in self._list_stand_ins(row):
            example = self._try(other, epoch, copy)
            if not isinstance(example, RowFault):
                return example
        file = self._files[self._at["file"][row]]
        raise InputError(
            f"{file.uri}: no row of its row group {self._at['row_group'][row]} can be used, the last because of "
            f"{example.reason} ({example.detail}); {_REMEDIES.get(example.reason, 'leave the file out or mend it')}"
        )

    def _list_stand_ins(self, row: int) -> npt.NDArray[np.int64]:
        """Return the rows of this source in the same row group, from the next one on and round."""
        mine = np.unique(self._draws.rows)
        same = (self._at["file"][mine] == self._at["file"][row]) & (
            self._at["row_group"][mine] == self._at["row_group"][row]
        )
        members = mine[same & (mine != row)]
        return np.roll(members, -int(np.searchsorted(members, row)))

    def _try(self, row: int, epoch: int, copy: int) -> Any:
        number = int(self._at["file"][row])
        file, group = self._files[number], int(self._at["row_group"][row])
        values = self._light.slice(row, 1).to_pylist()[0]
        within = int(self._at["row"][row])
        found = self._read_group(number, group)
        values |= {name: found.take(name, within) for name in self._columns}
        fault: Any = None
        if self._rate is not None:
            samples = self._decode(found.take(AUDIO_COLUMN, within), file, values["duration_s"])
            if isinstance(samples, RowFault):
                self._assert_whole(number, file)
                fault = samples
            else:
                values["samples"] = samples
        if fault is None:
            extra = (copy,) if copy else ()
            fault = example = self._makes(values, make_rng(self._seed, values["id"], "example", epoch, *extra))
            if not isinstance(example, RowFault):
                return example
        self._note(locate(file, group, within, fault.reason, fault.detail))
        return fault

    def _decode(self, data: bytes | None, file: IndexedFile, duration_s: float) -> Samples | RowFault:
        assert self._rate is not None
        if not data:
            return RowFault("no_audio", "the row has no sound of its own")
        try:
            samples, rate = decode_audio(data)
        except InputError as exc:
            return RowFault("unreadable_audio", str(exc))
        if not len(samples):
            return RowFault("empty_audio", "the clip has no sample")
        if file.states_durations and len(samples) / rate < duration_s - _SLACK_S:
            return RowFault("audio_cut_short", f"{len(samples) / rate:.2f} s of {duration_s:.2f} s")
        return np.ascontiguousarray(resample(samples, rate, self._rate), np.float32)

    def _assert_whole(self, number: int, file: IndexedFile) -> None:
        """Raise where a clip cannot be decoded because its shard is damaged, and not since it was made that way."""
        if file.sha256 is None or number in self._whole:
            return
        if self._get_store(file).sha256(file.path) != file.sha256:
            raise CorruptPartError(
                f"{file.uri}: does not match its checksum in the manifest; {tell_remedy(file.folder)}", file.path
            )
        self._whole.add(number)

    def _read_group(self, number: int, group: int) -> _RowGroup:
        if (found := self._kept.get((number, group))) is not None:
            self._kept.move_to_end((number, group))
            return found
        found = self._load(self._files[number], number, group)
        self._kept[number, group] = found
        while len(self._kept) > 1 and sum(kept.bytes for kept in self._kept.values()) > self._cache_bytes:
            self._kept.popitem(last=False)
        self.groups_read += 1
        self.bytes_read += found.bytes
        return found

    def _load(self, file: IndexedFile, number: int, group: int) -> _RowGroup:
        leaves = {name: file.names.get(name, name) for name in self._columns}
        if self._rate is not None or AUDIO_COLUMN in leaves:
            leaves[AUDIO_COLUMN] = file.audio_leaf
        there = {name: leaf for name, leaf in leaves.items() if leaf.split(".")[0] in file.schema_names}
        try:
            with open_parquet(self._get_store(file), file.path, file.bytes, self._footers.get(number)) as part:
                self._footers[number] = part.metadata
                table = part.read_row_group(group, columns=list(there.values()))
        except (pa.ArrowException, OSError, ValueError, EOFError) as exc:
            reason = str(exc).splitlines()[0].rstrip(".") if str(exc) else type(exc).__name__
            raise CorruptPartError(
                f"{file.uri}: row group {group} cannot be read as Parquet ({reason}); {_tell_remedy(file)}",
                file.path,
            ) from exc
        while len(self._footers) > _KEPT_FOOTERS:
            self._footers.popitem(last=False)
        return _RowGroup(table, there)

    def _get_store(self, file: IndexedFile) -> Store:
        if file.folder not in self._stores:
            self._stores[file.folder] = open_store(file.folder)
        return self._stores[file.folder]

    def _note(self, row: LeftOutRow) -> None:
        if (row.file, row.row) in self._faults:
            return
        self._faults[row.file, row.row] = row
        if self._left_out_file is not None:
            append_left_out(self._left_out_file, row)

    def _check_columns(self, file: IndexedFile, kind: SourceKind) -> None:
        missing = [name for name in self._columns if file.names.get(name, name) not in file.schema_names]
        if kind in _SCHEMAS:
            schema = _SCHEMAS[kind]
            missing = [name for name in missing if name not in schema.names or not schema.field(name).nullable]
            if missing:
                raise BuildError(f"{file.uri}: has no column {', '.join(missing)}, which this training reads")


def _tell_remedy(file: IndexedFile) -> str:
    return tell_remedy(file.folder) if file.sha256 is not None else "fetch it again"  # without a manifest, no build


class _RowGroup:
    """Columns of a row group in memory."""

    def __init__(self, table: pa.Table, leaves: Mapping[str, str]) -> None:
        self._columns: dict[str, pa.Array] = {}
        for name, leaf in leaves.items():
            column = table[leaf.split(".")[0]].combine_chunks()
            self._columns[name] = column.field(leaf.split(".")[1]) if "." in leaf else column
        self.bytes = table.nbytes

    def take(self, name: str, row: int) -> Any:
        return self._columns[name][row].as_py() if name in self._columns else None
