from __future__ import annotations

import pytest

from bystander.schemas.engines import TextReply, TextRequest
from bystander.schemas.text_tasks import JUDGE_OPEN_ANSWER, JUDGE_REFERENCE_ANSWER
from bystander.tasks.engines.fake_text import FakeTextEngine


@pytest.mark.parametrize(
    ("task", "variables", "score"),
    [
        (JUDGE_OPEN_ANSWER, {"request": "Why is the sea salty?", "answer": "No idea."}, 1),
        (JUDGE_OPEN_ANSWER, {"request": "Why is the sea salty?", "answer": "It is Salty."}, 2),
        (JUDGE_OPEN_ANSWER, {"request": "one1 two2 three four five5", "answer": "one1 two2 three four five5"}, 5),
        (JUDGE_REFERENCE_ANSWER, {"request": "Who?", "reference": "Maren Holt", "answer": "By maren holt."}, 1),
        (JUDGE_REFERENCE_ANSWER, {"request": "What?", "reference": "art", "answer": "A party."}, 0),
    ],
)
def test_rules_score_by_words_in_common(task, variables, score) -> None:
    request = TextRequest(task=task.name, messages=(), seed=1, variables=variables)
    (reply,) = FakeTextEngine().generate([request])
    assert isinstance(reply, TextReply)
    assert reply.value is not None
    assert reply.value["score"] == score
