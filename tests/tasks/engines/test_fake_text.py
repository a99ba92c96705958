from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.prompts.load import load_pack
from bystander.schemas.engines import RowFault, TextReply, TextRequest
from bystander.schemas.taxonomy import Scenario, ScenarioExample, Taxonomy
from bystander.schemas.text_tasks import NO, YES
from bystander.tasks.engines.fake_text import FakeTextEngine
from bystander.tasks.engines.rule_judge import judge_by_rules
from bystander.tasks.stages.write_replies import check_mention


def make_engine(**fields):
    scenarios = (
        Scenario(
            key="endorsement",
            category="agreement",
            definition="Somebody nearby approves of the request.",
            examples=(ScenarioExample(primary="Play jazz.", third_party="Good idea."),),
            openings=("It's a ", "Great choice, "),
            ends_with=("!",),
        ),
    )
    return FakeTextEngine(taxonomy=Taxonomy(name="t", scenarios=scenarios), **fields)


def ask(task, options=(), seed=0, schema=None, **variables):
    if "class_" in variables:
        variables["class"] = variables.pop("class_")
    return TextRequest(task, (), seed=seed, variables=variables, options=options, reply_schema=schema)


def write(request="play some jazz", scenario="endorsement", seed=0, schema=None):
    variables = {"request": request, "scenario": scenario, "timing": "within_sentence"}
    [reply] = make_engine().generate([ask("write_interruption", seed=seed, schema=schema, **variables)])
    return reply.value


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [("play some jazz", "Play some jazz."), ("how old is the moon", "How old is the moon?"), ("Stop it!", "Stop it!")],
)
def test_request_becomes_a_sentence(request_, sentence):
    assert write(request_)["primary"] == sentence


@given(seed=st.integers(0, 2**63 - 1), scenario=st.sampled_from(["endorsement", "unheard_of"]))
def test_lines_keep_the_rules(seed, scenario):
    line = write(seed=seed, scenario=scenario)["third_party"]
    assert re.fullmatch(r"[A-Z][A-Za-z ]+[.?!]", line)
    assert 5 <= len(line.split()) <= 12
    assert line.endswith("!" if scenario == "endorsement" else ".")


def test_lines_differ_by_seed():
    assert len({write(seed=seed)["third_party"] for seed in range(50)}) > 40


def test_line_takes_an_opening_where_the_schema_guides_it():
    schema = {"properties": {"third_party": {"type": "string", "pattern": "^Great choice, .*$"}}}
    assert write(schema=schema)["third_party"].startswith("Great choice, the ")


def test_realism_is_seeded():
    requests = [ask("check_realism", (YES, NO), seed, primary="A.", third_party="B.") for seed in range(1000)]
    yes = [reply.option_probs[YES] for reply in make_engine().generate(requests)]
    assert {round(p, 9) for p in yes} == {0.9, 0.1}
    assert 0.03 < sum(p < 0.5 for p in yes) / 1000 < 0.07


def test_labels_are_functions_of_the_texts():
    requests = [
        ask("label_class", (YES, NO), seed, primary="A.", third_party=str(i), class_="actionable")
        for i in range(500)
        for seed in (1, 2)
    ]
    replies = make_engine().generate(requests)
    assert replies[0::2] == replies[1::2]
    assert 0.4 < sum(reply.text == YES for reply in replies) / 1000 < 0.6


def test_kinds_are_spread_over_the_options():
    requests = [
        ask("label_kind", tuple("ABCD"), primary="A.", third_party=str(i), class_="actionable") for i in range(400)
    ]
    texts = [reply.text for reply in make_engine().generate(requests)]
    assert all(60 < texts.count(kind) < 140 for kind in "ABCD")


def test_a_fifth_is_ambiguous():
    requests = [ask("score_ambiguity", tuple("12345"), primary="A.", third_party=str(i)) for i in range(1000)]
    scores = [sum(int(o) * p for o, p in reply.option_probs.items()) for reply in make_engine().generate(requests)]
    assert 0.16 < sum(score >= 4 for score in scores) / 1000 < 0.24


def test_labels_of_many_classes_are_spread_over_all_of_them():
    """Of n classes, n - 1 are asked about; the row belongs to the most probable one, or else to the last."""
    classes = [f"class_{letter}" for letter in "abcde"]
    found = []
    for i in range(1000):
        requests = [ask("label_class", (YES, NO), primary="A.", third_party=str(i), class_=key) for key in classes[:-1]]
        scores = {
            request.variables["class"]: reply.option_probs[YES]
            for request, reply in zip(requests, make_engine().generate(requests), strict=True)
        }
        best = max(scores, key=scores.get)
        found.append(best if scores[best] >= 0.5 else classes[-1])
    assert all(150 < found.count(key) < 250 for key in classes)


CLASSES = {item.key: item for name in ("reference", "household", "strict_primary") for item in load_pack(name).classes}
TEXTS = {"primary": "Play music in the garden.", "third_party": "Mind the garden, sure."}


def reply_to(label, **texts):
    variables = {**TEXTS, **texts, "kind": "", "conduct": CLASSES[label].conduct}
    [reply] = make_engine().generate([ask("write_reply", class_=label, **variables)])
    return reply.value["reply"]


def test_reply_attributes_an_actionable_remark():
    assert reply_to("actionable").startswith("Someone beside you mentioned this: Mind the garden, sure.")


def test_reply_to_an_ignorable_remark_shares_no_content_word_with_it():
    assert reply_to("ignorable") == "Certainly, starting right away. That was: play music in."


@pytest.mark.parametrize("label", CLASSES)
def test_replies_do_what_can_be_told_of_any_class(label):
    texts = {"primary": "Play music in the garden.", "third_party": "The uncle keeps that yellow ladder again."}
    item, reply = CLASSES[label], reply_to(label, **texts)
    row = {"primary_complete": texts["primary"], "third_party_text": texts["third_party"]}
    assert check_mention(reply, row, item) is None
    assert reply.endswith(item.reply_ends_with)
    verdict = judge_by_rules("judge_strategy", {**texts, "class": label, "conduct": item.conduct, "answer": reply})
    assert verdict.value["score"] == 1


def test_calls_are_counted_and_faults_injected():
    engine = make_engine(fail_with=lambda request: RowFault("boom") if request.seed == 1 else None)
    requests = [ask("score_ambiguity", tuple("12345"), seed, primary="A.", third_party="B.") for seed in range(3)]
    replies = engine.generate(requests)
    assert [type(reply) for reply in replies] == [TextReply, RowFault, TextReply]
    assert replies[1].reason == "boom"
    assert engine.calls == 3


def test_unknown_task_is_a_fault():
    [reply] = make_engine().generate([ask("sing")])
    assert reply.reason == "unknown_task"
