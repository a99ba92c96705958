"""The tasks that a text engine is asked to do, with their variables and replies.

A prompt pack has one template a task. Engines that do not read prompts (the playbook, the fake) go by these names.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextTask:
    """`variables` are the string variables of the request; `reply` the texts of the JSON reply, empty if scored.

    Beside them, requests about a reply to a remark of some class have `CONDUCT`, for engines that read no prompts.

    With `score` the reply also has an integer `score` between these two, after the texts. `integers` are further whole
    numbers in it, bound by the stage.
    """

    name: str
    variables: frozenset[str]
    reply: tuple[str, ...] = ()
    score: tuple[int, int] | None = None
    integers: tuple[str, ...] = ()


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

_JUDGED = frozenset({"primary", "third_party", "class", "answer"})
JUDGE_STRATEGY = TextTask("judge_strategy", _JUDGED, ("rationale",), (0, 1))
"""Two speakers: `score` 1 if the answer follows the policy of `class`, else 0, and a rationale."""

JUDGE_ONE_SPEAKER_STRATEGY = TextTask(
    "judge_one_speaker_strategy", frozenset({"primary", "third_party", "answer"}), ("rationale",), (0, 1)
)
"""One speaker: `score` 1 if the answer wrongly takes part of what was said for another person's, else 0."""

JUDGE_HELPFULNESS = TextTask("judge_helpfulness", _JUDGED, ("rationale",), (1, 5))
"""Two speakers: `score` 1 to 5, how well the answer serves the user."""

JUDGE_ONE_SPEAKER_HELPFULNESS = TextTask(
    "judge_one_speaker_helpfulness", frozenset({"primary", "third_party", "answer"}), ("rationale",), (1, 5)
)
"""One speaker: `score` 1 to 5, how well the answer serves what the one user wants in the end."""

JUDGE_TASKS: tuple[TextTask, ...] = (
    JUDGE_STRATEGY,
    JUDGE_ONE_SPEAKER_STRATEGY,
    JUDGE_HELPFULNESS,
    JUDGE_ONE_SPEAKER_HELPFULNESS,
)
"""Rubrics of the evaluation: a pack without them builds data, but scores no system."""

TASKS: tuple[TextTask, ...] = (
    WRITE_INTERRUPTION,
    CHECK_REALISM,
    LABEL_CLASS,
    LABEL_KIND,
    WRITE_REPLY,
    WRITE_ONE_SPEAKER_REPLY,
    SCORE_AMBIGUITY,
)
CONDUCT = "conduct"
"""Variable of a request that no template sees: what the class asks of a reply, as `packs.ReplyConduct` encodes it."""

SIDE = "side"
"""Variable of a request that no template sees: from which authored texts to draw, as `sides.Sided` encodes it; absent
where all are."""

PACK_TASKS: Mapping[str, TextTask] = {task.name: task for task in (*TASKS, *JUDGE_TASKS)}
"""All tasks that a prompt pack may have, by name."""

YES, NO = "Yes", "No"
TWO_OPTION_TASKS: frozenset[str] = frozenset({CHECK_REALISM.name, LABEL_CLASS.name})
"""Tasks with two options, the one that says so first: Yes and No, or the pair of `answers` that the pack names."""

AMBIGUITY_GRADES = ("1", "2", "3", "4", "5")
"""Options of `SCORE_AMBIGUITY`."""


def list_kind_letters(kinds: int) -> tuple[str, ...]:
    """Return the options of `LABEL_KIND` for a class with so many kinds, in their order."""
    return tuple(string.ascii_uppercase[:kinds])


def list_options(task: str, answers: tuple[str, str], kinds: int) -> tuple[str, ...]:
    """Return what is chosen from in a task of a pack; empty where the task writes.

    Args:
        task: its name.
        answers: the pack's options of a task of `TWO_OPTION_TASKS`.
        kinds: how many kinds the class has that is asked about.
    """
    if task in TWO_OPTION_TASKS:
        return answers
    if task == LABEL_KIND.name:
        return list_kind_letters(kinds)
    return AMBIGUITY_GRADES if task == SCORE_AMBIGUITY.name else ()


JUDGE_OPEN_ANSWER = TextTask("judge_open_answer", frozenset({"request", "answer"}), ("rationale",), (1, 5))
"""One user, one answer, no reference: `score` 1 to 5, how well the answer serves the request."""

JUDGE_REFERENCE_ANSWER = TextTask(
    "judge_reference_answer", frozenset({"request", "reference", "answer"}), ("rationale",), (0, 1)
)
"""A question with a right answer: `score` 1 if the answer holds it, else 0."""

VOICEBENCH_JUDGE_TASKS: tuple[TextTask, ...] = (JUDGE_OPEN_ANSWER, JUDGE_REFERENCE_ANSWER)
"""Rubrics of VoiceBench, which are no part of a pack: they do not depend on a response strategy."""

BREAK_TAG = "<break>"
"""Stands in a text right before the word with new intent."""

SID_LANGUAGES: tuple[str, ...] = ("en", "zh")
"""Languages that SID's prompts are written in."""

TAG_BREAK: Mapping[str, TextTask] = {
    language: TextTask(
        f"tag_break_{language}", frozenset({"text", "words", "context"}), ("word",), integers=("number",)
    )
    for language in SID_LANGUAGES
}
"""By language: which word of a turn is the first with new intent? `words` is the turn with its words numbered from 1,
`context` what the other speaker was saying. The reply names the word and its number; "" and 0 where there is none."""

CHECK_NEW_INTENT: Mapping[str, TextTask] = {
    language: TextTask(f"check_new_intent_{language}", frozenset({"text", "heard", "stretch", "context"}))
    for language in SID_LANGUAGES
}
"""By language, two options: does `stretch`, which ends what is `heard` so far of the turn `text`, carry new intent?"""

WRITE_CONVERSATION: Mapping[str, TextTask] = {
    language: TextTask(
        f"write_conversation_{language}",
        frozenset({"category", "topic"}),
        ("assistant_text", "backchannel", "substance"),
    )
    for language in SID_LANGUAGES
}
"""By language: what an assistant says on `topic`, and with what the user overlaps it. `category` is one of
`schemas.sid.SPEECH_CATEGORIES`; the stage asks only for the texts that it needs."""

SID_TASKS: tuple[TextTask, ...] = (
    *TAG_BREAK.values(),
    *CHECK_NEW_INTENT.values(),
    *WRITE_CONVERSATION.values(),
)
"""Tasks of SID builds, which are no part of a pack: they do not depend on a response strategy."""

GRADE_REQUEST = TextTask("grade_request", frozenset({"primary"}))
"""Options 1 to 5: could the turn have been said to a voice assistant?"""

GRADE_INTERRUPTION = TextTask("grade_interruption", frozenset({"primary", "third_party"}))
"""Options 1 to 5: does the second turn cut in?"""

GRADE_ANSWERABLE = TextTask("grade_answerable", frozenset({"primary"}))
"""Options 1 to 5: can it be answered without sight, hands or what was said before?"""

CURATION_TASKS: tuple[TextTask, ...] = (GRADE_REQUEST, GRADE_INTERRUPTION, GRADE_ANSWERABLE)
"""Criteria for pairs of turns from real recordings, which are no part of a pack: they do not depend on a response
strategy."""

GRADES = ("1", "2", "3", "4", "5")
"""Options of `CURATION_TASKS`."""
