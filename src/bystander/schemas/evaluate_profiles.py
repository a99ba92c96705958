"""The profiles of evaluations, and how systems and judges are named on a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

import yaml

from bystander.schemas.config import lay_over, list_profiles_of, read_profile, read_yaml, validate_fields
from bystander.schemas.errors import ConfigError
from bystander.schemas.evaluate_config import EvaluateTpiConfig

_PROFILES = resources.files("bystander.schemas") / "profiles" / "evaluate"
_PREDICTIONS = (".jsonl", ".ndjson", ".parquet")
_YAML = (".yaml", ".yml")


def list_evaluate_profiles() -> list[str]:
    """Return the names of the built-in profiles of evaluations."""
    return list_profiles_of(_PROFILES)


def load_evaluate_config(
    profile: str,
    files: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    systems: Mapping[str, Any] | None = None,
    judges: Mapping[str, Any] | None = None,
) -> EvaluateTpiConfig:
    """Return a profile's configuration with YAML files laid over it, then systems and judges, then dotted overrides.

    Systems join those of the files; judges, if any are given, take the place of all others.

    Raises:
        ConfigError: names the profile, file or field that is wrong.
    """
    data = lay_over(read_profile(profile, _PROFILES), files, {})
    if judges:
        data["judges"] = dict(judges)
    if systems:
        data["systems"] = {**(data.get("systems") or {}), **systems}
    return validate_fields(EvaluateTpiConfig, lay_over(data, (), overrides or {}), profile)


def parse_system(text: str) -> tuple[str, dict[str, Any]]:
    """Return name and engine of `name=config.yaml`, `name=predictions.jsonl` (or Parquet), or `name={engine: ...}`.

    Raises:
        ConfigError: it is none of these, or the file cannot be read.
    """
    name, value = _split(text, "--system", "model.yaml or name=predictions.jsonl")
    if PurePosixPath(value.lower()).suffix in _PREDICTIONS:
        return name, {"engine": "predictions", "path": value}
    return name, _read_engine(text, "--system", value)


def parse_judge(text: str) -> tuple[str, dict[str, Any]]:
    """Return name and engine of `name=config.yaml`, `name={engine: ...}`, or `name=playbook` for a bare kind of engine.

    Raises:
        ConfigError: it is none of these, or the file cannot be read.
    """
    name, value = _split(text, "--judge", "judge.yaml")
    if value.replace("_", "").isalnum() and not value.endswith(_YAML):
        return name, {"engine": value}
    return name, _read_engine(text, "--judge", value)


def parse_pair(text: str, option: str) -> tuple[str, str]:
    """Return name and file of `people=ratings.csv`.

    Raises:
        ConfigError: it is not of this form.
    """
    return _split(text, option, "file")


def _split(text: str, option: str, example: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip() or not value.strip():
        raise ConfigError(f"{option} {text!r}: write it as name={example}")
    return name.strip(), value.strip()


def _read_engine(text: str, option: str, value: str) -> dict[str, Any]:
    if value.startswith("{"):
        try:
            data = yaml.safe_load(value)
        except yaml.YAMLError as exc:
            raise ConfigError(f"{option} {text!r}: {value!r} is not YAML") from exc
        if isinstance(data, dict):
            return data
    if not value.lower().endswith(_YAML):
        raise ConfigError(
            f"{option} {text!r}: {value!r} is neither a YAML file with the engine's fields"
            f"{' nor predictions (' + ', '.join(_PREDICTIONS) + ')' if option == '--system' else ''}"
        )
    return read_yaml(value)
