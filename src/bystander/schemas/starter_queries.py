"""The starter set: English voice-assistant requests, with what they ask for and a good answer, as validated data."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib import resources

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bystander.schemas.errors import InputError

SPEAKABLE = re.compile(r"(?!.*(?:^|[^A-Za-z0-9])'|.*'(?:$|[^A-Za-z0-9]))[A-Za-z0-9' .,?!]+")
"""What a spoken text may consist of: letters, digits, apostrophes inside words, spaces and . , ? !"""


class StarterQuery(BaseModel):
    """A request with its domain, intent, slots (name to the words as they stand in the text) and a spoken answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(min_length=3)
    domain: str = Field(pattern=r"^[a-z][a-z_]*$")
    intent: str = Field(pattern=r"^[a-z][a-z_]*$")
    slots: dict[str, str]
    answer: str = Field(min_length=2)

    @model_validator(mode="after")
    def _texts_can_be_spoken(self) -> StarterQuery:
        for name in ("text", "answer"):
            if not SPEAKABLE.fullmatch(getattr(self, name)):
                raise ValueError(f"{name} holds characters that are not spoken: {getattr(self, name)!r}")
        lost = sorted(name for name, words in self.slots.items() if words not in self.text)
        if lost:
            raise ValueError(f"slots {', '.join(lost)} do not stand in the text")
        return self


def normalise_text(text: str) -> str:
    """Return `text` in lower case, without punctuation and apostrophes, its words separated by single spaces."""
    kept = re.sub(r"[^\w\s]", " ", text.lower().replace("'", "").replace("’", ""))
    return " ".join(kept.split())


def read_starter_bytes() -> bytes:
    """Return the starter set's file as it ships (JSONL, UTF-8), for digests and for readers of query files."""
    return resources.files("bystander.schemas").joinpath("data/starter_queries.jsonl").read_bytes()


@lru_cache(maxsize=1)
def load_starter_queries() -> tuple[StarterQuery, ...]:
    """Load the starter set, in the order of its file.

    Raises:
        InputError: names the line that is invalid or stands there twice.
    """
    queries: list[StarterQuery] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(read_starter_bytes().decode("utf-8").splitlines(), start=1):
        try:
            query = StarterQuery.model_validate(json.loads(line))
        except (ValidationError, json.JSONDecodeError) as exc:
            raise InputError(f"starter_queries.jsonl line {number}: {exc}") from exc
        first = seen.setdefault(normalise_text(query.text), number)
        if first != number:
            raise InputError(f"starter_queries.jsonl line {number}: repeats the request of line {first}")
        queries.append(query)
    return tuple(queries)
