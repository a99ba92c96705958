"""What the assistant's reply must look like, shared by the stages that write replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bystander.schemas.engines import RowFault, TextReply
from bystander.tasks.stages import text_rules as rules
from bystander.tasks.stages.reply_formats import make_line_pattern, set_patterns
from bystander.tasks.texts.spoken_text import split_words

REPLY_CHARACTERS = (10, 170)

COMMON_REPLY_REASONS = frozenset(
    {"reply_has_markup", "reply_leaks_label", "reply_refuses", "reply_repeats_itself", "reply_has_too_many_words"}
)
"""Reasons of `read_reply`, beside those of the engine."""


def read_reply(reply: TextReply, label_keys: Sequence[str], max_words: int) -> str | RowFault:
    """Return the reply's text, or the first rule that it breaks, whatever its class.

    `reply_has_markup`: JSON, markdown or line breaks. `reply_leaks_label`: it talks about roles or classes.
    `reply_refuses`: it declines the request. `reply_repeats_itself`: it loops. `reply_has_too_many_words`.
    """
    value = (reply.value or {}).get("reply")
    if not isinstance(value, str):
        return RowFault("unparsable_reply", "the answer has no field reply")
    text = value.strip()
    if not split_words(text):
        return RowFault("empty_reply", "the reply has no words")
    checks = (
        ("reply_has_markup", rules.has_markup(text)),
        ("reply_leaks_label", rules.leaks_labels(text, label_keys, label_keys)),
        ("reply_refuses", rules.refuses(text)),
        ("reply_repeats_itself", rules.repeats_itself(text)),
        ("reply_has_too_many_words", len(split_words(text)) > max_words),
    )
    for reason, broken in checks:
        if broken:
            return RowFault(reason, f"reply: {text!r}")
    return text


def narrow_schema(schema: Mapping[str, Any], openings: Sequence[str], ends_with: Sequence[str]) -> Mapping[str, Any]:
    """Return the reply's schema with a pattern for its beginning and end; `schema` itself without openings."""
    if not openings:
        return schema
    pattern = make_line_pattern(openings, ends_with, *REPLY_CHARACTERS).replace("[A-Za-z0-9', ]", "[A-Za-z0-9',.? ]")
    return set_patterns(schema, {"reply": pattern})
