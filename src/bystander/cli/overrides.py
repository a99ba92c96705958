"""From options of the command line to fields of a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def gather_overrides(set_: Sequence[str] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `--set`, and over them those of other options that were given, i.e. are not None.

    Raises:
        ConfigError: a field is not written as name=value.
    """
    from bystander.schemas.config import parse_override

    overrides = dict(parse_override(text) for text in set_ or [])
    overrides.update({key: value for key, value in given.items() if value is not None})
    return overrides
