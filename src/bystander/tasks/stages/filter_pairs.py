"""Stage `filter_pairs`: rules that drop what cannot be a request to an assistant, before a model is asked."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import RowFault
from bystander.schemas.real_world import PAIR
from bystander.schemas.real_world_params import FilterPairs
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.texts.backchannels import is_backchannel
from bystander.tasks.texts.request_forms import asks_or_requests, find_human_need, find_name, split_speaker_name
from bystander.tasks.texts.spoken_text import is_speakable

NAME = "filter_pairs"


def filter_pairs(rows: pa.Table, context: StageContext) -> StageOutput:
    """Keep pairs whose first turn has the form of a request, and nothing that needs a person, eyes or hands.

    Columns read: language, primary_text, third_party_text, others_s, speakers.

    Reject reasons, the first that holds:
        language_not_covered: there are no rules for it, see `languages`.
        not_speakable: a text has signs that nobody says.
        primary_too_short, primary_too_long, third_party_too_short, third_party_too_long: by words.
        no_request_form: the first turn is neither question nor request.
        backchannel_only: the second turn only shows that its speaker listens.
        addressee_name: the first turn calls somebody by name: a speaker of the recording, one of `names`, or a common
            given name where it calls somebody.
        asks_to_repeat, asks_for_opinion, addresses_people, refers_to_people, needs_context, needs_sight, needs_hands:
            see `tasks.texts.request_forms`.
        others_speak: anybody else speaks for more than `max_others_s`.
    """
    params = cast(FilterPairs, context.params)
    called = frozenset(name.lower() for name in params.names)
    outcomes: list[Mapping[str, Any] | RowFault] = [
        _check(row, params, called) or {} for row in rows.select(_USES).to_pylist()
    ]
    return split_rows(NAME, rows, outcomes, PAIR)


def _check(row: Mapping[str, Any], params: FilterPairs, called: Collection[str]) -> RowFault | None:
    primary, third_party = row["primary_text"], row["third_party_text"]
    if row["language"] not in params.languages:
        return RowFault("language_not_covered", row["language"])
    for speaker, text, least, most in (
        ("primary", primary, params.min_primary_words, params.max_primary_words),
        ("third_party", third_party, params.min_third_party_words, params.max_third_party_words),
    ):
        if not is_speakable(text):
            return RowFault("not_speakable", text)
        words = len(text.split())
        if words < least:
            return RowFault(f"{speaker}_too_short", f"{words} words")
        if words > most:
            return RowFault(f"{speaker}_too_long", f"{words} words")
    if not asks_or_requests(primary):
        return RowFault("no_request_form")
    if is_backchannel(third_party, "en"):
        return RowFault("backchannel_only", third_party)
    if (name := find_name(primary, {*_list_names(row["speakers"]), *called})) is not None:
        return RowFault("addressee_name", name)
    if (need := find_human_need(primary)) is not None:
        return RowFault(need[0], need[1])
    if row["others_s"] > params.max_others_s:
        return RowFault("others_speak", f"{row['others_s']:.2f} s")
    return None


@cache
def _list_names(speakers: str) -> frozenset[str]:
    return frozenset(name for speaker in json.loads(speakers) for name in split_speaker_name(speaker))


_USES = ("language", "primary_text", "third_party_text", "others_s", "speakers")

STAGE = Stage(
    name=NAME,
    version=1,
    reads=PAIR,
    writes=PAIR,
    reasons=frozenset(
        {
            "language_not_covered",
            "not_speakable",
            "primary_too_short",
            "primary_too_long",
            "third_party_too_short",
            "third_party_too_long",
            "no_request_form",
            "backchannel_only",
            "addressee_name",
            "asks_to_repeat",
            "asks_for_opinion",
            "addresses_people",
            "refers_to_people",
            "needs_context",
            "needs_sight",
            "needs_hands",
            "others_speak",
        }
    ),
    run=filter_pairs,
    params_type=FilterPairs,
    uses=_USES,
)
