"""Finds the mistakes in a task runner's settings before Prefect starts. Imports nothing that is slow to load."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from importlib.util import find_spec
from ipaddress import ip_address
from typing import get_args
from urllib.parse import urlsplit

from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.engines import EngineRole
from bystander.schemas.errors import ConfigError, EngineSetupError
from bystander.schemas.runner_configs import DEFAULT, DaskRunnerConfig, RayRunnerConfig, TaskRunnerConfig
from bystander.tasks.stages import get_stage

_CONNECT_TIMEOUT_S = 10.0
_PORTS = {"ray": 10001, "tcp": 8786, "tls": 8786, "": 6379}


def check_runner(runner: TaskRunnerConfig, engines: Iterable[EngineConfig] = ()) -> None:
    """Raise what would stop a flow when it sends its first stage run to a cluster.

    Raises:
        EngineSetupError: the package of the task runner is not installed.
        ConfigError: an engine can be opened by one process only, the cluster's address is none, nothing listens there,
            its workers could not report to Prefect, or resources are named for what is neither a stage nor a role.
    """
    if not isinstance(runner, RayRunnerConfig | DaskRunnerConfig):
        return
    if find_spec(f"prefect_{runner.runner}") is None:
        raise EngineSetupError(
            f"runner {runner.runner}: the package prefect-{runner.runner} is not installed; "
            f"pip install 'bystander[{runner.runner}]'"
        )
    for engine in engines:
        if engine.ONE_PROCESS:
            kind = engine.model_dump()["engine"]
            raise ConfigError(
                f"engine {kind}: every worker process of runner {runner.runner} would start vLLM anew; start "
                "`vllm serve` yourself and name it with engine: openai, or use runner: threads"
            )
    roles = (DEFAULT, *get_args(EngineRole))
    for name in runner.resources:
        if name not in roles and not _is_stage(name):
            raise ConfigError(
                f"runner.resources.{name}: is no stage, and no role of an engine either; roles are {', '.join(roles)}"
            )
    if runner.address is None or runner.address == "auto":
        return
    host = _reach(runner.runner, runner.address)
    if not _is_this_machine(host) and not _has_prefect_server():
        raise ConfigError(
            f"runner.address {runner.address}: workers on other machines report to a Prefect server that all of them "
            "reach; start one (`prefect server start --host 0.0.0.0`) and name it in PREFECT_API_URL"
        )


def _is_stage(name: str) -> bool:
    try:
        return get_stage(name).name == name
    except (ImportError, AttributeError):
        return False


def _reach(kind: str, address: str) -> str:
    """Return the host of a cluster's address at which something listens."""
    example = "ray://head:10001 or head:6379" if kind == "ray" else "tcp://scheduler:8786"
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        port = parts.port or _PORTS[parts.scheme]
        if not parts.hostname:
            raise ValueError("no host")
    except (ValueError, KeyError) as exc:
        raise ConfigError(f"runner.address {address!r}: not an address; write it like {example}") from exc
    try:
        socket.create_connection((parts.hostname, port), _CONNECT_TIMEOUT_S).close()
    except OSError as exc:
        raise ConfigError(
            f"runner.address {address}: no {kind.capitalize()} cluster can be reached there ({exc.strerror or exc}); "
            "is it running?"
        ) from exc
    return parts.hostname


def _is_this_machine(host: str) -> bool:
    try:
        return all(ip_address(found[4][0]).is_loopback for found in socket.getaddrinfo(host, None))
    except (OSError, ValueError):
        return False


def _has_prefect_server() -> bool:
    if os.environ.get("PREFECT_API_URL"):
        return True
    from prefect.settings import PREFECT_API_URL  # it may be in a profile of Prefect's

    return bool(PREFECT_API_URL.value())
