"""The pointer to the latest release, the marks of dated folders, and the lock of a dataset's releases."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.config import OnTopOf, load_config
from bystander.schemas.errors import BuildError, ConfigError
from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.storage.build_lock import lock_build, lock_dataset, lock_store
from bystander.storage.build_manifest import MANIFEST_NAME
from bystander.storage.filesystem import Store, open_store
from bystander.storage.pinned_builds import pin_bench, pin_builds
from bystander.storage.release_folders import (
    begin_release,
    give_up_folder,
    list_refused,
    order_builds,
    read_mark,
    write_mark,
)
from bystander.storage.releases import Release, move_latest, open_build, pin_build, read_latest
from object_store_server import ObjectStoreServer

DAY = date(2026, 11, 30)
DATASET = "tpi-train"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path)


def finish(store: Store, name: str) -> Store:
    folder = store.child(DATASET, name)
    folder.write_bytes(MANIFEST_NAME, b"{}")
    return folder


def test_the_pointer_remembers_what_was_before_and_what_was_withdrawn(store: Store) -> None:
    assert read_latest(store, DATASET) is None
    move_latest(store, DATASET, "a", "1")
    assert move_latest(store, DATASET, "b", "2") == Release(build="b", content_digest="2", previous="a")
    assert move_latest(store, DATASET, "b", "3").previous == "a"
    back = move_latest(store, DATASET, "a", "1", withdraw=True)
    assert (back.build, back.previous, back.withdrawn) == ("a", None, ("b",))
    assert read_latest(store, DATASET) == back
    assert move_latest(store, DATASET, "c", "4").withdrawn == ("b",)
    assert move_latest(store, DATASET, "b", "2").withdrawn == ()


def test_latest_is_followed_and_other_addresses_stay(store: Store) -> None:
    folder = store.uri_of(DATASET)
    with pytest.raises(BuildError, match="nothing was released there yet"):
        open_build(f"{folder}/latest")
    move_latest(store, DATASET, "2026-11-30", "")
    assert open_build(f"{folder}/latest/").uri == open_build(f"{folder}/2026-11-30").uri == f"{folder}/2026-11-30"
    for address in ("s3://bucket/tpi-train/2026-11-30", "relative/latest-one", "", "calls.jsonl"):
        assert pin_build(address) == address


def test_latest_is_followed_in_a_remote_store() -> None:
    store = open_store("memory://releases")
    move_latest(store, DATASET, "2026-11-30", "")
    assert pin_build("memory://releases/tpi-train/latest") == "memory://releases/tpi-train/2026-11-30"
    assert open_build("memory://releases/tpi-train/latest").uri == "memory:///releases/tpi-train/2026-11-30"


def test_configurations_name_the_release(store: Store) -> None:
    latest, release = store.uri_of(f"{DATASET}/latest"), store.uri_of(f"{DATASET}/2026-11-30")
    config = load_config("fake").model_copy(
        update={"disjoint_from": (latest, "elsewhere/b"), "on_top_of": OnTopOf(build=latest)}
    )
    bench = EvaluateTpiConfig(bench=latest)
    with pytest.raises(ConfigError, match=r"disjoint_from .*: nothing was released there yet"):
        pin_builds(config)
    with pytest.raises(ConfigError, match=r"bench .*: nothing was released there yet"):
        pin_bench(bench)
    move_latest(store, DATASET, "2026-11-30", "")
    pinned = pin_builds(config)
    assert pinned.disjoint_from == (release, "elsewhere/b")
    assert pinned.on_top_of == OnTopOf(build=release)
    assert pin_builds(pinned) == pinned
    assert pinned.build_name != config.build_name
    assert pin_bench(bench).bench == release


def test_names_of_a_day(store: Store) -> None:
    assert begin_release(store, DATASET, DAY) == "2026-11-30"
    assert begin_release(store, DATASET, DAY) == "2026-11-30"  # that one was not finished
    finish(store, "2026-11-30")
    assert begin_release(store, DATASET, DAY) == "2026-11-30"  # nor verified
    write_mark(store.child(DATASET, "2026-11-30"), "refused", ["it is bad"])
    assert begin_release(store, DATASET, DAY) == "2026-11-30.2"
    finish(store, "2026-11-30.2")
    move_latest(store, DATASET, "2026-11-30.2", "")
    assert begin_release(store, DATASET, DAY) == "2026-11-30.3"  # killed between pointing and marking
    mark = read_mark(store.child(DATASET, "2026-11-30.2"))
    assert mark is not None
    assert mark.state == "released"
    finish(store, "2026-12-01")  # of somebody who chose this name
    assert begin_release(store, DATASET, DAY + timedelta(1)) == "2026-12-01.2"
    assert list_refused(store, DATASET) == ["2026-11-30"]


def test_only_folders_without_a_build_are_given_up(store: Store) -> None:
    for name in (begin_release(store, DATASET, DAY), "mine"):
        give_up_folder(store.child(DATASET, name))
    assert store.list(DATASET) == []
    begin_release(store, DATASET, DAY)
    finish(store, "2026-11-30")
    store.child(DATASET, "mine").write_bytes("data/x", b"")
    for name in ("2026-11-30", "mine"):
        give_up_folder(store.child(DATASET, name))
    assert store.list_folders(DATASET) == ["2026-11-30", "mine"]


@given(st.lists(st.tuples(st.dates(), st.integers(1, 30)), unique=True))
def test_releases_sort_as_they_were_made(made: list[tuple[date, int]]) -> None:
    names = [day.isoformat() + (f".{number}" if number > 1 else "") for day, number in sorted(made)]
    made_in_any_order = [f"{day.isoformat()}.{number}" if number > 1 else day.isoformat() for day, number in made]
    assert sorted(made_in_any_order, key=order_builds) == names


def test_the_lock_of_releases_keeps_out_another_release_and_a_cleaning_but_no_build(store: Store) -> None:
    with lock_dataset(store, DATASET):
        with pytest.raises(BuildError, match=r"a release of tpi-train in .* is being made by process"):
            lock_dataset(store, DATASET).__enter__()
        with pytest.raises(BuildError, match="a release of tpi-train is being made by process"):
            lock_store(store).__enter__()
        with lock_build(store, DATASET, "2026-11-30"), lock_dataset(store, "tpi-bench"):
            pass
    with lock_dataset(store, DATASET):
        pass
    with lock_store(store), pytest.raises(BuildError, match="is being cleaned by"):
        lock_dataset(store, DATASET).__enter__()


def test_the_lock_of_releases_in_an_object_store(object_store: ObjectStoreServer) -> None:
    store = open_store(f"s3://{object_store.make_bucket()}/store")
    with lock_dataset(store, DATASET) as lock:
        lock.assert_held()
        with pytest.raises(BuildError, match=r"a release of tpi-train in .* is being made by process"):
            lock_dataset(store, DATASET).__enter__()
        with pytest.raises(BuildError, match="a release of tpi-train is being made by process"):
            lock_store(store).__enter__()
        with lock_build(store, DATASET, "2026-11-30"):
            pass
    with lock_dataset(store, DATASET):
        pass
