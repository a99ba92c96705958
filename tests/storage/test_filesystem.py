from __future__ import annotations

import hashlib
import io
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from bystander.schemas.errors import InputError, StorageError, StoreAccessError, StoreUnavailableError, UserError
from bystander.storage.filesystem import Store, open_store


@pytest.fixture(params=["local", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "s3":
        return open_store(f"s3://{request.getfixturevalue('object_store').make_bucket()}/s")
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


def test_of_several_who_create_a_file_one_succeeds(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda i: store.create("a/lock", b"%d" % i), range(8)))
    assert created.count(True) == 1
    assert store.read_bytes("a/lock") == b"%d" % created.index(True)


def test_a_copy_sent_to_another_process_is_the_same_store(store: Store) -> None:
    store.write_bytes("a/b.bin", b"one")
    copy = pickle.loads(pickle.dumps(store))
    assert (copy.uri, copy.read_bytes("a/b.bin")) == (store.uri, b"one")


def test_stamps_tell_another_content(store: Store) -> None:
    store.write_bytes("a", b"one")
    first = store.stamp("a")
    assert store.stamp("a") == first
    store.write_bytes("a", b"two")
    assert store.stamp("a") != first


def test_many_files_are_mapped_in_order(store: Store) -> None:
    names = [f"{i:02d}" for i in range(40)]
    store.map(lambda name: store.write_bytes(name, name.encode()), names)
    assert store.map(store.read_bytes, reversed(names)) == [name.encode() for name in reversed(names)]


def test_big_files_come_back_and_are_digested_once(store: Store, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(9 << 20)
    store.write_bytes("big", data)
    assert store.holds("big", len(data))
    assert not store.holds("big", 1)
    assert not store.holds("none", 1)
    assert store.read_bytes("big", len(data)) == data
    assert store.sha256("big") == hashlib.sha256(data).hexdigest()
    store.download("big", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data


def test_text_is_read_line_by_line(store: Store) -> None:
    lines = [f"line {i}\n" for i in range(20_000)]
    store.write_bytes("lines.txt", "".join(lines).encode())
    with store.open_read("lines.txt") as source, io.TextIOWrapper(source, "utf-8") as text:
        assert list(text) == lines


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


def test_servers_that_are_not_there() -> None:
    with pytest.raises(StoreUnavailableError, match=r"^store ftp://127.0.0.1:9/x: cannot be reached \(.*refused\)"):
        open_store("ftp://127.0.0.1:9/x")
    with pytest.raises(StoreAccessError, match=r"^store ftp://no-such-host.invalid/x: cannot be reached \(") as caught:
        open_store("ftp://no-such-host.invalid/x")
    assert isinstance(caught.value, UserError)
