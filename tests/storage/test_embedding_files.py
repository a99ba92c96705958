from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bystander.schemas.errors import InputError
from bystander.storage.embedding_files import read_embeddings

ARRAY = np.arange(12, dtype=np.float32).reshape(4, 3)
IDS = ["a", "b", "c", "d"]


def save(folder: Path, array: Any) -> str:
    path = folder / "e.npy"
    np.save(path, array)
    return str(path)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_floats_are_read_as_they_stand(tmp_path: Path, dtype: Any) -> None:
    array = read_embeddings(save(tmp_path, ARRAY.astype(dtype)), IDS)
    assert array.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(array, ARRAY)
    np.testing.assert_array_equal(read_embeddings(save(tmp_path, np.asfortranarray(ARRAY)), IDS), ARRAY)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (ARRAY[:3], "has 3 rows, but 4 are evaluated; save them with their ids as .npz"),
        (ARRAY[0], r"has shape \(3,\); it must be \(4, d\)"),
        (ARRAY[:, :1], r"has shape \(4, 1\); an embedding needs at least 2 dimensions"),
        (ARRAY.astype(np.int64), "holds int64; save it as float32"),
        (np.array([["a"]], dtype=object), "holds object; save it as float32"),
        (np.where(ARRAY == 7, np.nan, ARRAY), r"1 rows hold NaN or infinite numbers, the first is row 2 "),
        (np.where(ARRAY >= 3, np.inf, ARRAY), r"3 rows hold NaN or infinite numbers, the first is row 1 "),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, array: Any, message: str) -> None:
    path = save(tmp_path, array)
    with pytest.raises(InputError, match=f"^embeddings {path}: {message}"):
        read_embeddings(path, IDS)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_embeddings(str(tmp_path / "none.npy"), IDS)
    path = tmp_path / "e.npy"
    path.write_bytes(b"not numpy at all")
    with pytest.raises(InputError, match=r"is no \.npy file"):
        read_embeddings(str(path), IDS)
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"is no \.npy file"):
        read_embeddings(str(path), IDS)
    np.savez(tmp_path / "e.npz", ARRAY)
    with pytest.raises(InputError, match="has no array ids and embeddings"):
        read_embeddings(str(tmp_path / "e.npz"), IDS)
    whole = Path(save(tmp_path, ARRAY)).read_bytes()
    path.write_bytes(whole[:-5])
    with pytest.raises(InputError, match="ends too early"):
        read_embeddings(str(path), IDS)
    with pytest.raises(InputError, match="cannot be read"):
        read_embeddings("nosuch://e.npy", IDS)
    with pytest.raises(InputError, match="cannot be read"):
        read_embeddings(str(tmp_path), IDS)


def save_archive(folder: Path, ids: list[str], array: Any) -> str:
    path = folder / "e.npz"
    np.savez(path, ids=np.array(ids), embeddings=array)
    return str(path)


def test_an_archive_goes_by_ids_and_may_hold_more(tmp_path: Path) -> None:
    path = save_archive(tmp_path, ["d", "x", "b", "a", "c"], np.arange(10, dtype=np.float32).reshape(5, 2))
    np.testing.assert_array_equal(read_embeddings(path, IDS), [[6, 7], [4, 5], [8, 9], [0, 1]])


@pytest.mark.parametrize(
    ("ids", "array", "message"),
    [
        (["a", "b", "c"], ARRAY[:3], "1 of 4 rows have none, the first is d"),
        (["a", "b", "c", "c"], ARRAY, "an id is there twice"),
        (IDS, ARRAY[:3], r"has shape \(3, 3\); it must be \(4, d\)"),
        (IDS, ARRAY.astype(np.int64), "holds int64; save it as float32"),
        (IDS, np.where(ARRAY == 7, np.nan, ARRAY), "1 rows hold NaN"),
    ],
)
def test_what_is_wrong_with_an_archive_is_named(tmp_path: Path, ids: list[str], array: Any, message: str) -> None:
    path = save_archive(tmp_path, ids, array)
    with pytest.raises(InputError, match=f"^embeddings {path}: {message}"):
        read_embeddings(path, IDS)


def test_an_archive_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = Path(save_archive(tmp_path, IDS, ARRAY))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=f"^embeddings {path}: cannot be read"):
        read_embeddings(str(path), IDS)
