"""Deployments as a data engineer runs them: a server, pools, workers, `deploy --all`, by hand, by schedule, cancelled.

What is deployed is `prefect.yaml` itself, with small sizes laid over its parameters. docs/schedules.md describes the
same commands.
"""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import psutil
import pytest
import yaml

from bystander.storage.filesystem import open_store
from bystander.storage.releases import open_build, read_latest
from bystander.storage.verify_build import verify_build
from prefect_machines import PrefectMachines, wait_until
from tpi_builds import write_queries

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TRAIN, BENCH, SID = "build-tpi-train/paper", "build-tpi-bench/paper", "build-sid-bench/laptop"
PATIENCE_S = 600.0
"""For machines that are busy with other things; on a quiet one, nothing takes a tenth of it."""
FAR_AWAY = "Pacific/Kiritimati"
"""14 hours ahead of UTC: for most of the day, its date is another one."""


class Mailbox(http.server.ThreadingHTTPServer):
    """Where a notification block sends to."""

    def __init__(self) -> None:
        letters: list[dict[str, str]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                letters.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        super().__init__(("127.0.0.1", 0), Handler)
        self.letters = letters

    def find(self, words: str) -> list[str]:
        return [letter["body"] for letter in self.letters if words in letter["subject"]]


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    with Mailbox() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("schedules")


@pytest.fixture(scope="module")
def store(folder: Path) -> Path:
    return folder / "store"


def make_form(store: Path, **fields: Any) -> dict[str, Any]:
    """Return the parameters of a small TPI build."""
    queries = store.parent / "queries.jsonl"
    overrides = {"stages.draw_scenarios.scenarios": ["endorsement", "alignment"], "report_rows": 2}
    overrides |= fields.pop("overrides", {})
    return {"profile": "fake", "store": str(store), "rows": 6, "queries": str(queries), "overrides": overrides} | fields


def write_deployments(folder: Path, store: Path) -> Path:
    """Write `prefect.yaml` with small parameters laid over its own. SID-train goes to a machine that will die."""
    whole = yaml.safe_load((ROOT / "prefect.yaml").read_text("utf-8"))
    sid = {"overrides": {"targets.languages": ["en"], "targets.per_language": {"middle": 1}, "targets.silence": 1}}
    sid["overrides"] |= {"targets.noise": 1, "report_rows": 2}
    small: dict[str, dict[str, Any]] = {
        "deploy_tpi_train": make_form(store),
        "deploy_tpi_bench": {**make_form(store), "disjoint_from": []},
        "deploy_sid_bench": {"profile": "fake", **sid},
        "deploy_sid_train": {"profile": "fake", **sid},
        "deploy_evaluate_tpi": {"profile": "fake"},
        "deploy_evaluate_sid": {"detectors": "energy_vad", "overrides": {"resamples": 100}},
        "deploy_evaluate_voicebench": {},
    }
    for deployment in whole["deployments"]:
        name = deployment["entrypoint"].rpartition(".")[2]
        (parameter,) = deployment["parameters"]
        deployment["parameters"][parameter] |= {**small[name], "store": "{{ $BYSTANDER_STORE }}"}
        pool = "gpu" if name == "deploy_sid_train" else "cpu"
        deployment["work_pool"] = {**deployment["work_pool"], "name": pool}
    path = folder / "prefect.yaml"
    path.write_text(yaml.safe_dump(whole), "utf-8")
    return path


@pytest.fixture(scope="module")
def machines(folder: Path, store: Path, mailbox: Mailbox) -> Iterator[PrefectMachines]:
    write_queries(folder / "queries.jsonl", 40)
    environment = {
        "BYSTANDER_STORE": str(store),
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "PREFECT_SERVER_CONCURRENCY_INITIAL_LEASE_TIMEOUT": "60",
    }
    machines = PrefectMachines(folder, **environment)
    try:
        for pool in ("cpu", "gpu"):
            machines.prefect("work-pool", "create", pool, "--type", "process")
        write_deployments(folder, store)
        machines.prefect("deploy", "--all")
        create_automations(machines, folder, mailbox)
        machines.start_worker("machine-a", "cpu")
        yield machines
    finally:
        machines.close()


def create_automations(machines: PrefectMachines, folder: Path, mailbox: Mailbox) -> None:
    """Make the block that sends to the mailbox, and create `automations.yaml`, which then waits less."""
    kind = next(kind for kind in machines.find("block_types") if kind["slug"] == "custom-webhook")
    schema = machines.find("block_schemas", block_schemas={"block_type_id": {"any_": [kind["id"]]}})[0]
    letter = {"subject": "{{subject}}", "body": "{{body}}"}
    data = {"name": "mailbox", "url": f"http://127.0.0.1:{mailbox.server_port}/", "json_data": letter}
    document = {"name": "bystander", "data": data, "block_schema_id": schema["id"], "block_type_id": kind["id"]}
    block = machines.create("block_documents", document)["id"]
    text = (ROOT / "automations.yaml").read_text("utf-8").replace("NOTIFICATION_BLOCK", block)
    path = folder / "automations.yaml"
    path.write_text(text.replace("within: 600", "within: 45"), "utf-8")
    assert "Created 5 automation(s)" in machines.prefect("automation", "create", "--from-file", str(path))


def read_build(store: Path, dataset: str) -> str | None:
    release = read_latest(open_store(str(store)), dataset)
    return release.build if release else None


def test_all_is_deployed_and_nothing_runs_by_itself(machines: PrefectMachines) -> None:
    deployments = machines.find("deployments")
    assert len(deployments) == 7
    for deployment in deployments:
        (schedule,) = deployment["schedules"]
        assert (schedule["active"], schedule["schedule"]["timezone"]) == (False, "Europe/Berlin")
        assert "bystander" in deployment["tags"]
        assert deployment["global_concurrency_limit"]["limit"] == 1
        assert deployment["concurrency_options"]["collision_strategy"] == "ENQUEUE"
    assert machines.find("flow_runs", flow_runs={"state": {"type": {"any_": ["SCHEDULED"]}}}) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rows": 0}, "'build.rows'. Failure reason: 0 is less than the minimum of 1"),
        ({"rows": "many"}, "'build.rows'. Failure reason: 'many' is not"),
        ({"rowz": 5}, "Additional properties are not allowed ('rowz' was unexpected)"),
        ({"profile": "huge"}, "'build.profile'. Failure reason: 'huge' is not one of ['fake', 'laptop', 'paper'"),
        ({"store": "here"}, "'build.store'. Failure reason: 'here' does not match"),
    ],
)
def test_wrong_parameters_are_refused_by_name(
    machines: PrefectMachines, store: Path, fields: dict[str, Any], words: str
) -> None:
    form = json.dumps({**make_form(store), **fields})
    said = machines.prefect("deployment", "run", TRAIN, "--param", f"build={form}", code=1)
    assert words in said
    assert "Traceback" not in said


def test_nothing_is_deployed_without_a_store(machines: PrefectMachines) -> None:
    machines.environment["BYSTANDER_STORE"] = ""
    try:
        said = machines.prefect("deploy", "--all", code=1)
    finally:
        machines.environment["BYSTANDER_STORE"] = str(machines.folder / "store")
    assert "error: BYSTANDER_STORE is ''; set it to an absolute path or a URL" in said
    assert "Traceback" not in said


def test_run_by_hand_then_nothing_new_then_a_failure(machines: PrefectMachines, store: Path, mailbox: Mailbox) -> None:
    first = machines.wait_for_end(machines.start_run(TRAIN))
    build = read_build(store, "tpi-train")
    where = f"{store}/tpi-train/{build}"
    assert (first["state_name"], first["state"]["message"]) == ("Completed", f"New release: {where}, 6 rows.")
    assert verify_build(where) == []
    # A run by hand is dated in the time zone of the deployment's schedule.
    planned = datetime.fromisoformat(first["expected_start_time"]).astimezone(ZoneInfo("Europe/Berlin"))
    assert build == planned.date().isoformat()
    assert first["name"] == f"paper {build}"
    (page,) = machines.find("artifacts", artifacts={"flow_run_id": {"any_": [first["id"]]}})
    assert (page["key"], page["description"]) == ("tpi-train-outcome", first["state"]["message"])
    (letter,) = wait_until(lambda: mailbox.find(f"tpi-train: new release {build}"), PATIENCE_S)
    assert f"6 rows at {where}" in letter

    second = machines.wait_for_end(machines.start_run(TRAIN))
    message = f"Nothing new: {where} is made of just this."
    assert (second["state_name"], second["state"]["message"]) == ("Completed", message)
    assert read_build(store, "tpi-train") == build
    below = machines.find("flow_runs", flow_runs={"parent_flow_run_id": {"any_": [second["id"]]}})
    assert [run["total_run_time"] < 20 for run in below] == [True]

    failed = machines.wait_for_end(machines.start_run(TRAIN, make_form(store, queries="/nowhere.jsonl")))
    message = "queries /nowhere.jsonl: there is no such file"
    assert (failed["state_name"], failed["state"]["message"], failed["run_count"]) == ("Failed", message, 1)
    assert "Traceback" not in machines.read_logs(failed["id"])
    assert read_build(store, "tpi-train") == build
    (letter,) = wait_until(lambda: mailbox.find("build-tpi-train/paper: Failed"), PATIENCE_S)
    assert message in letter
    assert len(mailbox.find("new release")) == 1


def test_run_by_schedule(machines: PrefectMachines, store: Path) -> None:
    words = ("deployment", "schedule", "create", BENCH, "--cron", "* * * * *", "--timezone", FAR_AWAY)
    machines.prefect(*words)
    deployment = machines.read(f"deployments/name/{BENCH}")
    schedule = next(item for item in deployment["schedules"] if item["schedule"]["timezone"] == FAR_AWAY)
    mine = {"deployments": {"id": {"any_": [deployment["id"]]}}}
    run = wait_until(
        lambda: machines.find("flow_runs", **mine, flow_runs={"state": {"type": {"any_": ["COMPLETED"]}}}), PATIENCE_S
    )[0]
    machines.prefect("deployment", "schedule", "delete", BENCH, schedule["id"], "--accept-yes")
    assert run["auto_scheduled"] is True
    planned = datetime.fromisoformat(run["expected_start_time"]).astimezone(ZoneInfo(FAR_AWAY))
    assert (read_build(store, "tpi-bench") or "").startswith(planned.date().isoformat())
    assert run["state"]["message"].startswith("New release: ")
    remaining = machines.read(f"deployments/name/{BENCH}")["schedules"]
    assert [item["slug"] for item in remaining] == ["weekly"]


def test_cancelled_run_is_resumed(machines: PrefectMachines, store: Path) -> None:
    slow = {"dataset": "tpi-slow", "partition_rows": 4, "engines.speech.seconds_per_clip": 1}
    run = machines.start_run(TRAIN, make_form(store, rows=24, overrides=slow))

    def list_spoken() -> set[str]:
        below = machines.find("flow_runs", flow_runs={"parent_flow_run_id": {"any_": [run]}})
        found = {"flow_runs": {"id": {"any_": [each["id"] for each in below]}}}
        done = {"name": {"like_": "synthesise_speech"}, "state": {"type": {"any_": ["COMPLETED"]}}}
        return {task["name"] for task in machines.find("task_runs", **found, task_runs=done)} if below else set()

    wait_until(list_spoken, PATIENCE_S)
    processes = machines.find_processes(run)
    assert processes
    machines.prefect("flow-run", "cancel", run)
    assert machines.wait_for_end(run)["state_name"] == "Cancelled"
    assert psutil.wait_procs(processes, timeout=60)[1] == []
    assert read_build(store, "tpi-slow") is None
    time.sleep(5)  # records of task runs arrive in batches
    spoken = list_spoken()

    machines.prefect("flow-run", "retry", run)
    ended = wait_until(lambda: completed(machines, run), PATIENCE_S)
    assert ended["run_count"] == 2
    again = list_spoken() - spoken
    below = machines.find("flow_runs", flow_runs={"parent_flow_run_id": {"any_": [run]}}, sort="START_TIME_DESC")
    assert [each["state_name"] for each in below] == ["Completed", "Cancelled"]
    newest = {"flow_runs": {"id": {"any_": [below[0]["id"]]}}}
    repeated = {task["name"] for task in machines.find("task_runs", **newest)} & spoken
    assert repeated == set(), "partitions that were spoken before the run was cancelled were spoken again"
    assert again
    build = read_build(store, "tpi-slow")
    assert verify_build(f"{store}/tpi-slow/{build}") == []
    assert open_store(str(store)).list_folders("tpi-slow") == [build]


def completed(machines: PrefectMachines, run: str) -> dict[str, Any] | None:
    found = machines.read(f"flow_runs/{run}")
    return found if found["state_type"] == "COMPLETED" else None


def test_a_released_bench_is_scored(machines: PrefectMachines, store: Path) -> None:
    built = machines.wait_for_end(machines.start_run(SID))
    assert built["state"]["message"].startswith("New release: ")
    deployment = machines.read("deployments/name/evaluate-sid/detectors")
    (run,) = wait_until(
        lambda: machines.find("flow_runs", deployments={"id": {"any_": [deployment["id"]]}}), PATIENCE_S
    )
    scored = machines.wait_for_end(run["id"])
    assert (scored["state_name"], scored["state"]["message"][:16]) == ("Completed", "New evaluation: ")
    assert open_build(f"{store}/sid-bench/latest").exists("manifest.json")


def test_run_of_a_machine_that_is_gone(machines: PrefectMachines, store: Path, mailbox: Mailbox) -> None:
    machines.start_worker("machine-b", "gpu")
    slow = {"engines.speech.seconds_per_clip": 100}
    form = {"profile": "fake", "store": str(store), "overrides": {"dataset": "sid-gone", **slow}}
    run = machines.start_run("build-sid-train/laptop", form)
    beats = {"event": {"name": ["prefect.flow-run.heartbeat"]}, "resource": {"id": [f"prefect.flow-run.{run}"]}}
    wait_until(lambda: machines.count_events(beats), PATIENCE_S)
    machines.kill("machine-b")
    ended = machines.wait_for_end(run, PATIENCE_S)
    assert ended["state_type"] == "CRASHED"
    assert ended["state"]["message"].startswith("Nothing was heard of this run")
    wait_until(lambda: mailbox.find("build-sid-train/laptop: Crashed"), PATIENCE_S)
