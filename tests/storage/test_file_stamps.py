from __future__ import annotations

from typing import ClassVar

import pytest

from bystander.schemas.errors import StorageError
from bystander.storage.build_manifest import FileInfo
from bystander.storage.file_stamps import are_whole, stamp_files
from bystander.storage.filesystem import Store, open_store

NAME = "data/train-00000-of-00001.parquet"


class CountingStore(Store):
    """Counts the files that are read to be checked, in all stores of a test."""

    checked: ClassVar[list[str]] = []

    def sha256(self, path: str) -> str:
        self.checked.append(path)
        return super().sha256(path)


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    CountingStore.checked.clear()
    return CountingStore(tmp_path if request.param == "local" else f"memory://stamps-{tmp_path.name}")


def write(store: Store, data: bytes) -> FileInfo:
    folder = store.child("set", "build")
    folder.write_bytes(NAME, data)
    return FileInfo(file=NAME, rows=1, bytes=len(data), sha256=Store(folder.uri).sha256(NAME))


def child_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountingStore, "child", lambda self, *names: CountingStore(self.uri_of(self.path(*names))))


def test_a_stamped_file_is_not_read_again(store, monkeypatch):
    child_of(monkeypatch)
    info = write(store, b"rows")
    assert are_whole(store, "set", "build", [info])
    assert CountingStore.checked == [NAME]
    assert are_whole(store, "set", "build", [info])
    assert CountingStore.checked == [NAME]


def test_a_file_stamped_when_written_is_never_read(store, monkeypatch):
    child_of(monkeypatch)
    info = write(store, b"rows")
    stamp_files(store, "set", "build", [info])
    assert are_whole(store, "set", "build", [info])
    assert not CountingStore.checked


def test_a_file_that_was_written_again_is_read_and_found_out(store, monkeypatch):
    child_of(monkeypatch)
    info = write(store, b"rows")
    stamp_files(store, "set", "build", [info])
    write(store, b"rosw")  # as long as it was
    assert not are_whole(store, "set", "build", [info])
    assert CountingStore.checked == [NAME]


def test_another_checksum_in_the_manifest_is_not_taken_from_the_stamp(store):
    info = write(store, b"rows")
    stamp_files(store, "set", "build", [info])
    assert not are_whole(store, "set", "build", [info.model_copy(update={"sha256": "0" * 64})])


def test_a_missing_file_is_an_error_and_damaged_stamps_are_forgotten(store):
    info = write(store, b"rows")
    stamp_files(store, "set", "build", [info])
    store.write_bytes("cache/published/set/build.json", b"{")
    assert are_whole(store, "set", "build", [info])
    store.remove(f"set/build/{NAME}")
    with pytest.raises(StorageError, match="missing"):
        are_whole(open_store(store.uri), "set", "build", [info])
