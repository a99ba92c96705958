"""Texts and queries of other builds are kept out, whatever their spelling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bystander.schemas.exclusions import NO_EXCLUSIONS
from bystander.schemas.stages import Params
from bystander.schemas.tpi import RAW_QUERY, WRITTEN
from bystander.schemas.tpi_params import NormaliseQueries
from bystander.storage.build_contents import BuildContents, RowContents
from bystander.tasks.metrics.text_normaliser import normalise_text
from bystander.tasks.stages.check_disjointness import STAGE
from bystander.tasks.stages.normalise_queries import STAGE as NORMALISE
from scripted_engines import make_context
from tpi_rows import make_rows

OTHER = {
    "id": "row-other",
    "query_id": "query-other",
    "language": "en",
    "request": "Set an alarm for seven.",
    "primary_complete": "Please set an alarm for 7.",
    "primary_text": "Please set an alarm...",
    "third_party_text": "It's a holiday tomorrow.",
    "primary_voice": "zoe",
    "third_party_voice": "ann",
}
"""A row of another build."""


def make_exclusions() -> BuildContents:
    contents = BuildContents(normalise_text)
    contents.add(RowContents.of(OTHER, normalise_text))
    return contents


def check(row: dict[str, Any]) -> Any:
    own = {
        "primary_complete": "Play some quiet jazz music.",
        "primary_text": "Play some quiet...",
        "third_party_text": "No, something loud.",
    }
    context = replace(make_context(Params()), exclusions=make_exclusions())
    return STAGE(make_rows(WRITTEN, [own | row]), context)


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"primary_complete": "please, set an alarm for seven"}, "primary_complete 'please, set an alarm for seven'"),
        ({"primary_text": "PLEASE set an alarm!"}, "primary_text"),
        ({"third_party_text": "It is a holiday tomorrow!"}, "third_party_text"),
        ({"third_party_text": "Set an alarm for 7"}, "third_party_text"),
        ({"primary_text": "Please set", "third_party_text": "an alarm... it's a holiday tomorrow"}, "transcript"),
    ],
)
def test_a_text_of_the_same_words_is_rejected(row: dict[str, Any], named: str) -> None:
    rejected = check(row).rejected
    assert rejected["reject_reason"].to_pylist() == ["text_in_other_build"]
    assert f"another build has the {named}" in rejected["reject_detail"][0].as_py()


def test_other_texts_pass_unchanged() -> None:
    output = check({})
    assert output.kept.schema == WRITTEN
    assert len(output.rejected) == 0


def test_queries_of_other_builds_are_rejected_by_id_and_by_words() -> None:
    first = (
        NORMALISE(make_rows(RAW_QUERY, [{"query_text": "Turn on the lamp"}]), make_context(NormaliseQueries()))
        .kept["query_id"][0]
        .as_py()
    )
    contents = make_exclusions()
    contents.queries.add(first)
    texts = ["Turn on the lamp", "set an alarm for 7", "Play some jazz"]
    rows = make_rows(RAW_QUERY, [{"query_text": text, "query_fault": None} for text in texts])
    output = NORMALISE(rows, replace(make_context(NormaliseQueries()), exclusions=contents))
    assert output.kept["query_text"].to_pylist() == ["Play some jazz"]
    assert output.rejected["reject_reason"].to_pylist() == ["query_in_other_build"] * 2
    assert "another build has the request 'Turn on the lamp" in output.rejected["reject_detail"][0].as_py()
    free = NORMALISE(rows, replace(make_context(NormaliseQueries()), exclusions=NO_EXCLUSIONS))
    assert len(free.kept) == 3
