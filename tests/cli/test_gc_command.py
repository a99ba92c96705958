"""`bystander gc`: lists first, removes when it is told to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from bystander.storage.build_lock import lock_build
from bystander.storage.filesystem import Store, open_store
from bystander.storage.release_folders import write_mark
from bystander.storage.releases import move_latest
from final_rows import make_rows, write_build

Run = Callable[..., tuple[int, str, str]]
ROWS = make_rows(1, 0)


@pytest.fixture
def run(run_command: Run) -> Run:
    return partial(run_command, "gc")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path / "store")
    for day in ("2026-11-01", "2026-11-08"):
        with lock_build(store, "t", day):
            write_build(store.uri_of(f"t/{day}"), ROWS, dataset="t", build=day)
        write_mark(store.child("t", day), "released")
        move_latest(store, "t", day, "")
    return store


def test_it_lists_and_removes_only_when_it_is_told_to(run: Run, store: Store) -> None:
    before = store.list_sizes()
    code, out, err = run(store.uri, "--keep-last", 1)
    assert (code, err) == (0, "")
    assert "t/2026-11-01" in out
    assert "older than the newest 1 releases" in out
    assert "t/latest points to it" in out
    assert "MB would be freed; --apply removes it." in out
    assert store.list_sizes() == before
    code, out, err = run(store.uri, "--keep-last", 1, "--apply")
    assert (code, "Nobody can be asked here; say --yes" in err, store.list_sizes()) == (2, True, before)
    code, out, err = run(store.uri, "--keep-last", 1, "--apply", "--yes")
    assert (code, err) == (0, "")
    assert out.endswith(" MB freed.\n")
    assert store.list_folders("t") == ["2026-11-08"]
    assert "nothing to remove" in run(store.uri, "--keep-last", 1, "--apply", "--yes")[1]


def test_a_build_that_runs_is_named(run: Run, store: Store) -> None:
    with lock_build(store, "t", "2026-11-15"):
        code, out, _ = run(store.uri)
    assert code == 0
    assert "t/2026-11-15 is being made, so parts are left out here; while it is, --apply refuses." in out


def test_mistakes_are_one_line(run: Run, store: Store, tmp_path: Path) -> None:
    for arguments, message in {
        (store.uri, "--drop", "t/2026-11-08"): "must stay: t/latest points to it",
        (store.uri, "--drop", "2026-11-01"): "write DATASET/NAME",
        (store.uri, "--keep", "nothing*"): "there is no build in the store",
        (store.uri, "--keep-last", "0"): "keep-last",
        (tmp_path / "none",): "there is no such store",
    }.items():
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err


def test_a_dataset_is_not_taken_for_a_store(run: Run, store: Store) -> None:
    code, out, err = run(store.uri_of("t"), "--apply", "--yes")
    assert (code, out, err) == (2, "", f"error: {store.uri}/t: is a dataset's folder; name the store: {store.uri}\n")
    store.write_bytes("voices/manifest.json", b"{}")  # a voice bank beside the datasets
    store.remove("cache", recursive=True)
    assert run(store.uri)[0] == 0
