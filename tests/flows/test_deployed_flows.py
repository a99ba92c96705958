"""The flows of deployments: one model of parameters in, a release out, and mistakes as the message of a failed run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from prefect import Flow, flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.client.schemas.objects import FlowRun, State

from bystander.flows.build_tpi_train import run_build_tpi_train
from bystander.flows.check_tpi_train import check_tpi_build
from bystander.flows.dataset_turn import dataset_turn, name_limit
from bystander.flows.deployed_flows import deploy_evaluate_sid, deploy_sid_bench, deploy_tpi_bench, deploy_tpi_train
from bystander.flows.deployed_run import run_deployed_build
from bystander.schemas.config import resize
from bystander.schemas.deployed_builds import TpiTrainRun
from bystander.schemas.errors import EngineError, EngineUnavailableError
from bystander.storage.build_manifest import read_manifest
from bystander.storage.filesystem import Store, open_store
from bystander.storage.releases import open_build, read_latest
from bystander.storage.verify_build import verify_build
from tpi_builds import write_queries

SMALL = {"stages.draw_scenarios.scenarios": ["endorsement", "alignment"], "report_rows": 2}


def run(flow: Flow[Any, Any], **form: Any) -> tuple[str, str]:
    """Return name and message of a run's final state."""
    (parameter,) = flow.parameters.properties
    state = flow(**{parameter: form}, return_state=True)
    return state.name, state.message


def make_form(folder: Path, **fields: Any) -> dict[str, Any]:
    queries = write_queries(folder / "queries.jsonl", 20)
    overrides = {**SMALL, **fields.pop("overrides", {})}
    form = {"store": str(folder / "store"), "profile": "fake", "rows": 6, "queries": str(queries)}
    return {**form, "retry_after_s": 0, "overrides": overrides, **fields}


def read_run(state: State[Any]) -> FlowRun:
    with get_client(sync_client=True) as client:
        return client.read_flow_run(state.state_details.flow_run_id)


def test_a_release_and_then_nothing_new(tmp_path: Path, prefect_server: None) -> None:
    published = tmp_path / "published"
    form = make_form(tmp_path, publish_to=str(published))
    name, message = run(deploy_tpi_train, **form)
    store = open_store(str(tmp_path / "store"))
    (today,) = store.list_folders("tpi-train")
    date.fromisoformat(today)
    where = f"{tmp_path}/store/tpi-train/{today}"
    assert (name, message) == ("Completed", f"New release: {where}, 6 rows.")
    manifest = read_manifest(open_build(f"{tmp_path}/store/tpi-train/latest"))
    assert (manifest.counts.rows, manifest.config["profile"]) == (6, "fake")
    assert verify_build(where) == []
    assert verify_build(str(published / "tpi-train" / today)) == []

    name, message = run(deploy_tpi_train, **form)
    assert (name, message) == ("Completed", f"Nothing new: {where} is made of just this.")
    assert store.list_folders("tpi-train") == [today]
    with get_client(sync_client=True) as client:
        of_outcomes = ArtifactFilter(key=ArtifactFilterKey(any_=["tpi-train-outcome"]))
        artifacts = client.read_artifacts(artifact_filter=of_outcomes)  # all others would fill its page
    shown = [str(artifact.data) for artifact in artifacts if where in str(artifact.data)]
    assert len(shown) == 2
    assert sorted("| New | yes |" in page for page in shown) == [False, True]
    assert all(f"| Latest release | `{today}` |" in page for page in shown)


def test_a_place_that_cannot_be_published_to_is_found_before_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: None
) -> None:
    (tmp_path / "file").touch()
    name, message = run(deploy_tpi_train, **make_form(tmp_path, publish_to=str(tmp_path / "file")))
    assert (name, message) == ("Failed", f"{tmp_path}/file: is a file; name a folder to publish to")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    name, message = run(deploy_tpi_train, **make_form(tmp_path, publish_to="hf://datasets/lab/talks"))
    assert (name, message.partition(";")[0]) == ("Failed", "hf://datasets/lab/talks: there is no token")
    assert not (tmp_path / "store" / "tpi-train").exists()


def test_a_release_that_cannot_be_published_is_a_release(tmp_path: Path, prefect_server: None) -> None:
    form = make_form(tmp_path, publish_to=str(tmp_path / "published"))
    published = tmp_path / "published" / "tpi-train"
    published.mkdir(parents=True)
    for days in (-1, 0, 1):  # whatever the time zone
        (published / (date.today() + timedelta(days)).isoformat()).touch()
    name, message = run(deploy_tpi_train, **form)
    latest = read_latest(open_store(f"{tmp_path}/store"), "tpi-train")
    assert latest is not None
    taken = published / latest.build
    assert (name, message) == (
        "Failed",
        f"released as tpi-train/{latest.build}, but not published: {taken}: is a file; name a folder to publish to",
    )
    taken.unlink()
    name, message = run(deploy_tpi_train, **form)
    assert (name, message.partition(":")[0]) == ("Completed", "Nothing new")
    assert verify_build(f"{tmp_path}/published/tpi-train/{latest.build}") == []


def test_scores_of_the_latest_release_are_new_once(tmp_path: Path, prefect_server: None) -> None:
    store = str(tmp_path / "store")
    few = {"targets.languages": ["en"], "targets.per_language": {"middle": 1}, "targets.silence": 1, "targets.noise": 1}
    name, message = run(deploy_sid_bench, store=store, profile="fake", overrides={**few, "report_rows": 2})
    assert (name, message.startswith("New release: ")) == ("Completed", True)
    form = {"store": store, "bench": f"{store}/sid-bench/latest", "detectors": "energy_vad"}
    form |= {"overrides": {"resamples": 100}}
    name, message = run(deploy_evaluate_sid, **form)
    assert (name, message.startswith(f"New evaluation: {store}/evaluations/sid-")) == ("Completed", True)
    name, message = run(deploy_evaluate_sid, **form)
    assert (name, message.startswith(f"Nothing new: {store}/evaluations/sid-")) == ("Completed", True)


def test_a_build_that_is_no_release(tmp_path: Path, prefect_server: None) -> None:
    form = make_form(tmp_path, release=False, overrides={"build": "trial"})
    where = f"{tmp_path}/store/tpi-train/trial"
    assert run(deploy_tpi_train, **form) == ("Completed", f"New build: {where}, 6 rows.")
    assert run(deploy_tpi_train, **form) == ("Completed", f"Nothing new: {where} is made of just this.")
    assert read_latest(open_store(f"{tmp_path}/store"), "tpi-train") is None


def test_files_lie_under_single_fields_and_over_those_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: None
) -> None:
    here, there, run_file = tmp_path / "here.yaml", tmp_path / "there.yaml", tmp_path / "run.yaml"
    here.write_text("seed: 5\nno_such_field: 1\n", "utf-8")
    there.write_text("max_waves: 0\n", "utf-8")
    run_file.write_text("seed: 6\nbuild: from-file\n", "utf-8")
    form = make_form(tmp_path, files=[str(run_file)], release=False)
    monkeypatch.setenv("BYSTANDER_CONFIG", os.pathsep.join([str(here), str(there)]))
    name, message = run(deploy_tpi_train, **form)
    assert name == "Failed"
    assert "no_such_field: no such field" in message
    assert "max_waves" in message
    monkeypatch.setenv("BYSTANDER_CONFIG", str(there))
    name, message = run(deploy_tpi_train, **{**form, "overrides": {**SMALL, "max_waves": 3}})
    assert (name, message) == ("Completed", f"New build: {tmp_path}/store/tpi-train/from-file, 6 rows.")
    assert read_manifest(open_store(f"{tmp_path}/store/tpi-train/from-file")).seed == 6


@pytest.mark.parametrize(
    ("flow", "form", "words"),
    [
        (deploy_tpi_train, {"store": "here", "profile": "fake"}, "store: 'here' cannot be a place; use an absolute"),
        (deploy_tpi_train, {"store": "/x", "profile": "huge"}, "profile: Input should be 'fake', 'laptop', 'paper'"),
        (deploy_tpi_train, {"store": "/x", "profile": "fake", "rowz": 1}, "rowz: no such field; there are"),
        (deploy_tpi_bench, {"store": "/x", "profile": "fake", "overrides": {"no.such": 1}}, "no: no such field"),
        (deploy_sid_bench, {"store": "/x", "profile": "fake", "files": ["nowhere.yaml"]}, "nowhere.yaml"),
        (deploy_evaluate_sid, {"store": "/x", "detectors": "ears"}, "ears"),
    ],
)
def test_mistakes_are_the_message_of_a_run_that_failed_once(
    flow: Flow[Any, Any], form: dict[str, Any], words: str, prefect_server: None, caplog: pytest.LogCaptureFixture
) -> None:
    (parameter,) = flow.parameters.properties
    state = flow(**{parameter: form}, return_state=True)
    assert (state.name, state.message is not None and words in state.message) == ("Failed", True)
    assert read_run(state).run_count == 1
    assert "Traceback" not in caplog.text


def fail_with(*faults: Exception) -> tuple[Flow[Any, Any], list[int]]:
    """Return a deployment's flow whose build fails so, one time after another, and then does its work."""
    tries: list[int] = []

    def build(config: Any) -> Any:
        tries.append(len(tries))
        if len(tries) <= len(faults):
            raise faults[len(tries) - 1]
        return run_build_tpi_train(config)

    @flow(name="flaky", validate_parameters=False)
    def flaky(build_: TpiTrainRun) -> State[Any]:
        return run_deployed_build(
            TpiTrainRun, build_, check_tpi_build, build, lambda form, config: resize(config, form.rows)
        )

    return flaky, tries


def test_what_may_be_over_in_a_minute_is_tried_again(tmp_path: Path, prefect_server: None) -> None:
    flaky, tries = fail_with(EngineUnavailableError("writer: is away"), EngineUnavailableError("writer: is away"))
    state = flaky(make_form(tmp_path, retries=2), return_state=True)
    assert (state.name, len(tries), read_run(state).run_count) == ("Completed", 3, 3)
    assert state.message is not None
    assert state.message.startswith("New release: ")


def test_retries_come_to_an_end(tmp_path: Path, prefect_server: None) -> None:
    flaky, tries = fail_with(*[EngineUnavailableError("writer: is away")] * 5)
    state = flaky(make_form(tmp_path, retries=1), return_state=True)
    assert (state.name, state.message, len(tries)) == ("Failed", "writer: is away", 2)


def test_what_would_only_fail_again_is_not_tried_again(tmp_path: Path, prefect_server: None) -> None:
    flaky, tries = fail_with(EngineUnavailableError("writer: is away"), EngineError("writer: has no such model"))
    state = flaky(make_form(tmp_path, retries=5), return_state=True)
    assert (state.name, state.message, len(tries)) == ("Failed", "writer: has no such model", 2)


def test_fewer_rows_than_asked_for_fail_only_where_all_are_required(tmp_path: Path, prefect_server: None) -> None:
    short = {"rows": 60}  # twenty queries, two scenarios
    name, message = run(deploy_tpi_train, **make_form(tmp_path, **short))
    assert (name, message.startswith("New release: ")) == ("Completed", True)
    name, message = run(deploy_tpi_train, **make_form(tmp_path, **short, require_all=True))
    assert (name, message.endswith("has fewer rows than were asked for, and all are required")) == ("Failed", True)


def test_two_runs_take_turns_at_a_dataset(prefect_server: None) -> None:
    store, dataset = "/data/store", "tpi-turns"
    first_in, first_out = threading.Event(), threading.Event()
    ended: list[str] = []

    @flow(name="turns", log_prints=False)
    def take_turn(name: str, work: Callable[[], None]) -> None:
        with dataset_turn(store, dataset):
            work()
            ended.append(name)

    def hold() -> None:
        first_in.set()
        first_out.wait(60)

    def look() -> None:
        assert ended == ["first"]

    threads = [threading.Thread(target=take_turn, args=("first", hold))]
    threads[0].start()
    assert first_in.wait(60)
    with get_client(sync_client=True) as client:
        assert client.read_global_concurrency_limit_by_name(name_limit(store, dataset)).active_slots == 1
    threads.append(threading.Thread(target=take_turn, args=("second", look)))
    threads[1].start()
    time.sleep(1)
    first_out.set()
    for thread in threads:
        thread.join(60)
    assert ended == ["first", "second"]
    assert name_limit(store, dataset) != name_limit(store, "tpi-bench") != name_limit("/other", "tpi-bench")


def test_a_growing_release_keeps_the_rows_of_the_one_before(tmp_path: Path, prefect_server: None) -> None:
    form = make_form(tmp_path, grow=True)  # nothing to grow from yet
    assert run(deploy_tpi_train, **form)[0] == "Completed"
    before = open_build(str(tmp_path / "store" / "tpi-train" / "latest"))
    write_queries(tmp_path / "queries.jsonl", 40)
    name, message = run(deploy_tpi_train, **{**form, "rows": 9})
    assert (name, message.startswith("New release: ")) == ("Completed", True)
    after = open_build(str(tmp_path / "store" / "tpi-train" / "latest"))
    old, new = ({row["id"]: row for row in read_rows(store)} for store in (before, after))
    assert (len(old), len(new)) == (6, 9)
    assert {row_id: new[row_id] for row_id in old} == old
    name, message = run(deploy_tpi_train, **{**form, "rows": 9})
    assert (name, message.startswith("Nothing new: ")) == ("Completed", True)
    assert read_manifest(after).on_top_of is not None


def read_rows(store: Store) -> list[dict[str, Any]]:
    """Return all published rows of a build, without their audio's file name."""
    files = [store.local_path(shard.file) for shard in read_manifest(store).shards]
    return [row for file in files for row in pq.read_table(file).to_pylist()]
