"""What a collection removes of a store, and what it leaves. Whole builds: tests/flows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bystander.schemas.errors import BuildError, InputError, StorageError
from bystander.schemas.stages import REJECT_FIELDS, StageOutput
from bystander.storage.build_lock import list_running_builds, lock_build
from bystander.storage.build_manifest import BaseInfo, OtherBuild
from bystander.storage.call_cache import SqliteCallCache, locate_call_cache
from bystander.storage.collect_garbage import collect_garbage, find_garbage
from bystander.storage.filesystem import Store, open_store
from bystander.storage.kept_builds import KeepRules
from bystander.storage.part_use import BASES_FOLDER, record_part_use
from bystander.storage.parts import Partition, write_part_by_content
from bystander.storage.release_folders import write_mark
from bystander.storage.releases import move_latest
from bystander.storage.review_files import REVIEWS_FOLDER
from bystander.storage.stage_results import StageResult, remember_input, write_result
from bystander.storage.stored_builds import list_stored_builds
from bystander.storage.study_files import STUDIES
from final_rows import make_rows, write_build
from object_store_server import ObjectStoreServer

ROWS = make_rows(2, 0)
REJECTED = pa.schema([pa.field("id", pa.string()), *REJECT_FIELDS]).empty_table()


def run_stage(store: Store, fingerprint: str) -> tuple[Partition, StageResult]:
    rows = pa.table({"id": [fingerprint]})
    before = Partition(write_part_by_content(store, BASES_FOLDER, rows))
    result = write_result(store, "mix", fingerprint, rows, StageOutput(rows, REJECTED, (0,), ()), ["id"])
    remember_input(store, "mix", f"input-{fingerprint}", fingerprint)
    return before, result


def finish(store: Store, name: str, *parts: str, released: bool = False, **changes: Any) -> None:
    dataset, _, build = name.partition("/")
    with lock_build(store, dataset, build):
        record_part_use(store, dataset, build, [run_stage(store, part) for part in parts])
        write_build(store.uri_of(name), ROWS, dataset=dataset, build=build, **changes)
    if released:
        write_mark(store.child(dataset, build), "released")
        move_latest(store, dataset, build, "")


def stop(store: Store, name: str) -> None:
    """Leave behind what a build leaves that is killed while it is published."""
    finish(store, name, f"of-{name.partition('/')[2]}")
    store.remove(f"{name}/manifest.json")


def list_builds(store: Store) -> set[str]:
    return {"/".join(path.split("/")[:2]) for path in store.list() if not path.startswith("cache/")}


def list_parts(store: Store) -> set[str]:
    return {path.split("/")[3] for path in store.list("cache/stages/mix") if "/inputs/" not in path}


def list_locks(store: Store) -> set[str]:
    folder = "cache/locks" if store.is_local else "cache/leases/builds"
    return {path.removeprefix(f"{folder}/").partition(".")[0] for path in store.list(folder)}


def measure(store: Store) -> int:
    """Return the bytes of all but the lock of the store itself, which is written anew each time."""
    return sum(size for path, size in store.list_sizes().items() if path != "cache/store.lock")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path / "store")
    for day, part in (("2026-11-01", "one"), ("2026-11-08", "two"), ("2026-11-15", "two")):
        finish(store, f"t/{day}", "shared", part, released=True)
    finish(store, "t/mine", "mine")
    stop(store, "t/stopped")
    return store


def test_without_rules_only_what_stopped_builds_left_goes(store: Store) -> None:
    with lock_build(store, "t", "gone"):
        run_stage(store, "nobody's")
    finished = {path for path in store.list("t") if not path.startswith("t/stopped/")}
    garbage = find_garbage(store)
    assert [verdict.build.name for verdict in garbage.builds] == ["t/stopped"]
    assert set(garbage.locks) == {"cache/locks/t/gone.lock", "cache/locks/t/stopped.lock"}
    before = measure(store)
    assert collect_garbage(store).bytes == garbage.bytes == before - measure(store)
    assert set(store.list("t")) == finished
    assert list_parts(store) == {"shared", "one", "two", "mine"}
    assert list_locks(store) == {"t/2026-11-01", "t/2026-11-08", "t/2026-11-15", "t/mine"}
    assert find_garbage(store).nothing


@pytest.mark.parametrize("folder", [STUDIES, REVIEWS_FOLDER])
def test_what_people_said_is_no_build_and_stays(store: Store, folder: str) -> None:
    kept = f"{folder}/replies/answers/served.jsonl"
    store.write_bytes(kept, b"{}\n")
    assert folder not in {build.dataset for build in list_stored_builds(store)}
    assert folder not in {verdict.build.dataset for verdict in find_garbage(store).builds}
    collect_garbage(store, KeepRules(keep_last=1))
    assert store.read_bytes(kept) == b"{}\n"
    with pytest.raises(InputError):
        find_garbage(store, KeepRules(drop=(f"{folder}/replies",)))


def test_looking_changes_nothing(store: Store) -> None:
    before = store.list_sizes()
    assert not find_garbage(store, KeepRules(keep_last=1, drop=("t/mine",)), calls=True).nothing
    assert store.list_sizes() == before


def test_old_releases_go_with_the_parts_that_only_they_use(store: Store) -> None:
    collect_garbage(store, KeepRules(keep_last=1))
    assert list_builds(store) == {"t/2026-11-15", "t/mine", "t/latest.json"}
    assert list_parts(store) == {"shared", "two", "mine"}
    assert [path for path in store.list("cache") if "2026-11-08" in path] == []


def test_a_build_that_a_kept_one_is_disjoint_from_stays(store: Store) -> None:
    other = OtherBuild(uri="/moved/t/2026-11-01", dataset="t", build="2026-11-01", rows_digest="a" * 64)
    finish(store, "b/bench", disjoint_from=(other,))
    collect_garbage(store, KeepRules(keep_last=1))
    assert list_builds(store) == {"t/2026-11-01", "t/2026-11-15", "t/mine", "t/latest.json", "b/bench"}
    collect_garbage(store, KeepRules(keep_last=1, drop=("b/bench",)))
    assert list_builds(store) == {"t/2026-11-15", "t/mine", "t/latest.json"}


@pytest.mark.parametrize(("rows", "stays"), [("first", False), ("only", True)])
def test_a_build_that_has_all_rows_of_its_base_does_not_keep_it(store: Store, rows: str, stays: bool) -> None:
    base = {"uri": store.uri_of("t/2026-11-01"), "dataset": "t", "build": "2026-11-01", "rows_digest": "0" * 64}
    info = BaseInfo.model_validate({**base, "rows": rows, "rows_there": 2, "rows_here": 2})
    config = {"on_top_of": {"build": base["uri"], "rows": rows}}
    finish(store, "t/2026-11-22", "three", released=True, on_top_of=info, config=config)
    collect_garbage(store, KeepRules(keep_last=1))
    assert ("t/2026-11-01" in list_builds(store)) == stays
    assert "t/2026-11-22" in list_builds(store)


def test_parts_are_left_out_while_a_build_is_made(store: Store) -> None:
    assert find_garbage(store).parts_bytes > 0
    with lock_build(store, "t", "other"):
        found = find_garbage(store)
        assert (found.running, found.parts_are_known, found.parts_bytes) == (("t/other",), False, 0)
    assert find_garbage(store).running == ()


def test_what_is_not_ours_stays(store: Store) -> None:
    strange = ["t/notes/todo.txt", "t/bank/manifest.json", "other/readme.txt", "t/mine/notes.txt", "t/stopped/mail.txt"]
    for path in strange:
        store.write_bytes(path, b"{}")
    garbage = collect_garbage(store, KeepRules(drop=("t/mine",)))
    assert {path for path in store.list() if path in strange} == set(strange)
    assert [verdict.build.name for verdict in garbage.builds] == ["t/mine"]
    assert store.list("t/mine") == ["t/mine/notes.txt"]
    assert store.exists("t/stopped/data")  # unfinished, but not ours alone
    with pytest.raises(InputError, match="must stay: it is not known to be a build of ours"):
        collect_garbage(store, KeepRules(drop=("t/bank",)))


def test_collection_that_is_killed_leaves_no_build_that_looks_finished(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, removed = KeepRules(keep_last=1), []
    remove = Store.remove

    def die(self: Store, path: str, recursive: bool = False) -> None:
        if recursive and path.startswith("t/2026"):
            for name in self.list(path)[:1]:
                remove(self, name)
            raise StorageError("killed")
        removed.append(path)
        remove(self, path, recursive)

    monkeypatch.setattr(Store, "remove", die)
    with pytest.raises(StorageError, match="killed"):
        collect_garbage(store, rules)
    monkeypatch.undo()
    assert removed[-1] == "t/2026-11-01/manifest.json"
    assert not store.exists("t/2026-11-01/manifest.json")
    assert store.list("t/2026-11-01")
    assert "t/2026-11-01" in {verdict.build.name for verdict in find_garbage(store).builds}
    collect_garbage(store, rules)
    assert list_builds(store) == {"t/2026-11-15", "t/mine", "t/latest.json"}
    assert list_parts(store) == {"shared", "two", "mine"}


def test_nothing_goes_while_a_build_is_made(store: Store) -> None:
    before = store.list()
    with lock_build(store, "t", "stopped"):
        assert list_running_builds(store) == {"t/stopped"}
        assert find_garbage(store).builds == []
        with pytest.raises(BuildError, match=r"build t/stopped is being made by process \d+ on .*; wait for it"):
            collect_garbage(store)
    assert store.list() == before


def test_parts_stay_where_it_is_not_known_who_uses_them(store: Store) -> None:
    store.remove("cache/builds/t/mine.json")
    garbage = collect_garbage(store, KeepRules(keep_last=1))
    assert garbage.cache is not None
    assert garbage.cache.unrecorded == ("t/mine",)
    assert list_builds(store) == {"t/2026-11-15", "t/mine", "t/latest.json"}
    assert list_parts(store) == {"shared", "one", "two", "mine", "of-stopped"}


def test_calls_stay_unless_they_are_asked_for(store: Store) -> None:
    path = locate_call_cache(store)
    SqliteCallCache(path).close()
    collect_garbage(store)
    assert path.exists()
    assert find_garbage(store).nothing
    assert collect_garbage(store, calls=True).bytes > 0
    assert not path.exists()


def test_evaluation_and_its_bench_go_only_when_they_are_named(store: Store) -> None:
    store.write_bytes(
        "evaluations/e/manifest.json",
        b'{"format": "bystander-evaluation-manifest", "config": {"bench": "/moved/store/t/mine"}}',
    )
    store.write_bytes("evaluations/e/answers/a.parquet", b"rows")
    record_part_use(store, "evaluations", "e", ())
    with pytest.raises(InputError, match="--drop t/mine: must stay: evaluations/e refers to it"):
        collect_garbage(store, KeepRules(drop=("t/mine",)))
    collect_garbage(store, KeepRules(drop=("t/mine", "evaluations/e")))
    assert {name for name in list_builds(store) if "2026" not in name} == {"t/latest.json"}


def test_a_place_that_is_no_store_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    for folder, message in (
        (tmp_path, "holds neither builds nor a cache"),
        (tmp_path / "no", "there is no such store"),
    ):
        with pytest.raises(InputError, match=message):
            collect_garbage(open_store(folder))
    assert list(tmp_path.iterdir()) == []


def test_store_of_builds_without_a_cache_can_be_collected(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for day in ("2026-11-01", "2026-11-08"):
        write_build(tmp_path / "t" / day, ROWS, dataset="t", build=day)
        write_mark(store.child("t", day), "released")
        move_latest(store, "t", day, "")
    assert [verdict.build.name for verdict in collect_garbage(store, KeepRules(keep_last=1)).builds] == ["t/2026-11-01"]
    assert list_builds(store) == {"t/2026-11-08", "t/latest.json"}


def test_store_in_memory_is_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    collect_remotely(open_store("memory://collected"))


def test_object_store_is_collected(object_store: ObjectStoreServer, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    collect_remotely(open_store(f"s3://{object_store.make_bucket()}/collected"))


def collect_remotely(store: Store) -> None:
    for day, part in (("2026-11-01", "one"), ("2026-11-08", "two")):
        finish(store, f"t/{day}", "shared", part, released=True)
    stop(store, "t/stopped")
    with lock_build(store, "t", "running"):
        assert {verdict.build.name for verdict in find_garbage(store).builds} == {"t/stopped"}
        with pytest.raises(BuildError, match=r"build t/running is being made by process \d+"):
            collect_garbage(store)
    collect_garbage(store, KeepRules(keep_last=1))
    assert list_builds(store) == {"t/2026-11-08", "t/latest.json"}
    assert list_parts(store) == {"shared", "two"}
    assert list_locks(store) == {"t/2026-11-08/00000001"}
    assert find_garbage(store).nothing
