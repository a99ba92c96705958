"""Releases of the fake builds: a dated folder each, verified before `latest` points to it, nothing twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from bystander.flows.listeners import listening
from bystander.flows.release import ReleaseOutcome, release_build
from bystander.storage.filesystem import open_store
from bystander.storage.releases import open_build, read_latest
from bystander.storage.verify_build import verify_build
from tpi_builds import Recorder, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")

DAY = "2026-11-30"
DATASET = "tpi-train"


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_queries(tmp_path_factory.mktemp("queries") / "queries.jsonl")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def release(store: Path, queries: Path, dated: str = DAY, **fields: Any) -> tuple[ReleaseOutcome[Any], Recorder]:
    from bystander.flows.build_tpi_train import run_build_tpi_train

    heard = Recorder()
    with listening(heard):
        return release_build(make_config(store, queries, **fields), run_build_tpi_train, dated), heard


def name_latest(store: Path, dataset: str = DATASET) -> str | None:
    found = read_latest(open_store(store), dataset)
    return found and found.build


def list_builds(store: Path) -> list[str]:
    return open_store(store).list_folders(DATASET)


def test_a_first_release_is_dated_sound_and_the_latest(store: Path, queries: Path) -> None:
    outcome, heard = release(store, queries)
    assert outcome.is_new
    assert outcome.location == str(store / DATASET / DAY)
    assert (outcome.release.build, outcome.release.previous) == (DAY, None)
    assert outcome.release.content_digest == outcome.manifest.content_digest
    assert outcome.summary[-1] == f"released: {DATASET}/latest is {DAY}, which was verified."
    assert heard.phases[-1] == f"verifying {DAY}"
    assert name_latest(store) == DAY
    assert verify_build(open_build(f"{store}/{DATASET}/latest")) == []

    began = time.monotonic()
    again, heard = release(store, queries, "2026-12-01")
    assert time.monotonic() - began < 10
    assert not again.is_new
    assert not heard.made
    assert again.summary[0] == f"nothing new: {DATASET}/{DAY} is made of just this; latest stays where it is."
    assert again.location == outcome.location
    assert list_builds(store) == [DAY]

    other, _ = release(store, queries, seed=1)
    assert other.is_new
    assert (other.release.build, other.release.previous) == (f"{DAY}.2", DAY)
    assert list_builds(store) == [DAY, f"{DAY}.2"]
