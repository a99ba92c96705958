"""check_realism, label_actionability and score_ambiguity: what the judge's probabilities become."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_text import ScriptedTextEngine, answer_always, list_reasons, make_context, make_rows

from bystander.schemas.engines import ENGINE_REASONS, RowFault
from bystander.schemas.packs import PackClass, PackKind
from bystander.schemas.tpi import REALISTIC, REPLIED, WRITTEN
from bystander.schemas.tpi_params import CheckRealism, LabelActionability, ScoreAmbiguity
from bystander.tasks.stages import check_realism, label_actionability, score_ambiguity
from bystander.tasks.stages.option_scores import shift_probability

KINDS = {"A": 0.1, "B": 0.2, "C": 0.6, "D": 0.1}


def yes(probability):
    return {"Yes": probability, "No": 1 - probability}


def a(probability):
    return {"A": probability, "B": 1 - probability}


def judge_with(probability, kinds=KINDS):
    def answer(request, number):
        if request.task == "label_kind":
            return kinds
        return dict(zip(request.options, (probability, 1 - probability), strict=True))

    return ScriptedTextEngine(answer)


class TestCheckRealism:
    def run(self, engine, *changes, **params):
        return check_realism.STAGE(make_rows(WRITTEN, *changes), make_context(engine, CheckRealism(**params)))

    def test_a_probable_exchange_is_kept_with_its_score(self):
        output = self.run(answer_always(a(0.7)))
        assert output.kept["realism_score"].to_pylist() == [0.7]

    def test_an_improbable_one_is_unrealistic(self):
        assert list_reasons(self.run(answer_always(a(0.49)))) == ["unrealistic"]
        assert list_reasons(self.run(answer_always(a(0.49)), min_score=0.2)) == []

    def test_the_judge_sees_the_complete_request(self):
        engine = answer_always(a(0.7))
        self.run(engine, {"primary_text": "Play some jazz...", "timing": "within_sentence"})
        assert engine.requests[0].variables == {
            "primary": "Play some jazz in the kitchen.",
            "third_party": "No, don't, the neighbours are asleep.",
            "scenario": "veto_with_justification",
            "timing": "within_sentence",
        }
        assert engine.requests[0].options == ("A", "B")

    def test_an_answer_without_probabilities_is_unparsable(self):
        assert list_reasons(self.run(answer_always("A"))) == ["unparsable_reply"]

    def test_each_row_has_its_own_score(self):
        engine = ScriptedTextEngine(lambda request, number: a(0.9 if "jazz" in request.variables["primary"] else 0.1))
        output = self.run(engine, {"primary_complete": "Open the door."}, {}, {"primary_complete": "Close it."})
        assert output.kept["id"].to_pylist() == ["row-1"]
        assert output.rejected["id"].to_pylist() == ["row-0", "row-2"]
        assert len(engine.batches) == 1


class TestLabelActionability:
    def run(self, engine, *changes, pack=None, **params):
        context = make_context(engine, LabelActionability(**params), pack=pack)
        return label_actionability.STAGE(make_rows(REALISTIC, *changes), context)

    def test_a_probable_class_wins_and_gets_its_kind(self):
        row = self.run(judge_with(0.8)).kept.to_pylist()[0]
        assert (row["label"], row["kind"]) == ("actionable", "goal_suggestion")
        assert row["label_score"] == pytest.approx(0.8)

    def test_else_it_is_the_last_class_without_a_kind(self):
        engine = judge_with(0.3)
        row = self.run(engine).kept.to_pylist()[0]
        assert (row["label"], row["kind"]) == ("ignorable", None)
        assert row["label_score"] == pytest.approx(0.7)
        assert {request.task for request in engine.requests} == {"label_class"}

    def test_a_threshold_moves_the_decision_and_the_score(self):
        row = self.run(judge_with(0.3), thresholds={"actionable": 0.2}).kept.to_pylist()[0]
        assert row["label"] == "actionable"
        assert row["label_score"] == pytest.approx(shift_probability(0.3, 0.2))
        assert row["label_score"] > 0.5

    def test_a_doubtful_label_is_rejected(self):
        assert list_reasons(self.run(judge_with(0.55), min_score=0.6)) == ["uncertain_label"]
        assert list_reasons(self.run(judge_with(0.45), min_score=0.6)) == ["uncertain_label"]
        assert list_reasons(self.run(judge_with(0.65), min_score=0.6)) == []

    def test_of_several_classes_the_most_probable_wins(self):
        classes = tuple(
            PackClass(key=key, criteria="c", policy="p", mentions_third_party=True, kinds=kinds)
            for key, kinds in (
                ("urgent", (PackKind(key="only", definition="the one kind"),)),
                ("helpful", ()),
                ("other", ()),
            )
        )

        class Pack:
            name, digest = "three", "0" * 64

            def __init__(self):
                self.classes = classes

            def messages(self, task, variables):
                return ()

            def answers(self, task):
                return "Yes", "No"

        scores = {"urgent": 0.9, "helpful": 0.6}
        engine = ScriptedTextEngine(lambda request, number: yes(scores[request.variables["class"]]))
        row = self.run(engine, pack=Pack()).kept.to_pylist()[0]
        assert (row["label"], row["kind"]) == ("urgent", "only")
        scores.update(urgent=0.1, helpful=0.2)
        row = self.run(engine, pack=Pack()).kept.to_pylist()[0]
        assert row["label"] == "other"
        assert row["label_score"] == pytest.approx(0.8)

    def test_a_fault_in_the_kind_rejects_the_row(self):
        engine = judge_with(0.8, kinds=RowFault("request_refused"))
        assert list_reasons(self.run(engine)) == ["request_refused"]


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 0.99))
def test_shifting_keeps_the_order_and_puts_the_threshold_at_one_half(a, b, threshold):
    shifted = shift_probability(a, threshold), shift_probability(b, threshold)
    if a < b:
        assert shifted[0] <= shifted[1]
    assert shift_probability(threshold, threshold) == pytest.approx(0.5)
    assert all(0 <= value <= 1 for value in shifted)


class TestScoreAmbiguity:
    def run(self, engine, *changes):
        return score_ambiguity.STAGE(make_rows(REPLIED, *changes), make_context(engine, ScoreAmbiguity()))

    def test_the_score_is_the_expected_grade(self):
        output = self.run(answer_always({"1": 0.0, "2": 0.1, "3": 0.2, "4": 0.3, "5": 0.4}))
        assert output.kept["ambiguity_score"].to_pylist() == [pytest.approx(4.0)]

    def test_a_line_that_addresses_a_person_is_at_most_a_two(self):
        sure_of_one = answer_always({"1": 0.0, "2": 0.0, "3": 0.0, "4": 0.0, "5": 1.0})
        output = self.run(
            sure_of_one, {"third_party_text": "Are you serious?"}, {"third_party_text": "And some olives."}
        )
        assert output.kept["ambiguity_score"].to_pylist() == [2.0, 5.0]
        sure_of_two = answer_always({"1": 1.0, "2": 0.0, "3": 0.0, "4": 0.0, "5": 0.0})
        assert self.run(sure_of_two, {"third_party_text": "Are you?"}).kept["ambiguity_score"].to_pylist() == [1.0]

    def test_the_judge_reads_what_is_spoken(self):
        engine = answer_always({str(n): 0.2 for n in range(1, 6)})
        self.run(engine, {"primary_text": "Play some..."})
        assert engine.requests[0].variables["primary"] == "Play some..."
        assert engine.requests[0].options == ("1", "2", "3", "4", "5")


@pytest.mark.parametrize("reason", sorted(ENGINE_REASONS))
@pytest.mark.parametrize(
    ("stage", "params"),
    [
        (check_realism.STAGE, CheckRealism()),
        (label_actionability.STAGE, LabelActionability()),
        (score_ambiguity.STAGE, ScoreAmbiguity()),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_faults_of_the_engine_become_rejects(stage, params, reason):
    engine = ScriptedTextEngine(lambda request, number: RowFault(reason, raw_output="raw"))
    output = stage(make_rows(stage.reads), make_context(engine, params))
    assert list_reasons(output) == [reason]
    assert output.rejected["raw_output"].to_pylist() == ["raw"]
