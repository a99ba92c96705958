from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from bystander.schemas.errors import StorageError
from bystander.storage.call_cache import SqliteCallCache


def test_what_was_put_is_found_after_reopening(tmp_path):
    path = tmp_path / "deep" / "calls.sqlite"
    cache = SqliteCallCache(path)
    assert cache.get("a") is None
    cache.put("a", b"one")
    cache.put("a", b"two")
    cache.put("b", b"")
    cache.close()
    again = SqliteCallCache(path)
    assert (again.get("a"), again.get("b"), len(again)) == (b"two", b"", 2)
    again.close()
    again.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE calls SET value = x'00' WHERE key = 'a'",
        "UPDATE calls SET value = 'text' WHERE key = 'a'",
        "UPDATE calls SET checksum = x'00' WHERE key = 'a'",
        "UPDATE calls SET value = (SELECT value FROM calls WHERE key = 'b'), "
        "checksum = (SELECT checksum FROM calls WHERE key = 'b') WHERE key = 'a'",
    ],
)
def test_damaged_value_is_not_returned(tmp_path, damage):
    path = tmp_path / "calls.sqlite"
    cache = SqliteCallCache(path)
    cache.put("a", b"one")
    cache.put("b", b"two")
    other = sqlite3.connect(path)
    other.execute(damage)
    other.commit()
    other.close()
    assert cache.get("a") is None
    assert cache.get("b") == b"two"
    cache.put("a", b"three")
    assert cache.get("a") == b"three"
    cache.close()


def test_file_of_another_kind_is_refused(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("Not a database at all. " * 100)
    with pytest.raises(StorageError, match=r"notes\.txt: is no cache of calls"):
        SqliteCallCache(text)
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE calls (something TEXT)")
    connection.close()
    with pytest.raises(StorageError, match="delete the file"):
        SqliteCallCache(other)
    with pytest.raises(StorageError, match="cannot be opened"):
        SqliteCallCache(tmp_path)


def test_many_threads(tmp_path):
    cache = SqliteCallCache(tmp_path / "calls.sqlite")
    faults = []

    def work(number):
        for i in range(50):
            cache.put(f"{number}-{i}", f"{number}-{i}".encode())
            if cache.get(f"{number}-{i}") != f"{number}-{i}".encode():
                faults.append((number, i))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(cache) == 400
    cache.close()


_WRITER = """
import sys
from bystander.storage.call_cache import SqliteCallCache
cache = SqliteCallCache(sys.argv[1])
i = 0
while i < int(sys.argv[3]):
    cache.put(f"{sys.argv[2]}-{i}", b"x" * 1000)
    print(i, flush=True)
    i += 1
"""


def test_many_processes_open_and_write_at_once(tmp_path):
    path = tmp_path / "calls.sqlite"
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, path, str(n), "100"], stdout=subprocess.DEVNULL)
        for n in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4
    cache = SqliteCallCache(path)
    assert len(cache) == 400
    cache.close()


def test_killed_process_loses_nothing_that_was_put(tmp_path):
    path = tmp_path / "calls.sqlite"
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, path, "w", "1000000"], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= 200:
                break
        os.kill(writer.pid, signal.SIGKILL)
        told = [int(line) for line in writer.stdout.read().splitlines()]
    last = max([200, *told])
    cache = SqliteCallCache(path)
    assert all(cache.get(f"w-{i}") == b"x" * 1000 for i in range(last + 1))
    assert len(cache) <= last + 2
    cache.close()
