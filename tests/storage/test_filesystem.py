from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from bystander.schemas.errors import InputError, StorageError
from bystander.storage.filesystem import Store, open_store


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store(tmp_path / "s" if request.param == "local" else f"memory://{uuid4().hex}/s")


def test_a_file_comes_back_as_written(store: Store) -> None:
    assert not store.exists("a/b.bin")
    store.write_bytes("a/b.bin", b"one")
    store.write_bytes("a/b.bin", b"three")
    assert store.read_bytes("a/b.bin") == b"three"
    assert store.size("a/b.bin") == 5
    with store.open_read("a/b.bin") as source:
        source.seek(2)
        assert source.read() == b"ree"


def test_list_is_sorted_and_relative(store: Store) -> None:
    for path in ("b", "a/z", "a/c/d"):
        store.write_bytes(path, b"")
    assert store.list() == ["a/c/d", "a/z", "b"]
    assert store.list("a") == ["a/c/d", "a/z"]
    assert store.list("nowhere") == []
    assert store.child("a").list() == ["c/d", "z"]


def test_an_error_while_writing_leaves_what_was_there(store: Store) -> None:
    store.write_bytes("x", b"old")
    for path in ("x", "y"):
        writing = store.open_write(path)
        writing.__enter__().write(b"new")
        assert store.list() == ["x"]
        assert not writing.__exit__(RuntimeError, RuntimeError(), None)
    assert store.list() == ["x"]
    assert store.read_bytes("x") == b"old"
    if folder := store.local_path():
        assert [p.name for p in folder.iterdir()] == ["x"]


def test_move_and_remove(store: Store) -> None:
    store.write_bytes("a", b"1")
    store.write_bytes("d/b", b"2")
    store.move("a", "d/b")
    assert store.list() == ["d/b"]
    assert store.read_bytes("d/b") == b"1"
    store.remove("missing")
    store.remove("d", recursive=True)
    assert store.list() == []


def test_leftovers_are_hidden_and_removable(tmp_path: Path) -> None:
    (tmp_path / ".writing-x-1").write_bytes(b"half")
    store = open_store(tmp_path)
    assert store.list() == []
    store.remove_temporaries()
    assert list(tmp_path.iterdir()) == []


def test_paths_stay_inside(store: Store) -> None:
    assert store.path("a", "b/../c") == "a/c"
    for names in (("..",), ("a", "../../x"), ("/etc",)):
        with pytest.raises(StorageError, match="outside"):
            store.path(*names)


def test_errors_name_the_file(store: Store) -> None:
    with pytest.raises(StorageError, match=r"gone\.bin: is missing"):
        store.read_bytes("gone.bin")
    with pytest.raises(StorageError, match=r"gone\.bin: is missing"):
        store.move("gone.bin", "x")
    with pytest.raises(InputError, match="nonsense"):
        open_store("nonsense://x")


def test_only_local_stores_have_paths(tmp_path: Path) -> None:
    assert open_store(tmp_path).local_path("a") == tmp_path / "a"
    assert open_store(tmp_path).uri == str(tmp_path)
    assert open_store("memory://x").local_path() is None
    assert open_store("memory://x").uri_of("a") == "memory:///x/a"
