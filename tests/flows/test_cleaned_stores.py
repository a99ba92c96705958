"""What cleaning leaves to the next run of a build."""

from __future__ import annotations

from pathlib import Path

import pytest

from bystander.storage.clean_cache import Cleaning, clean_cache, inspect_cache
from bystander.storage.filesystem import open_store
from bystander.storage.verify_build import verify_build
from tpi_builds import Built, build, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")

FEW = {"rows": 8, "stages__draw_scenarios__scenarios": ["endorsement", "alignment", "priority_alert"]}


def build_small(folder: Path, name: str, seed: int, **fields: object) -> Built:
    queries = write_queries(folder / "queries.jsonl", 24)
    return build(make_config(folder / "store", queries, build=name, seed=seed, **{**FEW, **fields}))


def test_finished_build_finds_all_its_parts_and_those_of_others_are_gone(tmp_path: Path) -> None:
    kept = build_small(tmp_path, "kept", 1)
    gone = build_small(tmp_path, "gone", 2)
    store = open_store(tmp_path / "store")
    assert inspect_cache(store).unused_paths == ()
    store.remove("tpi-train/gone", recursive=True)
    assert clean_cache(store, Cleaning()) > 0
    assert verify_build(kept.folder) == []
    again = build_small(tmp_path, "kept", 1)
    assert not again.heard.made
    assert "nothing new" in again.heard.phases[-1]
    redone = build_small(tmp_path, "gone", 2)
    assert redone.heard.made == gone.heard.made
    assert redone.checksums == gone.checksums


def test_parts_of_another_partition_size_take_the_place_of_the_first(tmp_path: Path) -> None:
    first = build_small(tmp_path, "same", 1)
    resized = build_small(tmp_path, "same", 1, partition_rows=5)
    assert resized.checksums == first.checksums
    store = open_store(tmp_path / "store")
    assert clean_cache(store, Cleaning()) > 0
    assert not build_small(tmp_path, "same", 1, partition_rows=5).heard.made
    assert build_small(tmp_path, "same", 1).heard.made


def test_without_any_cache_a_finished_build_is_made_again_the_same(tmp_path: Path) -> None:
    first = build_small(tmp_path, "same", 1)
    clean_cache(open_store(tmp_path / "store"), Cleaning(all_parts=True, calls=True))
    assert verify_build(first.folder) == []
    again = build_small(tmp_path, "same", 1)
    assert again.heard.made == first.heard.made
    assert again.checksums == first.checksums
