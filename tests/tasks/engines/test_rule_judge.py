"""The judge that goes by rules: each rung of its ladder, and what it makes of the playbook's own replies."""

from __future__ import annotations

import itertools

import pytest

from bystander.schemas.engines import RowFault, TextRequest
from bystander.schemas.text_tasks import JUDGE_TASKS
from bystander.tasks.engines.fake_text import FakeTextEngine
from bystander.tasks.engines.playbook import PlaybookTextEngine
from bystander.tasks.engines.playbook_data import load_playbook_data
from bystander.tasks.engines.playbook_dialogues import list_dialogues
from bystander.tasks.engines.rule_judge import judge_by_rules

REQUEST, REMARK = "Order a large pizza.", "And ask for extra olives."


def judge(task, answer, label="actionable", primary=REQUEST, third_party=REMARK):
    texts = {"primary": primary, "third_party": third_party, "class": label, "answer": answer}
    reply = judge_by_rules(task, texts)
    return reply.value["score"]


@pytest.mark.parametrize(
    ("answer", "rsf", "oh"),
    [
        ("Someone with you would like olives. Shall I add them?", 1, 5),
        ("Someone with you has a wish. Shall I do that?", 1, 4),
        ("Someone with you would like olives.", 0, 4),
        ("Okay, one large pizza.", 0, 3),
        ("Someone with you spoke.", 0, 2),
        ("Shall I add olives?", 0, 2),
        ("Okay, a pizza with olives.", 0, 1),
    ],
)
def test_actionable_ladder(answer, rsf, oh):
    assert judge("judge_strategy", answer) == rsf
    assert judge("judge_helpfulness", answer) == oh


@pytest.mark.parametrize(
    ("answer", "rsf", "oh"),
    [
        ("Okay, one large pizza.", 1, 5),
        ("Okay, done.", 1, 4),
        ("Someone with you spoke.", 0, 2),
        ("Okay, a pizza with olives.", 0, 1),
    ],
)
def test_ignorable_ladder(answer, rsf, oh):
    assert judge("judge_strategy", answer, "ignorable") == rsf
    assert judge("judge_helpfulness", answer, "ignorable") == oh


@pytest.mark.parametrize(
    ("answer", "rsf", "oh"),
    [
        ("Okay, a pizza with olives.", 0, 5),
        ("Okay, one large pizza.", 0, 4),
        ("Okay, done.", 0, 3),
        ("Someone with you would like olives. Shall I add them?", 1, 2),
        ("Someone with you spoke.", 1, 1),
    ],
)
def test_one_speaker_ladder(answer, rsf, oh):
    assert judge("judge_one_speaker_strategy", answer) == rsf
    assert judge("judge_one_speaker_helpfulness", answer) == oh


def test_classes_of_other_packs_are_outside_its_coverage():
    texts = {"primary": REQUEST, "third_party": REMARK, "class": "urgent", "answer": "Okay."}
    fault = judge_by_rules("judge_strategy", texts)
    assert isinstance(fault, RowFault)
    assert fault.reason == "outside_coverage"
    assert "'urgent'" in fault.detail


@pytest.mark.parametrize("engine", [FakeTextEngine(), PlaybookTextEngine()])
@pytest.mark.parametrize("task", [task.name for task in JUDGE_TASKS])
def test_engines_without_a_model_answer_every_rubric_with_reasons(engine, task):
    texts = {"primary": REQUEST, "third_party": REMARK, "class": "actionable", "answer": 'Olives? "Yes".'}
    [reply] = engine.generate([TextRequest(task, (), seed=1, variables=texts)])
    assert set(reply.value) == {"rationale", "score"}
    assert reply.value["rationale"] == "By rule: mentions nobody else; takes up oliv; asks nothing."


def test_replies_of_the_playbook_follow_their_own_strategy():
    """All but a handful: words that replies and remarks share by chance."""
    dialogues = list(itertools.islice(list_dialogues(load_playbook_data()), 0, None, 97))
    assert len(dialogues) > 1000
    odd = [d for d in dialogues if not judge("judge_strategy", d.reply, d.label, d.primary, d.third_party)]
    assert len(odd) <= len(dialogues) / 1000
    one_speaker = [d for d in dialogues if d.one_speaker_reply]
    inferred = [
        d for d in one_speaker if judge("judge_one_speaker_strategy", d.one_speaker_reply, "", d.primary, d.third_party)
    ]
    assert len(inferred) <= len(one_speaker) / 1000
