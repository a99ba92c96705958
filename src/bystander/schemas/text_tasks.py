"""The tasks that a text engine is asked to do, with their variables and replies.

A prompt pack has one template a task. Engines that do not read prompts (the playbook, the fake) go by these names.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextTask:
    """`variables` are the string variables of the request; `reply` the keys of the JSON reply, empty if scored."""

    name: str
    variables: frozenset[str]
    reply: tuple[str, ...] = ()


WRITE_INTERRUPTION = TextTask(
    "write_interruption", frozenset({"request", "scenario", "timing"}), ("primary", "third_party")
)
"""Rewrite the request as spoken language (`primary`, complete: the stage cuts it) and write the bystander's line."""

CHECK_REALISM = TextTask("check_realism", frozenset({"primary", "third_party", "scenario", "timing"}))
"""Two options: could this exchange really happen beside a voice assistant, and is the request one?"""

LABEL_CLASS = TextTask("label_class", frozenset({"primary", "third_party", "class"}))
"""Two options: does the interruption meet the criteria of `class`? Asked of every class but the pack's last."""

LABEL_KIND = TextTask("label_kind", frozenset({"primary", "third_party", "class"}))
"""Options A, B, C, ...: which kind of `class`, in the pack's order?"""

WRITE_REPLY = TextTask("write_reply", frozenset({"primary", "third_party", "class", "kind"}), ("reply",))
"""The assistant's reply under the policy of `class` (`kind` is empty where there is none)."""

WRITE_ONE_SPEAKER_REPLY = TextTask("write_one_speaker_reply", frozenset({"primary", "third_party"}), ("reply",))
"""The assistant's reply when both texts come, one after the other, from one person."""

SCORE_AMBIGUITY = TextTask("score_ambiguity", frozenset({"primary", "third_party"}))
"""Options 1 to 5: how plausibly is the concatenated transcript one person talking? The score is their expectation."""

TASKS: tuple[TextTask, ...] = (
    WRITE_INTERRUPTION,
    CHECK_REALISM,
    LABEL_CLASS,
    LABEL_KIND,
    WRITE_REPLY,
    WRITE_ONE_SPEAKER_REPLY,
    SCORE_AMBIGUITY,
)
YES, NO = "Yes", "No"
TWO_OPTION_TASKS: frozenset[str] = frozenset({CHECK_REALISM.name, LABEL_CLASS.name})
"""Tasks with two options, the one that says so first: Yes and No, or the pair of `answers` that the pack names."""
