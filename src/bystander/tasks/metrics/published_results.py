"""Published figures of other systems, for showing them beside one's own in a table."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from bystander.schemas.errors import InputError
from bystander.tasks.metrics.score_definitions import SCORES_BY_KEY

_BUILTIN = "published_tpi_results.yaml"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PublishedSource(_Frozen):
    """Where figures were published."""

    title: str
    authors: str
    address: str
    place: str


class PublishedSystem(_Frozen):
    """A system's published means: `scores` maps keys of `score_definitions` to figures; not all need be there."""

    name: str = Field(min_length=1)
    trained_on: tuple[Literal["corpus", "dyadic", "hard_negatives"], ...] = ()
    scores: dict[str, float] = Field(min_length=1)

    @field_validator("scores")
    @classmethod
    def _scores_are_on_their_scales(cls, scores: dict[str, float]) -> dict[str, float]:
        for key, score in scores.items():
            definition = SCORES_BY_KEY.get(key)
            if definition is None:
                raise ValueError(f"{key!r} is no score; known are {', '.join(SCORES_BY_KEY)}")
            if not definition.lowest <= score <= definition.highest:
                raise ValueError(f"{key} {score:g} is not from {definition.lowest:g} to {definition.highest:g}")
        return scores


class PublishedResults(_Frozen):
    """Systems in the order of the source's table."""

    source: PublishedSource
    systems: tuple[PublishedSystem, ...] = Field(min_length=1)

    @field_validator("systems")
    @classmethod
    def _names_differ(cls, systems: tuple[PublishedSystem, ...]) -> tuple[PublishedSystem, ...]:
        names = [system.name for system in systems]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"systems stand there twice: {', '.join(doubled)}")
        return systems


def load_published_results(path: Path | None = None) -> PublishedResults:
    """Load published results from a YAML file; None: those of the TPI paper's Table 2, which ship with the package.

    Raises:
        InputError: names the file and the field that is wrong.
    """
    name = _BUILTIN if path is None else str(path)
    try:
        if path is None:
            text = resources.files("bystander.tasks.metrics").joinpath(f"data/{_BUILTIN}").read_text("utf-8")
        else:
            text = path.read_text("utf-8")
        return PublishedResults.model_validate(yaml.safe_load(text))
    except ValidationError as exc:
        fault = exc.errors()[0]
        place = ".".join(str(part) for part in fault["loc"]) or "the file"
        raise InputError(f"{name}: {place}: {fault['msg']}") from exc
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise InputError(f"{name} cannot be read as YAML: {' '.join(str(exc).split())}") from exc
