"""The judge that goes by rules: each rung of its ladder, and what it makes of the playbook's own replies."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.prompts.load import load_pack
from bystander.schemas.engines import TextRequest
from bystander.schemas.packs import PackClass, ReplyConduct
from bystander.schemas.text_tasks import CONDUCT, JUDGE_TASKS
from bystander.tasks.engines.fake_text import FakeTextEngine
from bystander.tasks.engines.playbook import PlaybookTextEngine
from bystander.tasks.engines.playbook_data import load_playbook_data
from bystander.tasks.engines.playbook_dialogues import list_dialogues
from bystander.tasks.engines.rule_judge import judge_by_rules

CLASSES = {item.key: item for name in ("reference", "household", "strict_primary") for item in load_pack(name).classes}
REQUEST, REMARK = "Order a large pizza.", "And ask for extra olives."


def judge(task, answer, label="actionable", primary=REQUEST, third_party=REMARK):
    texts = {"primary": primary, "third_party": third_party, "class": label, "answer": answer}
    texts[CONDUCT] = CLASSES[label].conduct if label else ""
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


@pytest.mark.parametrize(
    ("answer", "rsf", "oh"),
    [
        ("Someone with you wished for olives, so they are on it.", 1, 5),
        ("As someone with you wished, a large pizza is ordered.", 1, 4),
        ("Okay, one large pizza.", 0, 3),
        ("Someone with you spoke.", 1, 2),  # what is to be done is beyond the rules
        ("Okay, a pizza with olives.", 0, 1),
    ],
)
def test_ladder_of_what_is_done_and_attributed(answer, rsf, oh):
    assert judge("judge_strategy", answer, "act") == rsf
    assert judge("judge_helpfulness", answer, "act") == oh


@pytest.mark.parametrize(
    ("answer", "rsf", "oh"),
    [
        ("One large pizza is ordered. Someone else spoke too, which I leave to you.", 1, 5),
        ("Someone else spoke too, which I leave to you.", 1, 4),
        ("One large pizza is ordered.", 0, 3),
        ("Someone with you would like olives, which I leave to you.", 0, 2),
        ("A pizza with olives is ordered.", 0, 1),
        ("Okay.", 0, 1),
    ],
)
def test_ladder_of_what_is_left_to_the_people(answer, rsf, oh):
    assert judge("judge_strategy", answer, "defer") == rsf
    assert judge("judge_helpfulness", answer, "defer") == oh


@pytest.mark.parametrize(
    ("label", "same_as"), [("confirm", "actionable"), ("contested", "ignorable"), ("incidental", "ignorable")]
)
def test_classes_that_ask_the_same_are_judged_the_same(label, same_as):
    assert CLASSES[label].conduct == CLASSES[same_as].conduct
    for task in ("judge_strategy", "judge_helpfulness"):
        for answer in ("Okay, one large pizza.", "Someone with you would like olives. Shall I add them?"):
            assert judge(task, answer, label) == judge(task, answer, same_as)


def test_a_class_that_may_mention_but_need_not_is_silent_where_the_answer_is():
    item = PackClass(key="free", criteria="c", policy="p", mentions_third_party=True)
    texts = {"primary": REQUEST, "third_party": REMARK, "class": "free", CONDUCT: item.conduct}

    def grade(answer):
        tasks = ("judge_strategy", "judge_helpfulness")
        return [judge_by_rules(task, {**texts, "answer": answer}).value["score"] for task in tasks]

    assert grade("Okay, one large pizza.") == [1, 5]
    assert grade("Someone with you would like olives, so they are on it.") == [1, 5]
    assert grade("Okay, a pizza with olives.") == [1, 1]


@given(st.builds(ReplyConduct, *[st.booleans()] * 4))
def test_conduct_survives_its_text(conduct):
    assert ReplyConduct.decode(conduct.encode()) == conduct


@pytest.mark.parametrize("engine", [FakeTextEngine(), PlaybookTextEngine()])
@pytest.mark.parametrize("task", [task.name for task in JUDGE_TASKS])
def test_engines_without_a_model_answer_every_rubric_with_reasons(engine, task):
    texts = {"primary": REQUEST, "third_party": REMARK, "class": "actionable", "answer": 'Olives? "Yes".'}
    texts[CONDUCT] = CLASSES["actionable"].conduct
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
