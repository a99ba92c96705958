"""Write the assistant's reply under the policy of the interruption's class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import ENGINE_REASONS, RowFault, TextReply, TextRequest
from bystander.schemas.identity import derive_seed
from bystander.schemas.packs import PackClass, ReplyConduct
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.text_tasks import CONDUCT, WRITE_REPLY
from bystander.schemas.tpi import LABELLED, REPLIED
from bystander.schemas.tpi_params import WriteReplies
from bystander.tasks.stages.reply_rules import COMMON_REPLY_REASONS, narrow_schema, read_reply
from bystander.tasks.stages.text_attempts import Row, attempt_rows
from bystander.tasks.stages.text_rules import strip_opening
from bystander.tasks.texts.mentions import find_remark_words, refers_to_other_person

NAME = "write_replies"


def write_replies(rows: pa.Table, context: StageContext) -> StageOutput:
    """Write the assistant's reply to what it heard: the request as spoken (cut, where it was) and the remark.

    Columns read: primary_text, third_party_text, label, kind. Columns written: reply, reply_attempts.

    Reject reasons: those of the last of `max_attempts` tries.
        reply_has_markup, reply_leaks_label, reply_refuses, reply_repeats_itself, reply_has_too_many_words: see
        `reply_rules`. reply_mentions_remark: the class forbids it, and the reply refers to another person or has words
        that only the remark has. reply_takes_up_remark: it may refer to the person, but not use such words.
        reply_ignores_remark: the class requires a mention, and there is none.
        Reasons of the engine: `ENGINE_REASONS`.
    """
    params = cast(WriteReplies, context.params)
    classes = {item.key: item for item in context.pack.classes}

    def make_request(row: Row, number: int) -> TextRequest:
        item = classes[row["label"]]
        texts = {"primary": row["primary_text"], "third_party": row["third_party_text"], "kind": row["kind"] or ""}
        schema = context.pack.reply_schema(WRITE_REPLY.name) or {}
        return TextRequest(
            task=WRITE_REPLY.name,
            messages=context.pack.messages(WRITE_REPLY.name, {**texts, "class": item}),
            seed=derive_seed(context.build_seed, row["id"], NAME, number),
            variables={**texts, "class": item.key, CONDUCT: item.conduct},
            reply_schema=narrow_schema(
                schema, item.reply_openings if params.guided_openings else (), item.reply_ends_with
            ),
            max_tokens=params.max_tokens,
            temperature=params.temperature,
            top_p=params.top_p,
        )

    def accept(row: Row, reply: TextReply) -> Mapping[str, Any] | RowFault:
        text = read_reply(reply, [*classes, row["kind"] or ""], params.max_words)
        if isinstance(text, RowFault):
            return text
        return check_mention(text, row, classes[row["label"]]) or {"reply": text}

    attempted = attempt_rows(
        rows.to_pylist(),
        context.writer,
        make_request,
        accept,
        params.max_attempts,
        order=lambda row: (row["label"], row["id"]),
    )
    outcomes = [
        a.outcome if isinstance(a.outcome, RowFault) else {**a.outcome, "reply_attempts": a.attempts} for a in attempted
    ]
    return split_rows(NAME, rows, outcomes, REPLIED)


def check_mention(reply: str, row: Row, item: PackClass) -> RowFault | None:
    """Return the fault of a reply that mentions the remark or its words against its class's policy, or fails to."""
    # An opening is the pack's, so that no word of it comes from the remark: "leave it to you" may answer "leave it on".
    said = strip_opening(reply, item.reply_openings)
    words = find_remark_words(said, row["primary_complete"], row["third_party_text"])
    mentions = refers_to_other_person(reply)
    if not item.mentions_third_party and (mentions or words):
        return RowFault("reply_mentions_remark", f"{', '.join(words) or 'another person'} in the reply {reply!r}")
    if words and not ReplyConduct.decode(item.conduct).may_take_up:
        return RowFault("reply_takes_up_remark", f"{', '.join(words)} in the reply {reply!r}")
    if item.requires_mention and not mentions:
        return RowFault("reply_ignores_remark", f"no one is said to have spoken in the reply {reply!r}")
    return None


STAGE = Stage(
    name=NAME,
    version=1,
    reads=LABELLED,
    writes=REPLIED,
    reasons=ENGINE_REASONS
    | COMMON_REPLY_REASONS
    | {"reply_mentions_remark", "reply_takes_up_remark", "reply_ignores_remark"},
    run=write_replies,
    params_type=WriteReplies,
    engines=("writer",),
    uses=(
        "id",
        "primary_complete",
        "primary_text",
        "third_party_text",
        "label",
        "kind",
    ),
    text_tasks=(WRITE_REPLY.name,),
    class_fields=(
        "key",
        "reply_openings",
        "reply_ends_with",
        "mentions_third_party",
        "requires_mention",
        "takes_up_remark",
    ),
)
