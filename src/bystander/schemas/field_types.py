"""Types of configuration fields that several configurations share, and what their patterns mean in words."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MAX_SEED = 2**63 - 1
"""The highest seed: it stands in signed 64-bit columns."""

MAX_ROWS = 100_000_000
"""Most rows that may be asked for, of a label or in all."""

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""What folders of builds and evaluations, systems, judges and raters may be called: their names are those of files."""

NAME_IN_WORDS = "at most 100 letters, digits, dots, hyphens and underscores, beginning with a letter or digit"

DATASET_NAME = r"^[a-z0-9][a-z0-9._-]{0,99}$"

PLACE = r"^(/|[A-Za-z]:[\\/]|[A-Za-z][A-Za-z0-9+.-]*://).*$"
"""A folder that means the same wherever a worker runs: an absolute path, or a URL."""

PUBLISHING_PLACE = (
    r"^(hf://datasets/[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+/?"
    r"|(/|[A-Za-z]:[\\/]|([A-Za-gi-z][A-Za-z0-9+.-]*|h|h[A-Za-eg-z0-9+.-][A-Za-z0-9+.-]*|hf[A-Za-z0-9+.-]+)://).*)$"
)
"""A dataset of the Hugging Face hub, or a `PLACE` that is not on the hub; written without lookahead, which pydantic's
engine of patterns lacks."""

PATTERNS_IN_WORDS = {
    NAME: NAME_IN_WORDS,
    PLACE: "an absolute path or a URL: a worker runs in a folder that it deletes afterwards",
    PUBLISHING_PLACE: "an absolute path, a URL, or hf://datasets/NAME/DATASET for a dataset of the Hugging Face hub",
    DATASET_NAME: "at most 100 small letters, digits, dots, hyphens and underscores, beginning with a letter or digit",
}

Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]
Name = Annotated[str, Field(pattern=NAME)]
DatasetName = Annotated[str, Field(pattern=DATASET_NAME)]
Rows = Annotated[int, Field(ge=0, le=MAX_ROWS)]
PartitionRows = Annotated[int, Field(ge=1, le=1_000_000)]
Workers = Annotated[int, Field(ge=1, le=256)]
TimeoutSeconds = Annotated[float, Field(gt=0, le=86_400)]
