"""Reading a system's embeddings of a bench from a NumPy file, checked before anything is computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any, cast
from zipfile import BadZipFile

import fsspec
import numpy as np
from numpy.typing import NDArray

from bystander.schemas.errors import InputError

_ZIP_MAGIC = b"PK"


def read_embeddings(path: str, ids: Sequence[str]) -> NDArray[np.floating]:
    """Return the embeddings of rows, shape (len(ids), d) with d >= 2, float16, float32 or float64, all finite.

    A `.npz` file holds `embeddings`, shape (n, d), and `ids`, shape (n,), in any order; rows that are not asked for are
    left out. A `.npy` file holds the embeddings alone, which must be in the order of `ids`.

    Args:
        path: local path or fsspec URL.
        ids: rows of the evaluation, in its order: those of TPI-Test, then those of Janus-Test, each in the order of the
            bench's shards.

    Raises:
        InputError: the file is missing, no such file, truncated, or of another shape or type, lacks a row, has one
            twice, or holds a number that is NaN or infinite; the message names the file and the row.
    """
    try:
        with fsspec.open(path, "rb", compression=None) as source:
            return _read(cast(IO[bytes], source), path, ids)
    except FileNotFoundError as exc:
        raise InputError(f"embeddings {path}: there is no such file") from exc
    except (OSError, ImportError, ValueError, EOFError, BadZipFile) as exc:
        raise InputError(f"embeddings {path}: cannot be read ({' '.join(str(exc).split())})") from exc


def _read(source: IO[bytes], path: str, ids: Sequence[str]) -> NDArray[np.floating]:
    rows = len(ids)
    start = source.read(2)
    source.seek(0)
    if start == _ZIP_MAGIC:
        return _read_archive(source, path, ids)
    try:
        # The head alone tells of the usual mistakes, before a large array is loaded.
        version = np.lib.format.read_magic(source)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(source)
    except ValueError as exc:
        raise InputError(f"embeddings {path}: is no .npy file; write it with numpy.save") from exc
    _check_type(dtype, path)
    if len(shape) != 2:
        raise InputError(f"embeddings {path}: has shape {shape}; it must be ({rows}, d), one row for each of the bench")
    if shape[0] != rows:
        raise InputError(
            f"embeddings {path}: has {shape[0]} rows, but {rows} are evaluated; save them with their ids as .npz, or "
            "one for each row, those of TPI-Test first"
        )
    if shape[1] < 2:
        raise InputError(f"embeddings {path}: has shape {shape}; an embedding needs at least 2 dimensions")
    source.seek(0)
    try:
        array = np.lib.format.read_array(source, allow_pickle=False)
    except (ValueError, EOFError) as exc:
        raise InputError(f"embeddings {path}: ends too early for its shape {shape}; save it again") from exc
    return _check_finite(array, path)


def _read_archive(source: IO[bytes], path: str, ids: Sequence[str]) -> NDArray[np.floating]:
    with np.load(source, allow_pickle=False) as archive:
        if missing := [name for name in ("ids", "embeddings") if name not in archive]:
            raise InputError(
                f"embeddings {path}: has no array {' and '.join(missing)}; numpy.savez(file, ids=..., embeddings=...)"
            )
        names, array = [str(name) for name in archive["ids"].tolist()], archive["embeddings"]
    _check_type(array.dtype, path)
    if array.ndim != 2 or len(array) != len(names) or array.shape[1] < 2:
        raise InputError(f"embeddings {path}: has shape {array.shape}; it must be ({len(names)}, d), d at least 2")
    at = {name: i for i, name in enumerate(names)}
    if len(at) < len(names):
        raise InputError(f"embeddings {path}: an id is there twice; keep one embedding a row")
    if lacking := [row for row in ids if row not in at]:
        raise InputError(f"embeddings {path}: {len(lacking)} of {len(ids)} rows have none, the first is {lacking[0]}")
    return _check_finite(array[[at[row] for row in ids]], path)


def _check_type(dtype: np.dtype[Any], path: str) -> None:
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise InputError(f"embeddings {path}: holds {dtype}; save it as float32")


def _check_finite(array: NDArray[np.floating], path: str) -> NDArray[np.floating]:
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        raise InputError(
            f"embeddings {path}: {len(bad)} rows hold NaN or infinite numbers, the first is row {bad[0]} (counted from "
            "0); fix the export"
        )
    return array
