"""The flows that deployments serve: one model of parameters each, which is the form in Prefect's UI.

A configuration as a flow's parameter has some hundred fields, engines among them that nothing stands in for. Here a
profile gives them, as on the command line, and the form lays over it what is usually set, then YAML files that the
worker can read, then single fields. Prefect does not check the parameters when a run starts: `deployed_run` does, so
that what is wrong is the message of a failed run, in one line.
"""

from __future__ import annotations

from typing import Any, TypeVar

from prefect import flow
from prefect.client.schemas.objects import State

from bystander.flows.build_sid_bench import run_build_sid_bench
from bystander.flows.build_sid_train import run_build_sid_train
from bystander.flows.build_tpi_bench import run_build_tpi_bench
from bystander.flows.build_tpi_train import run_build_tpi_train
from bystander.flows.check_evaluate_sid import check_evaluate_sid
from bystander.flows.check_evaluate_tpi import check_evaluate_tpi
from bystander.flows.check_evaluate_voicebench import check_evaluate_voicebench
from bystander.flows.check_real_world import check_real_world_build
from bystander.flows.check_sid import check_sid_build
from bystander.flows.check_tpi_train import check_tpi_build
from bystander.flows.check_train_sid import check_train_sid
from bystander.flows.check_train_tpi import check_train_tpi
from bystander.flows.curate_real_world import run_curate_real_world
from bystander.flows.deployed_run import name_run, run_deployed_build, run_deployed_evaluation, run_deployed_training
from bystander.flows.evaluate_sid import run_evaluate_sid
from bystander.flows.evaluate_tpi import run_evaluate_tpi
from bystander.flows.evaluate_voicebench import run_evaluate_voicebench
from bystander.flows.pack_targets import fit_to_pack
from bystander.flows.train_sid import run_train_sid
from bystander.flows.train_tpi import run_train_tpi
from bystander.schemas.config import OnTopOf, TpiConfig, TpiTrainConfig, resize
from bystander.schemas.deployed_builds import RealWorldRun, SidBenchRun, SidTrainRun, TpiBenchRun, TpiRun, TpiTrainRun
from bystander.schemas.deployed_evaluations import EvaluateSidRun, EvaluateTpiRun, EvaluateVoiceBenchRun
from bystander.schemas.deployed_training import TrainSidRun, TrainTpiRun
from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.schemas.evaluate_sid_config import EvaluateSidConfig
from bystander.schemas.train_sid_config import TrainSidConfig
from bystander.schemas.train_tpi_config import TrainTpiConfig
from bystander.storage.filesystem import open_store
from bystander.storage.pinned_builds import pin_bench, pin_builds, pin_training
from bystander.storage.releases import LATEST, read_latest

_Tpi = TypeVar("_Tpi", bound=TpiConfig)
_Evaluation = TypeVar("_Evaluation", EvaluateTpiConfig, EvaluateSidConfig)
_Training = TypeVar("_Training", TrainTpiConfig, TrainSidConfig)


@flow(name="build-tpi-train", flow_run_name=name_run, validate_parameters=False)
def deploy_tpi_train(build: TpiTrainRun) -> State[Any]:
    """Build TPI-Train: requests in, interrupted requests with replies out.

    Args:
        build: What is built, and where.
    """
    return run_deployed_build(TpiTrainRun, build, check_tpi_build, run_build_tpi_train, _finish_train)


@flow(name="build-tpi-bench", flow_run_name=name_run, validate_parameters=False)
def deploy_tpi_bench(build: TpiBenchRun) -> State[Any]:
    """Build TPI-Bench: TPI-Test and Janus-Test, twins linked, apart from the training builds that are named.

    Args:
        build: What is built, and where.
    """
    return run_deployed_build(TpiBenchRun, build, check_tpi_build, run_build_tpi_bench, _finish)


@flow(name="build-sid-bench", flow_run_name=name_run, validate_parameters=False)
def deploy_sid_bench(build: SidBenchRun) -> State[Any]:
    """Build SID-Bench: recordings of two speakers in, turns with the time of their break out.

    Args:
        build: What is built, and where.
    """
    return run_deployed_build(SidBenchRun, build, check_sid_build, run_build_sid_bench)


@flow(name="build-sid-train", flow_run_name=name_run, validate_parameters=False)
def deploy_sid_train(build: SidTrainRun) -> State[Any]:
    """Build SID training data: the rows of SID-Bench, in a split to be trained on.

    Args:
        build: What is built, and where.
    """
    return run_deployed_build(SidTrainRun, build, check_sid_build, run_build_sid_train)


@flow(name="curate-real-world", flow_run_name=name_run, validate_parameters=False)
def deploy_real_world(build: RealWorldRun) -> State[Any]:
    """Curate real interruptions: transcripts and recordings of conversations in, candidates for people to review out.

    Args:
        build: What is built, and where.
    """
    return run_deployed_build(RealWorldRun, build, check_real_world_build, run_curate_real_world)


@flow(name="evaluate-tpi", flow_run_name=name_run, validate_parameters=False)
def deploy_evaluate_tpi(evaluation: EvaluateTpiRun) -> State[Any]:
    """Score systems on TPI-Bench.

    Args:
        evaluation: What is scored, and where the scores go.
    """
    return run_deployed_evaluation(EvaluateTpiRun, evaluation, check_evaluate_tpi, run_evaluate_tpi, _pin)


@flow(name="evaluate-sid", flow_run_name=name_run, validate_parameters=False)
def deploy_evaluate_sid(evaluation: EvaluateSidRun) -> State[Any]:
    """Score detectors of interruptions on SID-Bench.

    Args:
        evaluation: What is scored, and where the scores go.
    """
    return run_deployed_evaluation(EvaluateSidRun, evaluation, check_evaluate_sid, run_evaluate_sid, _pin)


@flow(name="evaluate-voicebench", flow_run_name=name_run, validate_parameters=False)
def deploy_evaluate_voicebench(evaluation: EvaluateVoiceBenchRun) -> State[Any]:
    """Score systems on VoiceBench.

    Args:
        evaluation: What is scored, and where the scores go.
    """
    return run_deployed_evaluation(
        EvaluateVoiceBenchRun, evaluation, check_evaluate_voicebench, run_evaluate_voicebench
    )


@flow(name="train-tpi", flow_run_name=name_run, validate_parameters=False)
def deploy_train_tpi(training: TrainTpiRun) -> State[Any]:
    """Fine-tune a speech-language model on TPI rows.

    Args:
        training: What is trained on what, and where it lies afterwards.
    """
    return run_deployed_training(TrainTpiRun, training, check_train_tpi, run_train_tpi, _pin_data)


@flow(name="train-sid", flow_run_name=name_run, validate_parameters=False)
def deploy_train_sid(training: TrainSidRun) -> State[Any]:
    """Train a detector of interruptions on SID rows.

    Args:
        training: What is trained on what, and where it lies afterwards.
    """
    return run_deployed_training(TrainSidRun, training, check_train_sid, run_train_sid, _pin_data)


def _finish_train(build: TpiTrainRun, config: TpiTrainConfig) -> TpiTrainConfig:
    """Return the configuration as `_finish` does, on top of the latest release if the form says so and there is one."""
    if build.grow and read_latest(open_store(config.store), config.dataset) is not None:
        latest = f"{config.store.rstrip('/')}/{config.dataset}/{LATEST}"
        config = config.model_copy(update={"on_top_of": OnTopOf(build=latest, rows="first")})
    return _finish(build, config)


def _finish(build: TpiRun, config: _Tpi) -> _Tpi:
    """Return the configuration with as many rows as the form asks for, of the pack's classes, and releases in the
    place of `latest`.
    """
    return pin_builds(resize(fit_to_pack(config), build.rows))


def _pin(_: Any, config: _Evaluation) -> _Evaluation:
    """Return the configuration with a release as its bench, in the place of `latest`."""
    return pin_bench(config)


def _pin_data(_: Any, config: _Training) -> _Training:
    """Return the configuration with releases as its data, in the place of `latest`."""
    return pin_training(config)
