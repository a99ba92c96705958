"""The profiles of training on TPI rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from bystander.schemas.config import lay_over, list_profiles_of, read_profile, validate_fields
from bystander.schemas.train_tpi_config import TrainTpiConfig

_PROFILES = resources.files("bystander.schemas") / "profiles" / "train" / "tpi"


def list_train_tpi_profiles() -> list[str]:
    """Return the names of the built-in profiles."""
    return list_profiles_of(_PROFILES)


def load_train_tpi_config(
    profile: str, files: Sequence[str] = (), overrides: Mapping[str, Any] | None = None
) -> TrainTpiConfig:
    """Return a profile's configuration with YAML files laid over it, then dotted overrides.

    Raises:
        ConfigError: names the profile, file or field that is wrong.
    """
    data = lay_over(read_profile(profile, _PROFILES), files, overrides or {})
    return validate_fields(TrainTpiConfig, data, profile)
