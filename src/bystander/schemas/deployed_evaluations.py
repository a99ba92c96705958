"""The parameters of deployments that score systems, one model each, and the configurations that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from bystander.schemas.deployed_run import DeployedRun, MaybeRows, MaybeSeed, MaybeText, list_or_none
from bystander.schemas.detector_configs import parse_detectors
from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.schemas.evaluate_profiles import load_evaluate_config, parse_judge, parse_system
from bystander.schemas.evaluate_sid_config import EvaluateSidConfig, load_sid_evaluation_config
from bystander.schemas.evaluate_voicebench_config import EvaluateVoiceBenchConfig, load_voicebench_config
from bystander.schemas.voicebench import PartName

EvaluateProfile = Literal["fake", "laptop", "paper", "playbook"]


class DeployedEvaluation(DeployedRun):
    """What all deployments of evaluations are told."""

    seed: MaybeSeed = Field(None, title="Seed", description="Seed of answers, verdicts and intervals.", examples=[0])
    name: MaybeText = Field(
        None,
        title="Name",
        description="Of the folder in `evaluations/` of the store. Empty: derived from the settings.",
    )
    allow_missing: bool = Field(
        False, title="Allow missing answers", description="They then count as the worst ones; else they are an error."
    )
    rows: MaybeRows = Field(
        None,
        title="Rows",
        description="Only so many rows of each test, category or part. Empty: all.",
        examples=[100],
    )

    def lay_over(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the single fields, and over them the fields of the form that were `given` a value."""
        shared = {"seed": self.seed, "name": self.name, "rows": self.rows, "allow_missing": self.allow_missing or None}
        return super().lay_over({**shared, **given})


class _JudgedEvaluation(DeployedEvaluation):
    systems: dict[str, str] = Field(
        default_factory=dict,
        title="Systems",
        description="Name of each system to its YAML file, or to a file of its replies (JSONL, Parquet).",
        examples=[{"ours": "/data/systems/ours.yaml", "theirs": "/data/replies/theirs.jsonl"}],
    )
    judges: dict[str, str] = Field(
        default_factory=dict,
        title="Judges",
        description="Name of each judge to its YAML file, or to a bare kind of engine. Empty: the profile's.",
        examples=[{"qwen": "/data/judges/qwen.yaml"}],
    )

    def parse_systems(self) -> dict[str, Any]:
        """Return the engine of each system."""
        return dict(parse_system(f"{name}={value}") for name, value in self.systems.items())

    def parse_judges(self) -> dict[str, Any]:
        """Return the engine of each judge."""
        return dict(parse_judge(f"{name}={value}") for name, value in self.judges.items())


class EvaluateTpiRun(_JudgedEvaluation):
    """Parameters of the deployments of `evaluate-tpi`."""

    profile: EvaluateProfile = Field(title="Profile", description="Engines of judge and controls.", examples=["paper"])
    bench: MaybeText = Field(
        None,
        title="Bench",
        description="Folder or URL of a finished build; `latest` as its name stands for the latest release.",
        examples=["/data/store/tpi-bench/latest"],
    )
    pack: MaybeText = Field(
        None, title="Response pack", description="Whose strategy and rubrics apply. Empty: the profile's."
    )

    def load(self, site_files: Sequence[str]) -> EvaluateTpiConfig:
        """Return the configuration, the files of the worker's site below those of the run.

        Raises:
            ConfigError: names the file or field that is wrong.
        """
        overrides = self.lay_over({"bench": self.bench, "pack": self.pack})
        files = [*site_files, *self.files]
        return load_evaluate_config(self.profile, files, overrides, self.parse_systems(), self.parse_judges())


class EvaluateSidRun(DeployedEvaluation):
    """Parameters of the deployments of `evaluate-sid`."""

    bench: MaybeText = Field(
        None,
        title="Bench",
        description="Folder or URL of a finished build, `latest` as its name for the latest release; or published "
        "references.",
        examples=["/data/store/sid-bench/latest"],
    )
    detectors: MaybeText = Field(
        None,
        title="Detectors",
        description="Detectors to run, comma-separated, as `--detectors` takes them.",
        examples=["silero_vad,k3:webrtc_vad"],
    )
    predictions: dict[str, str] = Field(
        default_factory=dict,
        title="Predictions",
        description="Name of each system that ran elsewhere to its predictions, in the published form.",
        examples=[{"ours": "/data/predictions/ours.jsonl"}],
    )

    def load(self, site_files: Sequence[str]) -> EvaluateSidConfig:
        """Return the configuration, the files of the worker's site below those of the run.

        Raises:
            ConfigError: names the file or field that is wrong.
        """
        detectors = parse_detectors(self.detectors) if self.detectors else None
        overrides = self.lay_over({"bench": self.bench})
        return load_sid_evaluation_config([*site_files, *self.files], overrides, detectors, self.predictions)


class EvaluateVoiceBenchRun(_JudgedEvaluation):
    """Parameters of the deployments of `evaluate-voicebench`."""

    data: MaybeText = Field(
        None,
        title="Data",
        description="Folder of the local copy of VoiceBench, one folder a part.",
        examples=["/data/voicebench"],
    )
    parts: list[PartName] = Field(default_factory=list, title="Parts", description="Empty: all of them.")

    def load(self, site_files: Sequence[str]) -> EvaluateVoiceBenchConfig:
        """Return the configuration, the files of the worker's site below those of the run.

        Raises:
            ConfigError: names the file or field that is wrong.
        """
        overrides = self.lay_over({"data": self.data, "parts": list_or_none(self.parts)})
        files = [*site_files, *self.files]
        return load_voicebench_config(files, overrides, self.parse_systems(), self.parse_judges())
