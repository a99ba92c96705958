"""The same bytes from threads, Ray and Dask; a worker process that dies costs no more than its stage run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from bystander.schemas.errors import CorruptPartError, EngineSetupError
from bystander.schemas.runner_configs import DaskRunnerConfig, RayRunnerConfig
from bystander.schemas.stage_job import StageJob
from bystander.storage.part_use import BASES_FOLDER
from bystander.storage.parts import Partition, write_part_by_content
from bystander.storage.query_files import read_queries
from bystander.tasks.environment import open_environment
from bystander.tasks.run_stage import accept_report, name_process
from bystander.tasks.stages import get_stage
from plain_chat import PlainChat, write_plain_pack
from tasks.engines.scripted_chat_server import Scripted, ScriptedChatServer, serve_script
from tpi_builds import Built, build, make_config, write_queries

pytestmark = pytest.mark.usefixtures("prefect_server")

PATIENCE_S = 120
MAX_IN_FLIGHT = 4
SCENARIOS = ["endorsement", "recall_assistance", "simple_correction_with_alternative", "priority_alert"]
KINDS = ("ray", "dask")


class KillingChat(PlainChat):
    """Kills, at its `kill_at`th call, the workers that are connected to it: one of them waits for the answer."""

    def __init__(self) -> None:
        super().__init__(delay_s=0.0)
        self.kill_at = 0
        self.killed: list[int] = []
        self.port = 0

    def __call__(self, body: dict[str, Any], number: int) -> Scripted:
        if number + 1 == self.kill_at:
            asking = {
                process.pid
                for process in psutil.Process().children(recursive=True)
                if any(there.raddr and there.raddr.port == self.port for there in process.net_connections("tcp"))
            }
            self.killed += asking
            for pid in asking:
                psutil.Process(pid).kill()
        return super().__call__(body, number)


@dataclass
class Bench:
    """Small builds with texts from a server that counts its calls, and with authored ones."""

    folder: Path
    chat: KillingChat
    server: ScriptedChatServer
    queries: Path
    pack: Path

    def build_from_server(self, name: str, **fields: Any) -> Built:
        writer = {
            "engine": "openai",
            "base_url": self.server.base_url,
            "model": "plain",
            "max_in_flight": MAX_IN_FLIGHT,
        }
        self.server.bodies.clear()
        return self._build(name, pack=str(self.pack), engines__writer=writer, **fields)

    def build_from_playbook(self, name: str, **fields: Any) -> Built:
        return self._build(name, engines__writer={"engine": "playbook"}, **fields)

    def list_calls(self) -> Counter[str]:
        return Counter(json.dumps([one["messages"], one["seed"], one.get("logprobs")]) for one in self.server.bodies)

    def _build(self, name: str, **fields: Any) -> Built:
        settings = {
            "stages__draw_scenarios__scenarios": SCENARIOS,
            "stages__write_replies__guided_openings": False,
            "partition_rows": 6,
            "report_rows": 0,
            "build": "same",
            **fields,
        }
        return build(make_config(self.folder / name, self.queries, rows=8, **settings))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    chat = KillingChat()
    with serve_script(chat) as server:
        chat.port = int(server.base_url.split(":")[2].split("/")[0])
        yield Bench(folder, chat, server, write_queries(folder / "q.jsonl", 16), write_plain_pack(folder / "plain"))


@pytest.fixture(scope="module")
def from_server(bench: Bench) -> tuple[Built, Counter[str]]:
    built = bench.build_from_server("threads-2", workers=2)
    return built, bench.list_calls()


@pytest.fixture(scope="module")
def from_playbook(bench: Bench) -> Built:
    return bench.build_from_playbook("playbook-threads-1", workers=1)


@dataclass(frozen=True)
class Cluster:
    """Two worker processes, started as a build starts them."""

    config: dict[str, Any]
    """Sends the stage runs of a build there."""
    two_gpus: dict[str, float]
    submit: Any


@contextmanager
def start_ray() -> Iterator[Cluster]:
    """Start a cluster that other runs of this process find."""
    pytest.importorskip("prefect_ray")
    from bystander.flows.ray_workers import open_workers

    with open_workers(RayRunnerConfig(num_gpus=2), 2) as submit:
        yield Cluster({"runner": "ray"}, {"num_gpus": 2}, submit)


@contextmanager
def start_dask() -> Iterator[Cluster]:
    pytest.importorskip("prefect_dask")
    from bystander.flows.dask_workers import open_workers

    with open_workers(DaskRunnerConfig(offers={"GPU": 2}), 2) as submit:
        yield Cluster({"runner": "dask", "address": submit.runner.client.scheduler.address}, {"GPU": 2}, submit)


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest, prefect_server: None) -> Iterator[Cluster]:
    with {"ray": start_ray, "dask": start_dask}[request.param]() as started:
        yield started


# Half a minute each: by default one of the clusters loses processes; that bytes are the same on both is seen below.
@pytest.mark.parametrize("cluster", [pytest.param("ray", marks=pytest.mark.slow), "dask"], indirect=True)
def test_a_process_that_dies_costs_its_stage_run_and_no_byte(
    bench: Bench, cluster: Cluster, from_server: tuple[Built, Counter[str]]
) -> None:
    expected, calls = from_server
    bench.chat.killed.clear()
    bench.chat.kill_at = sum(calls.values()) // 2
    built = bench.build_from_server(f"{cluster.config['runner']}-2", workers=2, runner=cluster.config)
    bench.chat.kill_at = 0
    died = sum("died" in phase and phase.endswith("trying again now") for phase in built.heard.phases)
    assert 1 <= died <= len(bench.chat.killed) <= 2, built.heard.phases
    assert built.checksums == expected.checksums
    repeated = bench.list_calls() - calls
    assert sum(repeated.values()) <= 2 * MAX_IN_FLIGHT
    assert not calls - bench.list_calls()
    assert built.heard.made == expected.heard.made
    assert all(result.rows_in == result.rows_kept + result.rows_rejected for _, result, _ in built.heard.results)


def test_counts_of_other_processes_are_told(
    bench: Bench, cluster: Cluster, from_server: tuple[Built, Counter[str]]
) -> None:
    expected, _ = from_server
    built = bench.build_from_server(f"{cluster.config['runner']}-1", workers=1, runner=cluster.config)
    assert built.checksums == expected.checksums
    assert built.outcome.summary[1:] == expected.outcome.summary[1:]
    assert any(line.startswith("writer: ") and ", 0 remembered." in line for line in built.outcome.summary)


@pytest.mark.slow  # that the bytes are the same is seen above too, with texts of a server
@pytest.mark.parametrize("workers", [1, 2])
def test_authored_texts_give_the_same_bytes(bench: Bench, cluster: Cluster, from_playbook: Built, workers: int) -> None:
    name = f"playbook-{cluster.config['runner']}-{workers}"
    built = bench.build_from_playbook(name, workers=workers, runner=cluster.config)
    assert built.checksums == from_playbook.checksums
    assert built.heard.made == from_playbook.heard.made


def test_unchanged_rebuild_starts_no_cluster(bench: Bench, from_playbook: Built, monkeypatch: Any) -> None:
    monkeypatch.setattr("bystander.flows.stage_workers.import_module", None)
    monkeypatch.setattr("bystander.flows.check_runner.find_spec", lambda name: name)
    again = bench.build_from_playbook("playbook-threads-1", runner={"runner": "ray"})
    assert not again.heard.made
    assert again.outcome.manifest == from_playbook.outcome.manifest


def make_job(bench: Bench, name: str) -> tuple[StageJob, Partition]:
    """Return the job of a fake build, and queries for its first stage."""
    config = make_config(bench.folder / name, bench.queries)
    job = StageJob.of(config)
    environment = open_environment(job)
    rows = pa.concat_tables(read_queries(config.queries)).slice(0, 1).combine_chunks()
    return job, Partition(write_part_by_content(environment.store, BASES_FOLDER, rows))


def test_lost_part_is_named_across_processes(bench: Bench, cluster: Cluster) -> None:
    job, partition = make_job(bench, f"lost-{cluster.config['runner']}")
    open_environment(job).store.remove(partition.base.path)
    error = cluster.submit("normalise_queries", "p", partition, job).result(raise_on_failure=False)
    assert isinstance(error, CorruptPartError), error
    assert error.path == partition.base.path


def test_engines_stay_open_in_a_process_of_their_own(bench: Bench, cluster: Cluster) -> None:
    """A stage run that occupies all GPUs goes to one process; Ray keeps that for such stage runs."""
    job, partition = make_job(bench, f"group-{cluster.config['runner']}")
    submit = type(cluster.submit)(cluster.submit.runner, ask(cluster, "normalise_queries"), cluster.submit.url)
    reports = [submit("normalise_queries", f"p{i}", partition, job).result() for i in range(2)]
    for report in reports:
        assert accept_report(report, get_stage("normalise_queries"), open_environment(job)).rows_kept == 1
        assert report.process != name_process()
    if cluster.config["runner"] == "ray":
        plain = cluster.submit("normalise_queries", "p", partition, job).result()
        assert reports[0].process == reports[1].process != plain.process


def ask(cluster: Cluster, name: str, times: float = 1) -> Any:
    asked = {key: amount * times for key, amount in cluster.two_gpus.items()}
    kind: Any = RayRunnerConfig if cluster.config["runner"] == "ray" else DaskRunnerConfig
    return kind(resources={name: asked})


def test_more_than_any_worker_has_is_refused_at_once(cluster: Cluster) -> None:
    with pytest.raises(EngineSetupError, match=r"runner\.resources\.speech: no.* GPU 4; the most that one .*GPU 2"):
        type(cluster.submit)(cluster.submit.runner, ask(cluster, "speech", 2), cluster.submit.url)
