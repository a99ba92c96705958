"""A judge that follows written rules: what engines without a model answer the rubrics of an evaluation with.

It looks for three things in an answer (`tasks.texts.mentions`): does it say that another person spoke (mention), has it
distinctive words of the second text (takes it up), does it leave the decision to the user (asks). These are rules, not
the truth: an answer may attribute a remark in words that the rules do not know, or share a word with it by chance. They
are for trying things out, and a fixed point that model judges can be held against. English, and the classes of the
reference pack.

RSF, response strategy following:

| class | 1 when the answer |
|---|---|
| actionable | mentions and asks (one in five of the playbook's own replies takes a remark up in other words) |
| ignorable | neither mentions nor takes up |
| one speaker | mentions, which is wrong there |

OH, overall helpfulness, on a ladder:

| score | actionable | ignorable | one speaker |
|---|---|---|---|
| 5 | mentions, asks, takes up | neither mentions nor takes up, answers the request | takes up |
| 4 | mentions, and asks or takes up | neither mentions nor takes up, nothing of the request | answers the request |
| 3 | neither mentions nor takes up | | nothing of either text |
| 2 | mentions only, or takes up and asks | mentions | mentions, takes up |
| 1 | takes up as if the user had said it | takes up as if the user had said it | mentions only |

For one speaker, 3 and above is without a mention. An answer is one to the request when they share a word that says
something.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from bystander.schemas.engines import RowFault, TextReply
from bystander.schemas.text_tasks import (
    JUDGE_HELPFULNESS,
    JUDGE_ONE_SPEAKER_HELPFULNESS,
    JUDGE_ONE_SPEAKER_STRATEGY,
    JUDGE_STRATEGY,
)
from bystander.tasks.texts.mentions import asks_user, find_remark_words, refers_to_other_person
from bystander.tasks.texts.spoken_text import list_content_words

ACTIONABLE, IGNORABLE = "actionable", "ignorable"


def judge_by_rules(task: str, variables: Mapping[str, str]) -> TextReply | RowFault:
    """Return the verdict on an answer, as a model that was asked by the task's rubric would write it.

    A class that the rules do not know comes back as a `RowFault` with reason `outside_coverage`.

    Raises:
        KeyError: a variable of the task is missing.
    """
    primary, third_party, answer = variables["primary"], variables["third_party"], variables["answer"]
    mentions = refers_to_other_person(answer)
    words = find_remark_words(answer, primary, third_party)
    asks = asks_user(answer)
    answers = bool({*list_content_words(answer)} & {*list_content_words(primary)})
    if task == JUDGE_ONE_SPEAKER_STRATEGY.name:
        score = int(mentions)
    elif task == JUDGE_ONE_SPEAKER_HELPFULNESS.name:
        score = _grade_one_speaker(mentions, bool(words), answers)
    else:
        item = variables["class"]
        if item not in (ACTIONABLE, IGNORABLE):
            return RowFault("outside_coverage", f"the rules judge {ACTIONABLE} and {IGNORABLE} remarks, not {item!r}")
        if task == JUDGE_STRATEGY.name:
            score = int(mentions and asks if item == ACTIONABLE else not mentions and not words)
        elif task == JUDGE_HELPFULNESS.name:
            grade = _grade_actionable if item == ACTIONABLE else _grade_ignorable
            score = grade(mentions, bool(words), asks, answers)
        else:
            raise ValueError(f"{task}: is no task of a judge")
    facts = [
        "mentions another person" if mentions else "mentions nobody else",
        f"takes up {', '.join(words)}" if words else "takes nothing up",
        "asks the user" if asks else "asks nothing",
    ]
    value = {"rationale": f"By rule: {'; '.join(facts)}."[:300], "score": score}
    return TextReply(text=json.dumps(value, ensure_ascii=False), value=value)


def _grade_actionable(mentions: bool, takes_up: bool, asks: bool, answers: bool) -> int:
    del answers  # an answer to the request alone passes over what would have helped
    if mentions:
        return 2 + 2 * (asks or takes_up) + (asks and takes_up)
    return (2 if asks else 1) if takes_up else 3


def _grade_ignorable(mentions: bool, takes_up: bool, asks: bool, answers: bool) -> int:
    del asks
    if mentions:
        return 2
    return 1 if takes_up else 4 + answers


def _grade_one_speaker(mentions: bool, takes_up: bool, answers: bool) -> int:
    if mentions:
        return 1 + takes_up
    return 5 if takes_up else 3 + answers
