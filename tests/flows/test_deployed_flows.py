"""The flows of deployments: a profile and overrides in, a build out, and mistakes as the message of a failed run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from prefect import Flow

from bystander.flows import deployed_flows
from bystander.flows.deployed_flows import deploy_evaluate_sid, deploy_sid_bench, deploy_tpi_bench, deploy_tpi_train
from bystander.storage.build_manifest import read_manifest
from bystander.storage.filesystem import open_store
from bystander.storage.verify_build import verify_build
from tpi_builds import write_queries

SMALL = {"stages.draw_scenarios.scenarios": ["endorsement", "alignment"], "report_rows": 2}


def run(flow: Flow[Any, Any], **parameters: Any) -> tuple[str, str]:
    """Return name and message of a run's final state."""
    state = flow(**parameters, return_state=True)
    return state.name, state.message


def test_build_from_a_profile(tmp_path: Path, prefect_server: None) -> None:
    overrides = {**SMALL, "queries.path": str(write_queries(tmp_path / "queries.jsonl", 20)), "build": "deployed"}
    name, where = run(deploy_tpi_train, store=str(tmp_path / "store"), profile="fake", rows=6, overrides=overrides)
    assert (name, where) == ("Completed", str(tmp_path / "store" / "tpi-train" / "deployed"))
    manifest = read_manifest(open_store(where))
    assert (manifest.counts.rows, manifest.config["profile"]) == (6, "fake")
    assert verify_build(where) == []


def test_files_lie_under_overrides(tmp_path: Path, prefect_server: None) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("seed: 5\nbuild: from-file\nstages: {draw_scenarios: {scenarios: [endorsement]}}\n", "utf-8")
    overrides = {"queries.path": str(write_queries(tmp_path / "queries.jsonl", 20)), "seed": 6, "report_rows": 2}
    name, where = run(
        deploy_tpi_train,
        store=str(tmp_path / "store"),
        profile="fake",
        rows=3,
        overrides=overrides,
        files=[str(settings)],
    )
    assert (name, Path(where).name) == ("Completed", "from-file")
    assert read_manifest(open_store(where)).seed == 6


def test_files_of_the_worker_lie_under_those_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: None
) -> None:
    here, there = tmp_path / "here.yaml", tmp_path / "there.yaml"
    here.write_text("seed: 5\nno_such_field: 1\n", "utf-8")
    there.write_text("max_waves: 0\n", "utf-8")
    monkeypatch.setenv("BYSTANDER_CONFIG", os.pathsep.join([str(here), str(there)]))
    name, message = run(deploy_tpi_train, store=str(tmp_path), profile="fake")
    assert name == "Failed"
    assert "no_such_field: no such field" in message
    assert "max_waves" in message
    monkeypatch.setenv("BYSTANDER_CONFIG", str(there))
    name, message = run(deploy_tpi_train, store="x", profile="fake", overrides={"max_waves": 1})
    assert message.startswith("store 'x'")


@pytest.mark.parametrize(
    ("flow", "parameters", "words"),
    [
        (deploy_tpi_train, {"store": "here", "profile": "fake"}, "store 'here': name an absolute path or a URL"),
        (deploy_tpi_train, {"store": "", "profile": "fake"}, "store '': name an absolute path or a URL"),
        (deploy_tpi_train, {"store": "/x", "profile": "huge"}, "no profile 'huge'; there are fake, laptop, paper"),
        (deploy_tpi_bench, {"store": "/x", "profile": "fake", "overrides": {"no.such": 1}}, "no: no such field"),
        (deploy_sid_bench, {"store": "/x", "profile": "fake", "files": ["nowhere.yaml"]}, "nowhere.yaml"),
        (deploy_evaluate_sid, {"store": "/x", "detectors": "ears"}, "ears"),
    ],
)
def test_mistakes_are_the_message_of_a_failed_run(
    flow: Flow[Any, Any], parameters: dict[str, Any], words: str, prefect_server: None
) -> None:
    name, message = run(flow, **parameters)
    assert name == "Failed"
    assert words in message
    assert "Traceback" not in message


def test_store_of_overrides_gives_way_to_the_parameter(tmp_path: Path, prefect_server: None) -> None:
    name, message = run(deploy_tpi_train, store="here", profile="fake", overrides={"store": str(tmp_path)})
    assert (name, message.startswith("store 'here'")) == ("Failed", True)


def test_parameters_say_what_they_are() -> None:
    flows = [value for value in vars(deployed_flows).values() if isinstance(value, Flow)]
    assert len(flows) == 7
    for flow in flows:
        for parameter, schema in flow.parameters.properties.items():
            assert schema.get("description"), f"{flow.name}: {parameter} is not described"
