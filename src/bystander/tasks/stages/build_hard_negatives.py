"""Turn finished two-speaker rows into one-speaker rows of the same transcript."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import ENGINE_REASONS, RowFault, TextReply, TextRequest
from bystander.schemas.identity import derive_seed, make_id
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import WRITE_ONE_SPEAKER_REPLY
from bystander.schemas.tpi import HARD_NEGATIVE_LABEL, VOICED
from bystander.schemas.tpi_params import BuildHardNegatives
from bystander.tasks.stages.reply_rules import COMMON_REPLY_REASONS, read_reply
from bystander.tasks.stages.text_attempts import Row, attempt_rows
from bystander.tasks.texts.mentions import refers_to_other_person

NAME = "build_hard_negatives"


def build_hard_negatives(rows: pa.Table, context: StageContext) -> StageOutput:
    """Make the one-speaker twin of each row whose transcript one person could plausibly say.

    The twin keeps texts, scenario, timing and scores; its speech is made anew by the stages that follow, from the whole
    transcript in the primary's voice.

    Columns read: id, primary_text, third_party_text, ambiguity_score. Columns written: id, label
    (`hard_negative`), kind (null), reply, reply_attempts, n_speakers (1), third_party_voice (null),
    twin_id (the two-speaker row's id).

    Reject reasons: not_ambiguous: ambiguity_score is below `min_ambiguity`. Those of the last of `reply.max_attempts`
        tries: reply_has_markup, reply_leaks_label, reply_refuses, reply_repeats_itself, reply_has_too_many_words: see
        `reply_rules`. reply_mentions_speaker: it refers to another person. Reasons of the engine: `ENGINE_REASONS`.
    """
    params = cast(BuildHardNegatives, context.params)
    schema = context.pack.reply_schema(WRITE_ONE_SPEAKER_REPLY.name) or {}
    table = rows.to_pylist()
    ambiguous = [i for i, row in enumerate(table) if row["ambiguity_score"] >= params.min_ambiguity]

    def make_request(row: Row, number: int) -> TextRequest:
        texts = {"primary": row["primary_text"], "third_party": row["third_party_text"]}
        return TextRequest(
            task=WRITE_ONE_SPEAKER_REPLY.name,
            messages=context.pack.messages(WRITE_ONE_SPEAKER_REPLY.name, texts),
            seed=derive_seed(context.build_seed, row["id"], NAME, number),
            variables=texts,
            reply_schema=schema,
            max_tokens=params.reply.max_tokens,
            temperature=params.reply.temperature,
            top_p=params.reply.top_p,
        )

    def accept(_: Row, reply: TextReply) -> Mapping[str, Any] | RowFault:
        text = read_reply(reply, [item.key for item in context.pack.classes], params.reply.max_words)
        if isinstance(text, RowFault):
            return text
        if refers_to_other_person(text):
            return RowFault("reply_mentions_speaker", f"another person in the reply {text!r}")
        return {"reply": text}

    written = attempt_rows(
        [table[i] for i in ambiguous], context.writer, make_request, accept, params.reply.max_attempts
    )
    outcomes: list[Mapping[str, Any] | RowFault] = [
        RowFault("not_ambiguous", f"ambiguity {row['ambiguity_score']:.2f} is below {params.min_ambiguity}")
        for row in table
    ]
    for i, attempted in zip(ambiguous, written, strict=True):
        if isinstance(attempted.outcome, RowFault):
            outcomes[i] = attempted.outcome
            continue
        outcomes[i] = {
            "id": name_hard_negative(table[i]["id"]),
            "label": HARD_NEGATIVE_LABEL,
            "kind": None,
            "reply": attempted.outcome["reply"],
            "reply_attempts": attempted.attempts,
            "n_speakers": 1,
            "third_party_voice": None,
            "twin_id": table[i]["id"],
        }
    return split_rows(NAME, rows, outcomes, VOICED)


def name_hard_negative(pair_id: str) -> str:
    """Return the id of the one-speaker twin of a two-speaker row."""
    return make_id("row", pair_id, HARD_NEGATIVE_LABEL)


STAGE = Stage(
    name=NAME,
    version=1,
    reads=VOICED,
    writes=VOICED,
    reasons=ENGINE_REASONS | COMMON_REPLY_REASONS | {"not_ambiguous", "reply_mentions_speaker"},
    run=build_hard_negatives,
    params_type=BuildHardNegatives,
    engines=("writer",),
    uses=(
        "id",
        "primary_text",
        "third_party_text",
        "ambiguity_score",
    ),
    text_tasks=(WRITE_ONE_SPEAKER_REPLY.name,),
    from_engines=("reply", "reply_attempts"),
    class_fields=("key",),
)
