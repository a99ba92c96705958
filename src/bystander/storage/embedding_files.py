"""Reading a system's embeddings of a bench from a `.npy` file, checked before anything is computed from them."""

from __future__ import annotations

from typing import IO, cast

import fsspec
import numpy as np
from numpy.typing import NDArray

from bystander.schemas.errors import InputError

_ZIP_MAGIC = b"PK"


def read_embeddings(path: str, rows: int) -> NDArray[np.floating]:
    """Return the embeddings in a `.npy` file, shape (rows, d) with d >= 2, float16, float32 or float64, all finite.

    Args:
        path: local path or fsspec URL.
        rows: rows of the bench; embedding i is that of row i.

    Raises:
        InputError: the file is missing, no `.npy` file, truncated, or of another shape or type, or holds a number that
            is NaN or infinite; the message names the file and the row.
    """
    try:
        with fsspec.open(path, "rb", compression=None) as source:
            return _read(cast(IO[bytes], source), path, rows)
    except FileNotFoundError as exc:
        raise InputError(f"embeddings {path}: there is no such file") from exc
    except (OSError, ImportError, ValueError) as exc:
        raise InputError(f"embeddings {path}: cannot be read ({' '.join(str(exc).split())})") from exc


def _read(source: IO[bytes], path: str, rows: int) -> NDArray[np.floating]:
    start = source.read(2)
    source.seek(0)
    if start == _ZIP_MAGIC:
        raise InputError(f"embeddings {path}: is a .npz archive; save its one array with numpy.save")
    try:
        # The head alone tells of the usual mistakes, before a large array is loaded.
        version = np.lib.format.read_magic(source)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(source)
    except ValueError as exc:
        raise InputError(f"embeddings {path}: is no .npy file; write it with numpy.save") from exc
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise InputError(f"embeddings {path}: holds {dtype}; save it as float32")
    if len(shape) != 2:
        raise InputError(f"embeddings {path}: has shape {shape}; it must be ({rows}, d), one row for each of the bench")
    if shape[0] != rows:
        raise InputError(
            f"embeddings {path}: has {shape[0]} rows, but the bench has {rows}; "
            "save one for each row of the bench, in its order"
        )
    if shape[1] < 2:
        raise InputError(f"embeddings {path}: has shape {shape}; an embedding needs at least 2 dimensions")
    source.seek(0)
    try:
        array = np.lib.format.read_array(source, allow_pickle=False)
    except (ValueError, EOFError) as exc:
        raise InputError(f"embeddings {path}: ends too early for its shape {shape}; save it again") from exc
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        raise InputError(
            f"embeddings {path}: {len(bad)} rows hold NaN or infinite numbers, the first is row {bad[0]} (counted from "
            "0); fix the export"
        )
    return cast(NDArray[np.floating], array)
