"""What a worker is told of a build or an evaluation, so that it can run any stage of it."""

from __future__ import annotations

from bystander.schemas.config import TpiConfig
from bystander.schemas.detector_configs import SidEvaluationEngines
from bystander.schemas.dyadic_config import DyadicConfig, DyadicEngines, DyadicStages
from bystander.schemas.engine_configs import EngineConfigs, EvaluationEngines
from bystander.schemas.evaluate_config import EvaluateTpiConfig, EvaluationStages
from bystander.schemas.evaluate_voicebench_config import EvaluateVoiceBenchConfig, VoiceBenchStages
from bystander.schemas.real_world_config import RealWorldConfig, RealWorldEngines
from bystander.schemas.real_world_params import RealWorldStages
from bystander.schemas.sid_config import SidConfig
from bystander.schemas.sid_engine_configs import SidEngines
from bystander.schemas.sid_evaluation_params import SidEvaluationStages
from bystander.schemas.sid_params import SidStages
from bystander.schemas.stages import Params
from bystander.schemas.tpi_params import TpiStages


class StageJob(Params):
    """All that a worker needs to run any stage of a build or an evaluation: plain data, sent with every task."""

    store: str
    build_seed: int
    pack: str
    taxonomy: str | None
    disjoint_from: tuple[str, ...] = ()
    rubrics: str | None = None
    """Built-in rubrics that stand in for the pack, where what is judged does not depend on a response strategy."""
    beside_pack: str | None = None
    """Rubrics that are asked beside the pack: a built-in set, or the path of a folder."""
    stages: (
        TpiStages
        | DyadicStages
        | EvaluationStages
        | VoiceBenchStages
        | SidStages
        | SidEvaluationStages
        | RealWorldStages
    )
    engines: EngineConfigs | DyadicEngines | EvaluationEngines | SidEngines | SidEvaluationEngines | RealWorldEngines

    @classmethod
    def of(cls, config: TpiConfig) -> StageJob:
        """Return the job of a build."""
        return cls(
            store=config.store,
            build_seed=config.seed,
            pack=config.pack,
            taxonomy=config.taxonomy,
            disjoint_from=config.disjoint_from,
            stages=config.stages,
            engines=config.engines,
        )

    @classmethod
    def of_dyadic(cls, config: DyadicConfig, pack: str) -> StageJob:
        """Return the job of a dyadic build from a build with this pack."""
        return cls(
            store=config.store,
            build_seed=config.seed,
            pack=pack,
            taxonomy=None,
            stages=config.stages,
            engines=config.engines,
        )

    @classmethod
    def of_evaluation(cls, config: EvaluateTpiConfig, engines: EvaluationEngines, pack: str) -> StageJob:
        """Return the job of one system's answers, or of one judge's verdicts, by the strategy of `pack`."""
        return cls(
            store=config.store,
            build_seed=config.seed,
            pack=pack,
            taxonomy=None,
            stages=config.stages,
            engines=engines,
        )

    @classmethod
    def of_voicebench(cls, config: EvaluateVoiceBenchConfig, engines: EvaluationEngines) -> StageJob:
        """Return the job of one system's answers on VoiceBench, or of one judge's verdicts on them."""
        return cls(
            store=config.store,
            build_seed=config.seed,
            pack="reference",  # stand-ins that write are asked with its prompts
            rubrics="voicebench" if engines.judge is not None else None,
            taxonomy=None,
            stages=config.stages,
            engines=engines,
        )

    @classmethod
    def of_sid(cls, config: SidConfig) -> StageJob:
        """Return the job of a SID build."""
        return cls(
            store=config.store,
            build_seed=config.seed,
            pack="reference",
            rubrics=config.prompts,
            taxonomy=None,
            disjoint_from=config.disjoint_from,
            stages=config.stages,
            engines=config.engines,
        )

    @classmethod
    def of_real_world(cls, config: RealWorldConfig) -> StageJob:
        """Return the job of a build of real recordings."""
        return cls(
            store=config.store,
            build_seed=config.seed,
            pack=config.pack,
            beside_pack=config.prompts,
            taxonomy=None,
            stages=config.stages,
            engines=config.engines,
        )

    @classmethod
    def of_detector(
        cls, store: str, engines: SidEvaluationEngines, stages: SidEvaluationStages | None = None
    ) -> StageJob:
        """Return the job of one detector on SID-Bench, which draws nothing at random."""
        return cls(
            store=store,
            build_seed=0,
            pack="reference",  # no stage of it renders one
            taxonomy=None,
            stages=stages or SidEvaluationStages(),
            engines=engines,
        )
