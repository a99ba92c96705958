"""`normalise_queries`: makes each request speakable or says why it cannot be spoken, and drops duplicates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import RowFault
from bystander.schemas.errors import ConfigError
from bystander.schemas.identity import make_id
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.tpi import QUERY, RAW_QUERY
from bystander.schemas.tpi_params import NormaliseQueries
from bystander.tasks.stages.speakable import make_speakable

SPOKEN_LANGUAGES = ("en",)
"""Languages that there are rules for."""

REASONS = frozenset(
    "unreadable_row empty too_short too_long code markup url control_characters wrong_language no_words incomplete "
    "unspeakable_number "
    "duplicate query_in_other_build".split()
)


def normalise_queries(rows: pa.Table, context: StageContext) -> StageOutput:
    """Make queries speakable.

    Duplicates are found among the rows given, so the stage runs over all queries of a build at once; the first of equal
    requests stays. Two requests are equal when their language and words are, whatever their case and punctuation.

    Reads: `query_text`, `query_fault`, `language`. Writes: `query_id`, `request`.

    Rejects: `unreadable_row`, `empty`, `too_short`, `too_long`, `code`, `markup`, `url`, `control_characters`,
    `wrong_language`, `no_words`, `unspeakable_number`, `incomplete`, `duplicate`; `query_in_other_build`: a build with
    which this one must share nothing was made of it, or says the same words.

    Raises:
        ConfigError: `languages` names one that there are no rules for.
    """
    params = cast(NormaliseQueries, context.params)
    check_languages(params)
    first: dict[str, int] = {}
    places: list[str] = []
    outcomes: list[Mapping[str, Any] | RowFault] = []
    columns = (
        rows[name].to_pylist() for name in ("query_source", "query_line", "query_text", "language", "query_fault")
    )
    for source, line, text, language, fault in zip(*columns, strict=True):
        places.append(f"{source}, record {line}")
        request = _normalise(text, language, fault, params)
        if isinstance(request, RowFault):
            outcomes.append(request)
            continue
        earlier = first.setdefault(make_duplicate_key(request, language), len(outcomes))
        if earlier < len(outcomes):
            outcomes.append(RowFault("duplicate", f"the same request as {places[earlier]}"))
            continue
        query_id = make_id("query", language, request.lower())
        if context.exclusions.has_query(query_id) or context.exclusions.has_text(request, language):
            outcomes.append(RowFault("query_in_other_build", f"another build has the request {request!r}"))
        else:
            outcomes.append({"query_id": query_id, "request": request})
    return split_rows("normalise_queries", rows, outcomes, QUERY)


def check_languages(params: NormaliseQueries) -> None:
    """Raise a ConfigError if `languages` names one that there are no rules for."""
    unknown = sorted(set(params.languages) - set(SPOKEN_LANGUAGES))
    if unknown:
        raise ConfigError(
            f"stages.normalise_queries.languages: there are no rules for {', '.join(unknown)}; "
            f"there are for {', '.join(SPOKEN_LANGUAGES)}"
        )


def make_duplicate_key(request: str, language: str) -> str:
    """Return what is the same for requests of the same words."""
    return f"{language} {re.sub(r'[^a-z ]', '', request.lower())}"


def _normalise(text: str | None, language: str, fault: str | None, params: NormaliseQueries) -> str | RowFault:
    if text is None:
        return RowFault("unreadable_row", fault or "has no text")
    if language not in params.languages:
        return RowFault("wrong_language", f"is marked as {language!r}; kept are {', '.join(params.languages)}")
    return make_speakable(text, params)


STAGE = Stage(
    name="normalise_queries",
    version=2,
    reads=RAW_QUERY,
    writes=QUERY,
    reasons=REASONS,
    run=normalise_queries,
    params_type=NormaliseQueries,
    uses_exclusions=True,
)
