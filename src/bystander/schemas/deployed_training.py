"""The parameters of deployments that train, one model each, and the configurations that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from bystander.schemas.deployed_run import DeployedRun, MaybeSeed, MaybeText
from bystander.schemas.field_types import NAME
from bystander.schemas.train_sid_config import TrainSidConfig, load_train_sid_config
from bystander.schemas.train_tpi_config import MixtureName, TrainTpiConfig
from bystander.schemas.train_tpi_profiles import load_train_tpi_config

TrainTpiProfile = Literal["fake", "miniature", "paper"]
TrainSidProfile = Literal["miniature", "paper"]
Device = Literal["auto", "cpu", "cuda"]


class DeployedTraining(DeployedRun):
    """What all deployments of trainings are told."""

    data: list[str] = Field(
        min_length=1,
        title="Data",
        description="Folders or URLs of finished builds that are trained on; `latest` as the name of one stands for "
        "its dataset's latest release.",
    )
    max_steps: int | None = Field(
        None, ge=1, title="Steps at most", description="Empty: as many as the epochs take.", examples=[1000]
    )
    device: Device | None = Field(None, title="Device", description="Empty: the profile's.", examples=["cuda"])
    seed: MaybeSeed = Field(
        None, title="Seed", description="Of the order of the rows, of what is held out, and of weights.", examples=[0]
    )
    name: MaybeText = Field(
        None,
        title="Name",
        description="Of the folder in `trained/` of the store. Empty: derived from the settings, so that the same ones "
        "go on with what was begun.",
        pattern=NAME,
    )
    workers: int | None = Field(
        None,
        ge=1,
        le=256,
        title="Loader workers",
        description="Processes that read and decode ahead. Changes the speed, never a weight.",
    )

    def lay_over(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the single fields, and over them the fields of the form that were `given` a value."""
        form = {
            "store": self.store,
            "data": self.data,
            "name": self.name,
            "seed": self.seed,
            "device": self.device,
            "loader_workers": self.workers,
            "optimisation.max_steps": self.max_steps,
            **given,
        }
        return {**self.overrides, **{name: value for name, value in form.items() if value is not None}}


class TrainTpiRun(DeployedTraining):
    """Parameters of the deployments of `train-tpi`."""

    profile: TrainTpiProfile = Field(title="Profile", description="Model and optimisation.", examples=["paper"])
    dyadic: list[str] = Field(
        default_factory=list,
        title="Dyadic data",
        description="Builds of one-speaker requests with replies, or Parquet of them. For the mixtures va and full.",
        examples=[["/data/store/tpi-dyadic/latest"]],
    )
    mixture: MixtureName | None = Field(
        None,
        title="Mixture",
        description="base: two-speaker rows; va: and dyadic ones; full: and hard negatives. Empty: the profile's.",
        examples=["full"],
    )
    model: MaybeText = Field(
        None,
        title="Model",
        description="Folder or hub name of the model that is fine-tuned. Empty: the profile's.",
        examples=["Qwen/Qwen2.5-Omni-7B"],
    )

    def load(self, site_files: Sequence[str]) -> TrainTpiConfig:
        """Return the configuration, the files of the worker's site below those of the run.

        Raises:
            ConfigError: names the file or field that is wrong.
        """
        dyadic = [{"path": path} for path in self.dyadic] or None
        given = {"dyadic": dyadic, "mixture": self.mixture, "model.model": self.model}
        return load_train_tpi_config(self.profile, [*site_files, *self.files], self.lay_over(given))


class TrainSidRun(DeployedTraining):
    """Parameters of the deployments of `train-sid`."""

    profile: TrainSidProfile = Field(title="Profile", description="Model and optimisation.", examples=["paper"])

    def load(self, site_files: Sequence[str]) -> TrainSidConfig:
        """Return the configuration, the files of the worker's site below those of the run.

        Raises:
            ConfigError: names the file or field that is wrong.
        """
        return load_train_sid_config(self.profile, [*site_files, *self.files], self.lay_over({}))
