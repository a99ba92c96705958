from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from bystander.schemas.errors import BuildError, StorageError
from bystander.storage.build_lock import lock_build, lock_store
from bystander.storage.filesystem import open_store

HOLDER = """
import sys, time
from bystander.storage.build_lock import lock_build
from bystander.storage.filesystem import open_store
with lock_build(open_store(sys.argv[1]), "d", "b"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_holder_is_named_and_its_lock_ends_with_its_life(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(BuildError, match=rf"build d/b in {tmp_path} is being made by process {holder.pid} on "),
            lock_build(store, "d", "b"),
        ):
            pass
        with lock_build(store, "d", "other"):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with lock_build(store, "d", "b"):
        pass


def test_lock_is_free_again_after_the_block_even_if_it_fails(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(ValueError), lock_build(store, "d", "b"):
        raise ValueError
    with lock_build(store, "d", "b"), pytest.raises(BuildError), lock_build(store, "d", "b"):
        pass


def test_names_cannot_collide(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with lock_build(store, "a--b", "c"), lock_build(store, "a", "b--c"):
        pass


def test_a_remote_store_is_locked_by_leases() -> None:
    store = open_store(f"memory://locks-{uuid4().hex}")
    with lock_build(store, "d", "b") as lock:
        with pytest.raises(BuildError, match=r"build d/b in .* is being made by process"), lock_build(store, "d", "b"):
            pass
        with pytest.raises(BuildError, match=r"build d/b is being made by process"), lock_store(store):
            pass
        with lock_build(store, "d", "other"):
            pass
        lock.assert_held()
    with lock_store(store), pytest.raises(BuildError, match="is being cleaned by process"), lock_build(store, "d", "b"):
        pass
    with lock_build(store, "d", "b"):
        pass


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way", "utf-8")
    with pytest.raises(StorageError, match=r"\.lock: cannot be written"), lock_build(open_store(tmp_path), "d", "b"):
        pass
