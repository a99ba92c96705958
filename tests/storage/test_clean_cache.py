"""What is in a cache, what of it is used, and what is left after cleaning. Whole builds: tests/flows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bystander.schemas.errors import BuildError, InputError
from bystander.schemas.stages import REJECT_FIELDS, StageOutput
from bystander.storage.build_lock import lock_build, lock_store
from bystander.storage.call_cache import SqliteCallCache, locate_call_cache
from bystander.storage.clean_cache import Amount, Cleaning, clean_cache, inspect_cache
from bystander.storage.filesystem import Store, open_store
from bystander.storage.part_use import BASES_FOLDER, PartUse, read_part_use, record_part_use
from bystander.storage.parts import Partition, write_part_by_content
from bystander.storage.stage_results import StageResult, find_result_of_input, remember_input, write_result

ROWS = pa.table({"id": ["a", "b"]})
REJECTED = pa.schema([*ROWS.schema, *REJECT_FIELDS]).empty_table()
EVERYTHING = Cleaning(all_parts=True, calls=True)


def run_stage(store: Store, stage: str, fingerprint: str, row_id: str) -> tuple[Partition, StageResult]:
    """Store a base part, and the result of a stage that keeps it as it is."""
    rows = pa.table({"id": [row_id]})
    before = Partition(write_part_by_content(store, BASES_FOLDER, rows))
    result = write_result(store, stage, fingerprint, rows, StageOutput(rows, REJECTED, (0,), ()), ["id"])
    remember_input(store, stage, f"input-{fingerprint}", fingerprint)
    return before, result


def finish_build(store: Store, name: str, *runs: tuple[Partition, StageResult]) -> None:
    record_part_use(store, "d", name, runs)
    store.write_bytes(f"d/{name}/manifest.json", b"{}")
    store.write_bytes(f"d/{name}/data/train.parquet", b"rows")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two finished builds that share a result, and one that was stopped."""
    store = open_store(tmp_path / "store")
    shared, own, stopped = (run_stage(store, "mix", name, name) for name in ("shared", "own", "stopped"))
    finish_build(store, "one", shared)
    finish_build(store, "two", shared, own)
    assert stopped[1].rows_kept == 1
    return store


def list_results(store: Store) -> list[str]:
    return sorted({path.split("/")[3] for path in store.list("cache/stages") if "/inputs/" not in path})


def measure_disk(store: Store) -> int:
    folder = store.local_path("cache")
    assert folder is not None
    kept = ("stages", "bases", "builds", "calls.sqlite")
    return sum(
        file.stat().st_size
        for file in folder.rglob("*")
        if file.is_file() and file.relative_to(folder).parts[0] in kept
    )


def test_parts_of_finished_builds_and_others_are_told_apart(store: Store) -> None:
    content = inspect_cache(store)
    assert content.builds == (("d", "one"), ("d", "two"))
    assert content.unrecorded == ()
    assert {name: amount.count for name, amount in content.used.items()} == {"bases": 2, "mix": 2, "records": 2}
    assert {name: amount.count for name, amount in content.unused.items()} == {"bases": 1, "mix": 1}
    assert content.parts_bytes == measure_disk(store)
    assert content.calls is None


def test_unused_parts_go_and_what_is_freed_is_told(store: Store) -> None:
    store.write_bytes("cache/stages/mix/shared/.writing-kept.parquet-1", b"killed")
    before = measure_disk(store)
    freed = clean_cache(store, Cleaning())
    assert freed == before - measure_disk(store) > 0
    assert list_results(store) == ["own", "shared"]
    assert find_result_of_input(store, "mix", "input-own") is not None
    assert sorted(path.rpartition("/")[2] for path in store.list("cache/stages/mix/inputs")) == [
        "input-own.json",
        "input-shared.json",
    ]
    assert inspect_cache(store).unused_paths == ()
    assert clean_cache(store, Cleaning()) == 0


def test_what_only_a_deleted_build_used_is_unused(store: Store) -> None:
    store.remove("d/two", recursive=True)
    clean_cache(store, Cleaning())
    assert list_results(store) == ["shared"]
    assert read_part_use(store, "d", "two") is None
    assert read_part_use(store, "d", "one") == PartUse(
        frozenset({"cache/stages/mix/shared"}), frozenset(store.list("cache/bases"))
    )


def test_everything_goes_but_the_builds(store: Store) -> None:
    with_calls = SqliteCallCache(locate_call_cache(store))
    for i in range(50):
        with_calls.put(f"call {i}", b"reply" * 100)
    with_calls.close()
    builds = {path: store.read_bytes(path) for path in store.list("d")}
    calls = inspect_cache(store).calls
    assert calls is not None
    assert calls.count == 50
    before = measure_disk(store)
    assert clean_cache(store, EVERYTHING) == before
    assert measure_disk(store) == 0
    assert {path: store.read_bytes(path) for path in store.list("d")} == builds


def test_calls_alone(store: Store) -> None:
    SqliteCallCache(locate_call_cache(store)).close()
    before = measure_disk(store)
    freed = clean_cache(store, Cleaning(unused_parts=False, calls=True))
    assert freed == before - measure_disk(store) > 0
    assert list_results(store) == ["own", "shared", "stopped"]
    assert clean_cache(store, Cleaning(unused_parts=False, calls=True)) == 0


def test_damaged_call_cache_can_be_removed(store: Store) -> None:
    path = locate_call_cache(store)
    path.write_bytes(b"no database, but some bytes" * 100)
    assert inspect_cache(store).calls == Amount(0, 2700)
    assert clean_cache(store, Cleaning(unused_parts=False, calls=True)) == 2700
    assert not path.exists()


@pytest.mark.parametrize("cleaning", [Cleaning(), EVERYTHING])
def test_nothing_is_removed_while_a_build_runs(store: Store, cleaning: Cleaning) -> None:
    before = store.list("cache/stages")
    with (
        lock_build(store, "d", "three"),
        lock_build(store, "d", "four"),
        pytest.raises(BuildError, match=r"build d/(three|four) is being made by process \d+ on .*; wait for it"),
    ):
        clean_cache(store, cleaning)
    assert store.list("cache/stages") == before


def test_no_build_starts_while_the_store_is_cleaned(store: Store) -> None:
    with (
        lock_store(store),
        pytest.raises(BuildError, match=r"store .* is being cleaned by process \d+ on .*; wait for it"),
        lock_build(store, "d", "three"),
    ):
        pass
    with lock_store(store), pytest.raises(BuildError, match="is being cleaned by process"):
        clean_cache(store, Cleaning())


@pytest.mark.parametrize("record", [None, b"{", b"[]", b'{"results": 3, "bases": []}'])
def test_build_whose_parts_are_not_known_keeps_all(store: Store, record: bytes | None) -> None:
    if record is None:
        store.remove("cache/builds/d/one.json")
    else:
        store.write_bytes("cache/builds/d/one.json", record)
    with pytest.raises(BuildError, match=r"not recorded which parts d/one was made from; run the build again"):
        clean_cache(store, Cleaning())
    assert list_results(store) == ["own", "shared", "stopped"]
    clean_cache(store, Cleaning(all_parts=True))
    assert list_results(store) == []


def test_folder_without_a_cache_is_no_store(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="holds no cache; name the store"):
            clean_cache(open_store(folder), EVERYTHING)
    assert list(tmp_path.iterdir()) == []


def test_remote_store_keeps_its_calls_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = open_store("memory://cleaned")
    finish_build(store, "one", run_stage(store, "mix", "used", "a"))
    run_stage(store, "mix", "unused", "b")
    SqliteCallCache(locate_call_cache(store)).close()
    assert clean_cache(store, Cleaning(calls=True)) > 0
    assert list_results(store) == ["used"]
    assert list((tmp_path / "bystander" / "calls").iterdir()) == []
    assert store.exists("d/one/manifest.json")
