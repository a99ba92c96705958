"""Sees whether model servers are there before the work starts: minutes of retries would come before the error."""

from __future__ import annotations

import http.client
import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, getproxies, urlopen

from bystander.flows.listeners import current_listener
from bystander.schemas.addresses import list_addresses
from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.engine_configs import OpenAiAudioConfig
from bystander.schemas.errors import ConfigError
from bystander.schemas.speech_engine_configs import ChatterboxSpeechConfig
from bystander.schemas.text_engine_configs import OpenAiTextConfig, VllmBatchTextConfig, VllmTextConfig
from bystander.tasks.engines.endpoint_probe import find_other_models
from bystander.tasks.engines.vllm_batch_command import find_batch_program
from bystander.tasks.engines.vllm_command import find_program, locate_log

_TIMEOUT_S = 10.0
_MOST_CHECKED_AT_ONCE = 16


def check_model_server(config: EngineConfig, what: str = "text engine") -> None:
    """See whether a server answers, or could be started, and serves the model. Other engines have none.

    The listener is told of addresses that cannot be used now; one that can is enough.

    Raises:
        ConfigError: no address, none that answers, or one that serves other models; no such folder of a model.
        EngineSetupError: the program that is to be started is missing.
    """
    if isinstance(config, OpenAiTextConfig | OpenAiAudioConfig):
        _check_addresses(config, what)
    elif isinstance(config, VllmTextConfig):
        _check_program(config, what)
    elif isinstance(config, VllmBatchTextConfig):
        find_batch_program(config)
    elif isinstance(config, ChatterboxSpeechConfig) and config.endpoints:
        _check_speech_workers(config)


def _check_addresses(config: OpenAiTextConfig | OpenAiAudioConfig, what: str) -> None:
    addresses = list_addresses(config.base_url)
    for address in addresses:
        _check_form(address, what)
    if getproxies().keys() - {"no"}:
        return  # perhaps only a proxy reaches them
    key = os.environ.get(config.api_key_env, "") if config.api_key_env else "none"
    with ThreadPoolExecutor(min(len(addresses), _MOST_CHECKED_AT_ONCE)) as threads:
        found = list(threads.map(lambda address: _ask(address, key, config.model), addresses))
    for address, (_, others) in zip(addresses, found, strict=True):
        if others is not None:
            raise ConfigError(f"{what} at {address}: {others}; check `model` and `base_url`")
    faults = {address: fault for address, (fault, _) in zip(addresses, found, strict=True) if fault is not None}
    if len(faults) < len(addresses):
        for address, fault in faults.items():
            current_listener().on_phase(f"{what} at {address}: {fault}; it is left out until it answers")
    elif len(addresses) == 1:
        raise ConfigError(f"{what} at {addresses[0]}: {faults[addresses[0]]}; is it running there?")
    else:
        listed = "; ".join(f"{address}: {fault}" for address, fault in faults.items())
        raise ConfigError(f"{what}: none of its {len(addresses)} addresses answers ({listed}); are they running there?")


def _check_speech_workers(config: ChatterboxSpeechConfig) -> None:
    with ThreadPoolExecutor(min(len(config.endpoints), _MOST_CHECKED_AT_ONCE)) as threads:
        found = list(threads.map(_connect, config.endpoints))
    faults = {endpoint: fault for endpoint, fault in zip(config.endpoints, found, strict=True) if fault is not None}
    listed = "; ".join(f"{endpoint}: {fault}" for endpoint, fault in faults.items())
    if len(faults) == len(config.endpoints):
        raise ConfigError(
            f"speech workers: none of engines.speech.endpoints can be reached ({listed}); start them first"
        )
    if faults:
        current_listener().on_phase(f"speech workers: {listed}; left out until they answer")


def _connect(endpoint: str) -> str | None:
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S).close()
    except OSError as exc:
        return str(exc.strerror or exc)
    return None


def _check_form(address: str, what: str) -> None:
    try:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("no host")
        _ = parts.port
    except ValueError as exc:
        raise ConfigError(f"{what} at {address!r}: not an address; write it like http://localhost:8000/v1") from exc


def _ask(address: str, key: str, model: str) -> tuple[str | None, str | None]:
    """Return why a server cannot be reached, and what it serves instead of the model; None where it does well."""
    request = Request(f"{address.rstrip('/')}/models", headers={"Authorization": f"Bearer {key}"})
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as answer:
            return None, find_other_models(json.load(answer), model)
    except HTTPError:
        return None, None  # it is there; the first request says more
    except URLError as exc:
        reason = exc.reason
        return f"cannot be reached ({(isinstance(reason, OSError) and reason.strerror) or reason})", None
    except OSError as exc:
        return f"does not answer ({exc.strerror or exc})", None
    except (ValueError, http.client.HTTPException):
        return None, None


def _check_program(config: VllmTextConfig, what: str) -> None:
    find_program(config)
    if config.model.startswith(("/", "./", "../", "~")) and not Path(config.model).expanduser().is_dir():
        raise ConfigError(f"{what}: no folder {config.model}; give that of a model, or a model's name on a hub")
    count = f"{config.replicas} times " if config.replicas > 1 else ""
    log = locate_log(config, 0)
    current_listener().on_phase(f"{what}: vllm serve {config.model} starts {count}at the first call; its log is {log}")
