"""`prefect.yaml` and `automations.yaml`: every deployment's flow, parameters, schedule and work pool are there."""

from __future__ import annotations

import zoneinfo
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints
from uuid import uuid4

import jsonschema
import pytest
import yaml
from prefect import Flow
from prefect.client.schemas.schedules import CronSchedule
from prefect.events.schemas.automations import AutomationCore

from bystander.flows.deploy_steps import check_store
from bystander.flows.run_outcome import RELEASE_EVENT
from bystander.schemas.deployed_run import DeployedRun, parse_run

ROOT = Path(__file__).parents[2]
STORE = "/data/store"
WHOLE: dict[str, Any] = yaml.safe_load(
    (ROOT / "prefect.yaml").read_text("utf-8").replace("{{ $BYSTANDER_STORE }}", STORE)
)
DEPLOYMENTS: list[dict[str, Any]] = WHOLE["deployments"]
FLOWS = {
    "build-tpi-train",
    "build-tpi-bench",
    "build-sid-bench",
    "build-sid-train",
    "curate-real-world",
    "evaluate-tpi",
    "evaluate-sid",
    "evaluate-voicebench",
    "train-tpi",
    "train-sid",
}


def import_flow(deployment: dict[str, Any]) -> Flow[Any, Any]:
    module, _, name = deployment["entrypoint"].rpartition(".")
    flow = getattr(import_module(module), name)
    assert isinstance(flow, Flow)
    return flow


def find_model(flow: Flow[Any, Any]) -> tuple[str, type[DeployedRun]]:
    """Return the one parameter of a flow and its model."""
    hints = get_type_hints(flow.fn)
    hints.pop("return")
    ((name, model),) = hints.items()
    return name, model


def test_every_flow_has_a_deployment_of_its_own_name() -> None:
    names = [(import_flow(deployment).name, deployment["name"]) for deployment in DEPLOYMENTS]
    assert {flow for flow, _ in names} == FLOWS
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: d["entrypoint"].rpartition(".")[2])
def test_entry_points_are_modules_and_parameters_fit(deployment: dict[str, Any]) -> None:
    assert ":" not in deployment["entrypoint"]  # a path would put its folder first on sys.path
    flow = import_flow(deployment)
    parameters = deployment["parameters"]
    schema = flow.parameters.model_dump_for_openapi()
    jsonschema.validate(parameters, schema)
    name, model = find_model(flow)
    assert [*parameters] == [name]
    config = parse_run(model, parameters[name]).load([])  # type: ignore[attr-defined]  # of all ten kinds
    assert config.store == STORE
    parameters = {name: {**parameters[name], "store": ""}}
    with pytest.raises(jsonschema.ValidationError, match="does not match"):
        jsonschema.validate(parameters, schema)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: d["entrypoint"].rpartition(".")[2])
def test_schedules_wait_to_be_switched_on(deployment: dict[str, Any]) -> None:
    schedules = deployment.get("schedules", [])
    assert len(schedules) == ("training" not in deployment["tags"])
    for schedule in schedules:
        CronSchedule(cron=schedule["cron"], timezone=schedule["timezone"])
        zoneinfo.ZoneInfo(schedule["timezone"])
        assert schedule["slug"] in ("nightly", "weekly", "monthly")
        assert schedule["active"] is False  # `deploy --all` must not start a build of the paper's size
    assert deployment["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
    assert deployment["tags"][0] == "bystander"


def test_nothing_is_pulled() -> None:
    assert WHOLE["pull"] == []


@pytest.mark.parametrize("store", ["", "store", "./store"])
def test_nothing_is_deployed_without_a_store(store: str) -> None:
    with pytest.raises(SystemExit, match=f"error: BYSTANDER_STORE is {store!r}; set it to an absolute path or a URL"):
        check_store(store)
    check_store(STORE)


def test_triggers_wait_for_releases_of_datasets_that_are_built() -> None:
    built = {f"bystander.dataset.{name.removeprefix('build-')}" for name in FLOWS if name.startswith("build-")}
    triggers = [trigger for deployment in DEPLOYMENTS for trigger in deployment.get("triggers", [])]
    assert len(triggers) == 2
    for trigger in triggers:
        assert trigger["expect"] == [RELEASE_EVENT]
        assert trigger["match"]["prefect.resource.id"] in built


def test_automations_are_what_prefect_takes() -> None:
    text = (ROOT / "automations.yaml").read_text("utf-8").replace("NOTIFICATION_BLOCK", str(uuid4()))
    automations = [AutomationCore.model_validate(data) for data in yaml.safe_load(text)["automations"]]
    assert len({automation.name for automation in automations}) == len(automations) == 5
    assert all(automation.actions and automation.enabled for automation in automations)


def test_a_worker_of_the_compose_file_serves_every_pool() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    served = set()
    for service in services.values():
        command = service.get("command") or []
        if "worker" in command:
            served.add(command[command.index("--pool") + 1])
    assert {deployment["work_pool"]["name"] for deployment in DEPLOYMENTS} <= served
