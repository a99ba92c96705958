from __future__ import annotations

import pytest

from bystander.prompts.load_rubrics import load_rubrics
from bystander.schemas.errors import PackError
from bystander.schemas.packs import PromptPack
from bystander.schemas.text_tasks import JUDGE_OPEN_ANSWER, JUDGE_REFERENCE_ANSWER, VOICEBENCH_JUDGE_TASKS


def test_rubrics_serve_as_a_pack_without_classes() -> None:
    rubrics: PromptPack = load_rubrics("voicebench")
    assert rubrics.classes == ()
    assert len(rubrics.digest) == 64
    assert len({rubrics.task_digest(task.name) for task in VOICEBENCH_JUDGE_TASKS}) == 2


@pytest.mark.parametrize("task", VOICEBENCH_JUDGE_TASKS, ids=lambda task: task.name)
def test_every_verdict_has_reasons_before_its_score(task) -> None:
    schema = load_rubrics("voicebench").reply_schema(task.name)
    assert schema is not None
    assert list(schema["properties"]) == ["rationale", "score"]
    assert schema["required"] == ["rationale", "score"]
    lowest, highest = task.score
    assert schema["properties"]["score"]["enum"] == list(range(lowest, highest + 1))


@pytest.mark.parametrize("task", VOICEBENCH_JUDGE_TASKS, ids=lambda task: task.name)
def test_examples_in_a_rubric_fit_its_schema(task) -> None:
    import json

    import jsonschema

    rubrics = load_rubrics("voicebench")
    messages = rubrics.messages(task.name, dict.fromkeys(task.variables, "x"))
    examples = [json.loads(message.content) for message in messages if message.role == "assistant"]
    assert {example["score"] for example in examples} == set(task.score)
    for example in examples:
        jsonschema.validate(example, rubrics.reply_schema(task.name))


def test_texts_come_as_json() -> None:
    rubrics = load_rubrics("voicebench")
    texts = {"request": "Who?", "reference": "Don't know", "answer": 'She said "no".'}
    content = rubrics.messages(JUDGE_REFERENCE_ANSWER.name, texts)[-1].content
    assert content == 'Question: "Who?"\nRight answer: "Don\'t know"\nSaid: "She said \\"no\\"."'


def test_what_there_is_not_is_named() -> None:
    with pytest.raises(
        PackError, match="rubrics 'other': there are none; there are curation, sid, voicebench, or give the path"
    ):
        load_rubrics("other")
    rubrics = load_rubrics("voicebench")
    with pytest.raises(PackError, match="no task 'write_reply'"):
        rubrics.messages("write_reply", {})
    with pytest.raises(PackError, match="no task 'write_reply'"):
        rubrics.task_digest("write_reply")
    with pytest.raises(PackError, match="has no pair of answers"):
        rubrics.answers(JUDGE_OPEN_ANSWER.name)
