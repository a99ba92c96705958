"""The flows that deployments serve: parameters that fit into a form, from which the configuration is loaded.

A configuration as a flow's parameter has some hundred fields, engines among them that nothing stands in for. Here a
profile gives them, as on the command line: `profile`, then YAML `files` that the worker can read, then dotted
`overrides`. The run that is scheduled checks them; the build or evaluation itself is a run below it, on the task runner
of its configuration.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, TypeVar

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from pydantic import Field

from bystander.flows.build_sid_bench import run_build_sid_bench
from bystander.flows.build_sid_train import run_build_sid_train
from bystander.flows.build_tpi_bench import run_build_tpi_bench
from bystander.flows.build_tpi_train import run_build_tpi_train
from bystander.flows.check_evaluate_sid import check_evaluate_sid
from bystander.flows.check_evaluate_tpi import check_evaluate_tpi
from bystander.flows.check_evaluate_voicebench import check_evaluate_voicebench
from bystander.flows.check_sid import check_sid_build
from bystander.flows.check_tpi_train import check_tpi_build
from bystander.flows.evaluate_sid import run_evaluate_sid
from bystander.flows.evaluate_tpi import run_evaluate_tpi
from bystander.flows.evaluate_voicebench import run_evaluate_voicebench
from bystander.flows.listeners import listening
from bystander.flows.log_listener import LogListener
from bystander.flows.pack_targets import fit_to_pack
from bystander.schemas.build_config import BuildConfig
from bystander.schemas.config import load_bench_config, load_config, resize
from bystander.schemas.detector_configs import parse_detectors
from bystander.schemas.errors import ConfigError, UserError
from bystander.schemas.evaluate_profiles import load_evaluate_config
from bystander.schemas.evaluate_sid_config import load_sid_evaluation_config
from bystander.schemas.evaluate_voicebench_config import load_voicebench_config
from bystander.schemas.evaluation_settings import EvaluationSettings
from bystander.schemas.field_types import MAX_ROWS
from bystander.schemas.sid_config import SidBenchConfig, SidTrainConfig, load_sid_config

Rows = Annotated[int | None, Field(ge=1, le=MAX_ROWS)]
PLACE_VARIABLE = "BYSTANDER_CONFIG"
"""Environment variable of a worker that names YAML files, parted as on PATH: what holds where it runs, such as the
addresses of engines. They are laid over the profile, below the files and overrides of a run."""

_Config = TypeVar("_Config", bound=BuildConfig | EvaluationSettings)


@flow(name="build-tpi-train", flow_run_name="tpi-train-{profile}", validate_parameters=True)
def deploy_tpi_train(
    store: str,
    profile: str = "laptop",
    rows: Rows = None,
    overrides: dict[str, Any] | None = None,
    files: list[str] | None = None,
) -> State[Any]:
    """Build TPI-Train from a profile.

    Args:
        store: folder or URL of builds and caches; an absolute path, the same on every worker.
        profile: engines and sizes, as `--profile` names them.
        rows: rows in all, in the profile's proportions; empty for as many as it says.
        overrides: fields over profile and files, as `--set` names them, such as
            {"seed": 7, "stages.mix_speakers.offset_sd_s": 0.2}.
        files: YAML files over the profile, as paths on the worker.
    """
    return _run(
        lambda: resize(fit_to_pack(load_config(profile, _list_files(files), _lay_store(store, overrides))), rows),
        check_tpi_build,
        run_build_tpi_train,
    )


@flow(name="build-tpi-bench", flow_run_name="tpi-bench-{profile}", validate_parameters=True)
def deploy_tpi_bench(
    store: str,
    profile: str = "laptop",
    rows: Rows = None,
    overrides: dict[str, Any] | None = None,
    files: list[str] | None = None,
) -> State[Any]:
    """Build TPI-Bench from a profile. Name the training builds in `disjoint_from`.

    Args:
        store: folder or URL of builds and caches; an absolute path, the same on every worker.
        profile: engines and sizes, as `--profile` names them.
        rows: rows in all, in the profile's proportions; empty for as many as it says.
        overrides: fields over profile and files, as `--set` names them, such as
            {"seed": 7, "stages.mix_speakers.offset_sd_s": 0.2}.
        files: YAML files over the profile, as paths on the worker.
    """
    return _run(
        lambda: resize(fit_to_pack(load_bench_config(profile, _list_files(files), _lay_store(store, overrides))), rows),
        check_tpi_build,
        run_build_tpi_bench,
    )


@flow(name="build-sid-bench", flow_run_name="sid-bench-{profile}", validate_parameters=True)
def deploy_sid_bench(
    store: str,
    profile: str = "laptop",
    overrides: dict[str, Any] | None = None,
    files: list[str] | None = None,
) -> State[Any]:
    """Build SID-Bench from a profile.

    Args:
        store: folder or URL of builds and caches; an absolute path, the same on every worker.
        profile: engines and sizes, as `--profile` names them.
        overrides: fields over profile and files, as `--set` names them, such as
            {"seed": 7, "stages.mix_speakers.offset_sd_s": 0.2}.
        files: YAML files over the profile, as paths on the worker.
    """
    return _run(
        lambda: load_sid_config(SidBenchConfig, profile, _list_files(files), _lay_store(store, overrides)),
        check_sid_build,
        run_build_sid_bench,
    )


@flow(name="build-sid-train", flow_run_name="sid-train-{profile}", validate_parameters=True)
def deploy_sid_train(
    store: str,
    profile: str = "laptop",
    overrides: dict[str, Any] | None = None,
    files: list[str] | None = None,
) -> State[Any]:
    """Build SID training data from a profile.

    Args:
        store: folder or URL of builds and caches; an absolute path, the same on every worker.
        profile: engines and sizes, as `--profile` names them.
        overrides: fields over profile and files, as `--set` names them, such as
            {"seed": 7, "stages.mix_speakers.offset_sd_s": 0.2}.
        files: YAML files over the profile, as paths on the worker.
    """
    return _run(
        lambda: load_sid_config(SidTrainConfig, profile, _list_files(files), _lay_store(store, overrides)),
        check_sid_build,
        run_build_sid_train,
    )


@flow(name="evaluate-tpi", flow_run_name="evaluate-tpi-{profile}", validate_parameters=True)
def deploy_evaluate_tpi(
    store: str,
    profile: str = "laptop",
    overrides: dict[str, Any] | None = None,
    files: list[str] | None = None,
) -> State[Any]:
    """Score systems on TPI-Bench: `bench`, `systems` and `judges` are fields of the overrides or files.

    Args:
        store: folder or URL of builds and caches; an absolute path, the same on every worker.
        profile: engines and sizes, as `--profile` names them.
        overrides: fields over profile and files, as `--set` names them, such as
            {"seed": 7, "stages.mix_speakers.offset_sd_s": 0.2}.
        files: YAML files over the profile, as paths on the worker.
    """
    return _run(
        lambda: load_evaluate_config(profile, _list_files(files), _lay_store(store, overrides)),
        check_evaluate_tpi,
        run_evaluate_tpi,
    )


@flow(name="evaluate-sid", flow_run_name="evaluate-sid", validate_parameters=True)
def deploy_evaluate_sid(
    store: str,
    detectors: str = "",
    overrides: dict[str, Any] | None = None,
    files: list[str] | None = None,
) -> State[Any]:
    """Score detectors of interruptions: `bench` and `predictions` are fields of the overrides or files.

    Args:
        store: folder or URL of builds and caches; an absolute path, the same on every worker.
        detectors: as `--detectors` takes them, such as silero_vad,k3:webrtc_vad.
        overrides: fields over profile and files, as `--set` names them, such as
            {"seed": 7, "stages.mix_speakers.offset_sd_s": 0.2}.
        files: YAML files over the profile, as paths on the worker.
    """
    return _run(
        lambda: load_sid_evaluation_config(
            _list_files(files), _lay_store(store, overrides), parse_detectors(detectors) if detectors else None
        ),
        check_evaluate_sid,
        run_evaluate_sid,
    )


@flow(name="evaluate-voicebench", flow_run_name="evaluate-voicebench", validate_parameters=True)
def deploy_evaluate_voicebench(
    store: str,
    overrides: dict[str, Any] | None = None,
    files: list[str] | None = None,
) -> State[Any]:
    """Score systems on VoiceBench: `data`, `systems` and `judges` are fields of the overrides or files.

    Args:
        store: folder or URL of builds and caches; an absolute path, the same on every worker.
        overrides: fields over profile and files, as `--set` names them, such as
            {"seed": 7, "stages.mix_speakers.offset_sd_s": 0.2}.
        files: YAML files over the profile, as paths on the worker.
    """
    return _run(
        lambda: load_voicebench_config(_list_files(files), _lay_store(store, overrides)),
        check_evaluate_voicebench,
        run_evaluate_voicebench,
    )


def _run(load: Callable[[], _Config], check: Callable[[_Config], None], run: Callable[[_Config], Any]) -> State[Any]:
    """Load and check a configuration, run its flow below this one, and return where the outcome lies, as a state.

    What is wrong with the parameters is the message of a failed run, not a traceback.
    """
    log = get_run_logger()
    try:
        config = load()
        _check_place(config.store)
        check(config)
        with listening(LogListener(log)):
            outcome = run(config)
    except UserError as exc:
        return Failed(message=str(exc))
    for line in outcome.summary:
        log.info(line)
    return Completed(message=outcome.location)


def _list_files(files: Sequence[str] | None) -> list[str]:
    return [*filter(None, os.environ.get(PLACE_VARIABLE, "").split(os.pathsep)), *(files or ())]


def _lay_store(store: str, overrides: Mapping[str, Any] | None) -> dict[str, Any]:
    return {**(overrides or {}), "store": store}


def _check_place(store: str) -> None:
    if "://" not in store and not PurePath(store).is_absolute():
        raise ConfigError(
            f"store {store!r}: name an absolute path or a URL; a worker runs in a folder that it deletes afterwards"
        )
