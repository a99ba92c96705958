"""A judge that follows written rules: what engines without a model answer the rubrics of an evaluation with.

It looks for three things in an answer (`tasks.texts.mentions`): does it say that another person spoke (mention), has it
distinctive words of the second text (takes it up), does it leave the decision to the user (asks). What a remark's class
asks of these comes with the question (`packs.ReplyConduct`, from the class's fields `mentions_third_party`,
`requires_mention`, `takes_up_remark` and `reply_ends_with`), so the classes of any pack are judged. These are rules,
not the truth: an answer may attribute a remark in words that the rules do not know, or share a word with it by chance,
and what a policy asks beyond mention, words and question is not seen at all. They are for trying things out, and a
fixed point that model judges can be held against. English.

RSF, response strategy following, is 1 for two speakers when all of this is true that the class asks for:

| class | the answer |
|---|---|
| must mention | mentions |
| must ask | asks |
| may not mention | neither mentions nor takes up |
| may not take up | takes nothing up |

That a class may take words up is no duty: one in five of the playbook's own replies takes a remark up in other words.
For one speaker it is 1 when the answer mentions, which is wrong there.

OH, overall helpfulness, on ladders. An answer is one to the request when they share a word that says something.

| score | `question`: must mention and ask | `done`: must mention, need not ask |
|---|---|---|
| 5 | mentions, asks, takes up | mentions, takes up |
| 4 | mentions, and asks or takes up | mentions, answers the request |
| 3 | neither mentions nor takes up | neither mentions nor takes up |
| 2 | mentions only, or takes up and asks | mentions only |
| 1 | takes up as if the user had said it | takes up as if the user had said it |

| score | `left`: may mention, not take up | `silent`: may not mention | one speaker |
|---|---|---|---|
| 5 | mentions, answers the request | answers the request | takes up |
| 4 | mentions | nothing of the request | answers the request |
| 3 | answers the request alone | | nothing of either text |
| 2 | mentions, takes up | mentions | mentions, takes up |
| 1 | takes up, or nothing of either text | takes up as if the user had said it | mentions only |

On the ladder `silent`, 4 and 5 are without a mention and without words of the remark; for one speaker, 3 and above is
without a mention. Where a class may mention but need not, an answer without a mention is graded as `silent`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from bystander.schemas.engines import TextReply
from bystander.schemas.packs import ReplyConduct
from bystander.schemas.text_tasks import (
    CONDUCT,
    JUDGE_HELPFULNESS,
    JUDGE_ONE_SPEAKER_HELPFULNESS,
    JUDGE_ONE_SPEAKER_STRATEGY,
    JUDGE_STRATEGY,
)
from bystander.tasks.texts.mentions import asks_user, find_remark_words, refers_to_other_person
from bystander.tasks.texts.spoken_text import list_content_words


def judge_by_rules(task: str, variables: Mapping[str, str]) -> TextReply:
    """Return the verdict on an answer, as a model that was asked by the task's rubric would write it.

    Raises:
        KeyError: a variable of the task is missing; for two speakers, `conduct` is one of them.
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
        conduct = ReplyConduct.decode(variables[CONDUCT])
        if task == JUDGE_STRATEGY.name:
            score = int(_follows(conduct, mentions, bool(words), asks))
        elif task == JUDGE_HELPFULNESS.name:
            score = _grade_two_speakers(conduct, mentions, bool(words), asks, answers)
        else:
            raise ValueError(f"{task}: is no task of a judge")
    facts = [
        "mentions another person" if mentions else "mentions nobody else",
        f"takes up {', '.join(words)}" if words else "takes nothing up",
        "asks the user" if asks else "asks nothing",
    ]
    value = {"rationale": f"By rule: {'; '.join(facts)}."[:300], "score": score}
    return TextReply(text=json.dumps(value, ensure_ascii=False), value=value)


def _follows(conduct: ReplyConduct, mentions: bool, takes_up: bool, asks: bool) -> bool:
    if (conduct.must_mention and not mentions) or (conduct.must_ask and not asks):
        return False
    return (conduct.may_mention or not mentions) and (conduct.may_take_up or not takes_up)


def _grade_two_speakers(conduct: ReplyConduct, mentions: bool, takes_up: bool, asks: bool, answers: bool) -> int:
    if not conduct.may_mention or not (conduct.must_mention or mentions):
        return _grade_silent(mentions, takes_up, answers)
    if not conduct.may_take_up:
        return _grade_left(mentions, takes_up, answers)
    return _grade_question(mentions, takes_up, asks) if conduct.must_ask else _grade_done(mentions, takes_up, answers)


def _grade_question(mentions: bool, takes_up: bool, asks: bool) -> int:
    # An answer to the request alone passes over what would have helped.
    if mentions:
        return 2 + 2 * (asks or takes_up) + (asks and takes_up)
    return (2 if asks else 1) if takes_up else 3


def _grade_done(mentions: bool, takes_up: bool, answers: bool) -> int:
    if mentions:
        return 5 if takes_up else 2 + 2 * answers
    return 1 if takes_up else 3


def _grade_left(mentions: bool, takes_up: bool, answers: bool) -> int:
    if takes_up:
        return 1 + mentions
    if mentions:
        return 4 + answers
    return 3 if answers else 1


def _grade_silent(mentions: bool, takes_up: bool, answers: bool) -> int:
    if mentions:
        return 2
    return 1 if takes_up else 4 + answers


def _grade_one_speaker(mentions: bool, takes_up: bool, answers: bool) -> int:
    if mentions:
        return 1 + takes_up
    return 5 if takes_up else 3 + answers
