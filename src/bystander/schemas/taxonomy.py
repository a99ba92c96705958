"""The taxonomy of third-party interruptions: scenarios in categories, as validated data."""

from __future__ import annotations

from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bystander.schemas.errors import TaxonomyError
from bystander.schemas.identity import digest_json


class Timing(StrEnum):
    """When the third party cuts in: before the primary user has finished, or right after."""

    WITHIN_SENTENCE = "within_sentence"
    AFTER_COMPLETION = "after_completion"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ScenarioExample(_Frozen):
    """A request as it is spoken, and what a bystander says to it.

    `request` is the query that it was rewritten from, where the two differ by more than case and punctuation.
    """

    primary: str = Field(min_length=3)
    third_party: str = Field(min_length=2)
    request: str | None = None


class Scenario(_Frozen):
    """One kind of interruption.

    `openings` are literal beginnings of a third-party line that keep a small model on track; an engine that writes well
    without them can be told to ignore them (`guided_openings` of the writing stage). `ends_with` are the punctuation
    marks that may end the line.
    """

    key: str = Field(pattern=r"^[a-z][a-z_]*$")
    category: str = Field(pattern=r"^[a-z][a-z_]*$")
    definition: str = Field(min_length=20)
    examples: tuple[ScenarioExample, ...] = Field(min_length=1)
    openings: tuple[str, ...] = ()
    ends_with: tuple[str, ...] = (".", "!", "?")


class Taxonomy(_Frozen):
    """All scenarios of a build, ordered as in the file."""

    name: str
    scenarios: tuple[Scenario, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _keys_are_unique(self) -> Taxonomy:
        keys = [scenario.key for scenario in self.scenarios]
        doubled = sorted({key for key in keys if keys.count(key) > 1})
        if doubled:
            raise ValueError(f"scenario keys occur twice: {', '.join(doubled)}")
        return self

    def __getitem__(self, key: str) -> Scenario:
        for scenario in self.scenarios:
            if scenario.key == key:
                return scenario
        raise KeyError(key)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(scenario.key for scenario in self.scenarios)

    def digest(self) -> str:
        """Return the digest that fingerprints use."""
        return digest_json(self.model_dump(mode="json"))


def parse_taxonomy(data: Any, source: str) -> Taxonomy:
    """Validate taxonomy data read from `source`.

    Raises:
        TaxonomyError: names the source and every invalid field.
    """
    try:
        return Taxonomy.model_validate(data)
    except ValidationError as exc:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'taxonomy'}: {e['msg']}" for e in exc.errors())
        raise TaxonomyError(f"taxonomy {source}: {faults}") from exc


def load_taxonomy(path: str | None = None) -> Taxonomy:
    """Load a taxonomy from a YAML file, or the built-in one of 26 scenarios in 7 categories.

    Raises:
        TaxonomyError: the file is missing, not YAML, or invalid.
    """
    if path is None:
        text = resources.files("bystander.schemas").joinpath("data/taxonomy.yaml").read_text("utf-8")
        source = "built-in"
    else:
        source = path
        try:
            text = Path(path).read_text("utf-8")
        except OSError as exc:
            raise TaxonomyError(f"taxonomy {path}: cannot be read ({exc.strerror})") from exc
        except UnicodeDecodeError as exc:
            raise TaxonomyError(f"taxonomy {path}: is not UTF-8 text") from exc
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise TaxonomyError(f"taxonomy {source}: is not valid YAML ({exc})") from exc
    return parse_taxonomy(data, source)
