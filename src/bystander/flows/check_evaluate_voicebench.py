"""Finds the mistakes in the settings of an evaluation on VoiceBench that need no work to be found."""

from __future__ import annotations

from bystander.flows.check_evaluation import check_engines, list_raters, require_systems
from bystander.flows.check_runner import check_runner
from bystander.flows.check_tpi_train import check_store
from bystander.schemas.errors import ConfigError
from bystander.schemas.evaluate_voicebench_config import EvaluateVoiceBenchConfig
from bystander.schemas.voicebench import PARTS_BY_NAME
from bystander.storage.voicebench_files import find_voicebench


def check_evaluate_voicebench(config: EvaluateVoiceBenchConfig) -> None:
    """Raise what would stop the evaluation later: a wrong folder, part, split, system, judge, store or model.

    Raises:
        UserError: names the first thing that is wrong.
    """
    require_systems(config)
    judged = [name for name in config.parts if PARTS_BY_NAME[name].judged]
    if judged and not config.judges:
        raise ConfigError(
            f"judges: the parts {', '.join(judged)} need one; name it with --judge name=config.yaml or "
            "--judge embedded=llama_cpp, or leave these parts out with --parts"
        )
    if not config.data:
        raise ConfigError("data: name the folder of the local copy of VoiceBench with --data")
    for name in config.parts:
        find_voicebench(config.data, PARTS_BY_NAME[name], config.splits.get(name, ()))
    check_store(config.store)
    check_runner(config.runner, (engine for _, engine in list_raters(config)))
    check_engines(list_raters(config))
