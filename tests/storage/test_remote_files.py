"""Files read by ranges and spooled writes: the same bytes as a plain file, whatever is asked for."""

from __future__ import annotations

import io
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.storage import remote_files
from bystander.storage.remote_files import RemoteFile, Spool

DATA = bytes(i * 7 % 251 for i in range(100_000))


class Ranges:
    """Serves ranges of some data, and remembers which."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[tuple[int, int]] = []

    def fetch(self, start: int, end: int) -> bytes:
        self.asked.append((start, end))
        return self.data[start:end]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["read", "seek", "seek_end", "seek_on", "readline", "readinto"]),
        st.integers(-2000, len(DATA) + 2000),
    ),
    max_size=20,
)


@given(OPERATIONS, st.sampled_from([0, 50_000]), st.sampled_from([1, 700, 64 << 10]))
def test_reads_like_a_file(operations: list[tuple[str, int]], whole: int, least: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote_files, "WHOLE_BYTES", whole)
        patch.setattr(remote_files, "_LEAST_BYTES", least)
        plain, remote = io.BytesIO(DATA), RemoteFile(Ranges(DATA).fetch, len(DATA))
        for name, number in operations:
            for file in (plain, remote):
                if name == "seek":
                    file.seek(abs(number))
            if name == "read":
                assert remote.read(number) == plain.read(number)
            elif name == "seek_end":
                assert remote.seek(-min(abs(number), len(DATA)), 2) == plain.seek(-min(abs(number), len(DATA)), 2)
            elif name == "seek_on":
                assert remote.seek(abs(number), 1) == plain.seek(abs(number), 1)
            elif name == "readline":
                assert remote.readline(abs(number)) == plain.readline(abs(number))
            elif name == "readinto":
                one, other = bytearray(abs(number)), bytearray(abs(number))
                assert remote.readinto(one) == plain.readinto(other)
                assert one == other
            assert remote.tell() == plain.tell()


def test_a_small_file_costs_one_request() -> None:
    ranges = Ranges(DATA)
    file = RemoteFile(ranges.fetch, len(DATA))
    file.seek(-8, 2)
    assert file.read() == DATA[-8:]
    file.seek(0)
    assert file.read(100) == DATA[:100]
    assert ranges.asked == [(0, len(DATA))]


def test_a_scan_fetches_ever_more_at_once_up_to_a_limit() -> None:
    data = bytes(80 << 20)
    ranges = Ranges(data)
    file = RemoteFile(ranges.fetch, len(data))
    while file.read(100_000):
        pass
    sizes = [end - start for start, end in ranges.asked]
    assert sum(sizes) == len(data)
    assert len(sizes) < 16
    assert max(sizes) == remote_files.CHUNK_BYTES


def test_a_read_elsewhere_fetches_no_more_than_it_needs() -> None:
    data = bytes(8 << 20)
    ranges = Ranges(data)
    file = RemoteFile(ranges.fetch, len(data))
    for start in (5 << 20, 1 << 20, 3 << 20):
        file.seek(start)
        file.read(300_000)
    assert ranges.asked == [(start, start + 300_000) for start in (5 << 20, 1 << 20, 3 << 20)]


def test_negative_positions_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        RemoteFile(Ranges(DATA).fetch, len(DATA)).seek(-1)


@pytest.mark.parametrize("limit", [10, 1 << 20])
def test_a_spool_uploads_what_was_written_and_leaves_nothing(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_files, "SPOOL_BYTES", limit)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    memory, path = fsspec.filesystem("memory"), f"/{uuid4().hex}"
    spool = Spool()
    for start in range(0, 1000, 7):
        spool.write(memoryview(DATA)[start : start + 7])
    assert (spool._disk is not None) == (limit == 10)
    spool.upload(memory, path)
    spool.discard()
    assert memory.cat_file(path) == DATA[:1001]
    assert not list(tmp_path.iterdir())
