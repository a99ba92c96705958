"""Leases: one holder at a time, and what dead or silent ones leave is taken over."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from bystander.schemas.errors import BuildError
from bystander.storage import leases
from bystander.storage.build_lock import lock_build
from bystander.storage.filesystem import Store, open_store
from bystander.storage.leases import find_holder, hold_lease, list_holders

HOLDER = """
import sys, time
from bystander.storage.build_lock import lock_build
from bystander.storage.filesystem import open_store
with lock_build(open_store(sys.argv[1]), "d", "b"):
    print("held", flush=True)
    time.sleep(60)
"""
FOLDER = "cache/leases/builds/d/b"


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "s3":
        return open_store(f"s3://{request.getfixturevalue('object_store').make_bucket()}/s")
    return open_store(f"memory://{uuid4().hex}/s")


def refuse(holder: str) -> str:
    return f"held by {holder}"


def write_foreign_note(store: Store, number: int = 1, **changes: Any) -> None:
    note = {"pid": 7, "host": "gpu-box", "machine": "gpu-box", "token": "x", "expires_after_s": 3600, "released": False}
    store.write_bytes(f"{FOLDER}/{number:08d}.json", json.dumps({**note, **changes}).encode())


def test_another_process_is_refused_until_the_holder_dies(request: pytest.FixtureRequest) -> None:
    store = open_store(f"s3://{request.getfixturevalue('object_store').make_bucket()}/s")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, store.uri], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        said = rf"build d/b in {store.uri} is being made by process {holder.pid} on "
        with pytest.raises(BuildError, match=said), lock_build(store, "d", "b"):
            pass
        with lock_build(store, "d", "other"):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with lock_build(store, "d", "b") as lock:
        lock.assert_held()


def test_of_many_who_want_it_at_once_one_holds_it(store: Store) -> None:
    together = 8
    held: list[int] = []

    def try_it(number: int) -> str:
        try:
            with hold_lease(store, FOLDER, refuse) as lease:
                assert lease is not None
                held.append(number)
                finished.wait()
                return "held"
        except BuildError:
            return "refused"

    finished = threading.Event()
    with ThreadPoolExecutor(together) as pool:
        futures = [pool.submit(try_it, number) for number in range(together)]
        while sum(future.done() for future in futures) < together - 1:
            finished.wait(0.01)
        finished.set()
        outcomes = [future.result() for future in futures]
    assert sorted(outcomes) == ["held", *["refused"] * (together - 1)]
    assert len(held) == 1


def test_it_is_free_again_after_the_block(store: Store) -> None:
    for _ in range(3):
        with hold_lease(store, FOLDER, refuse):
            assert find_holder(store, FOLDER) is not None
            assert [name for name, _ in list_holders(store, "cache/leases/builds")] == ["d/b"]
        assert find_holder(store, FOLDER) is None
    assert store.list(FOLDER) == [f"{FOLDER}/00000003.json"]


def test_a_holder_on_another_machine_is_left_alone_while_it_renews(store: Store) -> None:
    write_foreign_note(store)
    with pytest.raises(BuildError, match="held by process 7 on gpu-box"), hold_lease(store, FOLDER, refuse):
        pass
    assert store.list("cache/leases/clocks") == []


@pytest.mark.parametrize("changes", [{"expires_after_s": -1}, {"released": True}], ids=["silent", "released"])
def test_what_is_left_behind_is_taken_over(store: Store, changes: dict[str, Any]) -> None:
    write_foreign_note(store, 41, **changes)
    with hold_lease(store, FOLDER, refuse) as lease:
        assert lease is not None
        lease.assert_held()
        assert store.list(FOLDER) == [f"{FOLDER}/00000042.json"]


def test_a_dead_process_of_this_machine_is_not_waited_for(store: Store) -> None:
    own = leases._describe_process()
    write_foreign_note(store, **{**own, "started": "1.00"})
    with hold_lease(store, FOLDER, refuse):
        pass
    write_foreign_note(store, 9, **own)
    with pytest.raises(BuildError), hold_lease(store, FOLDER, refuse):
        pass


def test_who_was_asleep_learns_that_another_has_taken_over(store: Store) -> None:
    with hold_lease(store, FOLDER, refuse) as lease:
        assert lease is not None
        write_foreign_note(store, 2)
        with pytest.raises(BuildError, match="was taken over by process 7 on gpu-box"):
            lease.assert_held()


def test_it_is_renewed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = threading.Event()
    write: Callable[..., None] = leases._write_note

    def note(*args: Any) -> None:
        write(*args)
        renewed.set()

    monkeypatch.setattr(leases, "_write_note", note)
    with hold_lease(store, FOLDER, refuse, renew_every_s=0.01) as lease:
        assert renewed.wait(30)
        assert lease is not None
        lease.assert_held()


def test_a_server_without_conditional_puts_keeps_nobody_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def write(self: Store, path: str, data: bytes) -> bool:
        self.write_bytes(path, data)
        return True

    monkeypatch.setattr(Store, "create", write)
    store = open_store(f"memory://{uuid4().hex}")
    with hold_lease(store, FOLDER, refuse) as lease:
        assert lease is None
    assert "has no conditional puts" in caplog.text


def test_damaged_notes_are_taken_over_in_time() -> None:
    store = open_store(f"memory://{uuid4().hex}")
    store.write_bytes(f"{FOLDER}/00000001.json", b"{")
    with pytest.raises(BuildError, match="another process"), hold_lease(store, FOLDER, refuse):
        pass  # for as long as a note of today would hold
