"""`prefect.yaml`: every deployment's flow, parameters and work pool are there."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from prefect import Flow

from bystander.schemas.config import load_bench_config, load_config
from bystander.schemas.evaluate_profiles import load_evaluate_config
from bystander.schemas.sid_config import SidBenchConfig, SidTrainConfig, load_sid_config

ROOT = Path(__file__).parents[2]
DEPLOYMENTS: list[dict[str, Any]] = yaml.safe_load((ROOT / "prefect.yaml").read_text("utf-8"))["deployments"]
FLOWS = {
    "build-tpi-train",
    "build-tpi-bench",
    "build-sid-bench",
    "build-sid-train",
    "evaluate-tpi",
    "evaluate-sid",
    "evaluate-voicebench",
}
LOADERS = {
    "build-tpi-train": load_config,
    "build-tpi-bench": load_bench_config,
    "build-sid-bench": lambda profile: load_sid_config(SidBenchConfig, profile),
    "build-sid-train": lambda profile: load_sid_config(SidTrainConfig, profile),
    "evaluate-tpi": load_evaluate_config,
}


def import_flow(deployment: dict[str, Any]) -> Flow[Any, Any]:
    module, _, name = deployment["entrypoint"].rpartition(".")
    flow = getattr(import_module(module), name)
    assert isinstance(flow, Flow)
    return flow


def test_every_flow_has_a_deployment_of_its_own_name() -> None:
    names = [(import_flow(deployment).name, deployment["name"]) for deployment in DEPLOYMENTS]
    assert {flow for flow, _ in names} == FLOWS
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: d["entrypoint"].rpartition(".")[2])
def test_entry_points_are_modules_and_parameters_fit(deployment: dict[str, Any]) -> None:
    assert ":" not in deployment["entrypoint"]  # a path would put its folder first on sys.path
    flow = import_flow(deployment)
    parameters = deployment["parameters"]
    jsonschema.validate(parameters, {**flow.parameters.model_dump(), "additionalProperties": False})
    flow.validate_parameters(parameters)
    if flow.name in LOADERS:
        LOADERS[flow.name](parameters["profile"])  # type: ignore[operator]  # of five kinds of configurations
    assert deployment["concurrency_limit"]["limit"] == 1


def test_nothing_is_pulled_and_nothing_runs_by_itself() -> None:
    whole = yaml.safe_load((ROOT / "prefect.yaml").read_text("utf-8"))
    assert whole["pull"] == []
    assert all("schedules" not in deployment for deployment in DEPLOYMENTS)


def test_a_worker_of_the_compose_file_serves_every_pool() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    served = set()
    for service in services.values():
        command = service.get("command") or []
        if "worker" in command:
            served.add(command[command.index("--pool") + 1])
    assert {deployment["work_pool"]["name"] for deployment in DEPLOYMENTS} <= served
