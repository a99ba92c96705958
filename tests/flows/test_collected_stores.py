"""What a collection leaves to the builds that are kept: they are sound, and their next run makes no call."""

from __future__ import annotations

from pathlib import Path

import pytest

from bystander.storage.collect_garbage import collect_garbage, find_garbage
from bystander.storage.filesystem import open_store
from bystander.storage.kept_builds import KeepRules
from bystander.storage.verify_build import verify_build
from tpi_builds import Built, build, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")

FEW = {"rows": 8, "stages__draw_scenarios__scenarios": ["endorsement", "alignment", "priority_alert"]}


def build_small(folder: Path, name: str, **fields: object) -> Built:
    queries = write_queries(folder / "queries.jsonl", 24)
    return build(make_config(folder / "store", queries, build=name, **{**FEW, "seed": 1, **fields}))


def test_kept_build_is_sound_and_made_again_without_a_call(tmp_path: Path) -> None:
    kept = build_small(tmp_path, "kept")
    mixed = build_small(tmp_path, "mixed", stages__mix_speakers__offset_mean_s=-0.3)
    stopped = build_small(tmp_path, "stopped", seed=2)
    store = open_store(tmp_path / "store")
    store.remove("tpi-train/stopped/manifest.json")
    files = {path: store.sha256(path) for path in store.list("tpi-train/kept")}

    garbage = collect_garbage(store, KeepRules(drop=("tpi-train/mixed",)))

    assert [verdict.build.build for verdict in garbage.builds] == ["mixed", "stopped"]
    assert store.list_folders("tpi-train") == ["kept"]
    assert {path: store.sha256(path) for path in store.list("tpi-train/kept")} == files
    assert verify_build(kept.folder) == []
    assert find_garbage(store).nothing
    again = build_small(tmp_path, "kept")
    assert not again.heard.made
    assert "nothing new" in again.heard.phases[-1]
    assert not any(count["made"] for count in calls_of(again))
    # What the two shared is still there; what only the other used is made anew, the same.
    redone = build_small(tmp_path, "mixed", stages__mix_speakers__offset_mean_s=-0.3)
    assert redone.heard.made == mixed.heard.made
    assert redone.checksums == mixed.checksums
    assert build_small(tmp_path, "stopped", seed=2).checksums == stopped.checksums


def calls_of(built: Built) -> list[dict[str, int]]:
    lines = [line for line in built.outcome.summary if " calls made, " in line]
    return [{"made": int(line.split(": ")[1].split(" ")[0].replace(",", ""))} for line in lines]
