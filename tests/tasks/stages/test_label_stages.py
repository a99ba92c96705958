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


def a(probability):
    return {"A": probability, "B": 1 - probability}


def judge_with(probability, kinds=KINDS):
    def answer(request, number):
        if request.task == "label_kind":
            return kinds
        return dict(zip(request.options, (probability, 1 - probability), strict=True))

    return ScriptedTextEngine(answer)


def make_pack(*keys):
    """Return a pack of these classes, all but the last with one kind, for prompts without text."""
    classes = tuple(
        PackClass(
            key=key,
            criteria="c",
            policy="p",
            mentions_third_party=True,
            kinds=() if key == keys[-1] else (PackKind(key=f"of_{key}", definition="the one kind"),),
        )
        for key in keys
    )

    class Pack:
        name, digest = "made", "0" * 64

        def __init__(self):
            self.classes = classes

        def messages(self, task, variables):
            return ()

        def answers(self, task):
            return "A", "B"

    return Pack()


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

    def label_by(self, scores, **params):
        """Return the row, or the reasons if it is rejected, with a judge who gives each class its score."""
        engine = ScriptedTextEngine(lambda request, number: a(scores[request.variables["class"]]))
        output = self.run(engine, pack=make_pack("defer", "confirm", "act", "ignore"), **params)
        return (output.kept.to_pylist() or list_reasons(output))[0]

    def test_of_several_classes_the_most_probable_wins(self):
        row = self.label_by({"defer": 0.2, "confirm": 0.9, "act": 0.6})
        assert (row["label"], row["kind"]) == ("confirm", "of_confirm")
        row = self.label_by({"defer": 0.1, "confirm": 0.2, "act": 0.2})
        assert (row["label"], row["kind"]) == ("ignore", None)

    def test_a_rival_takes_its_part_of_the_score(self):
        row = self.label_by({"defer": 0.6, "confirm": 0.9, "act": 0.5})
        parts = {
            "defer": 0.6 * 0.1 * 0.5,
            "confirm": 0.4 * 0.9 * 0.5,
            "act": 0.4 * 0.1 * 0.5,
            "ignore": 0.4 * 0.1 * 0.5,
        }
        assert row["label_score"] == pytest.approx(parts["confirm"] / sum(parts.values()))
        assert self.label_by({"defer": 0.0, "confirm": 0.9, "act": 0.0})["label_score"] == pytest.approx(0.9, abs=1e-5)

    def test_of_equal_ones_the_first_wins_and_is_uncertain(self):
        scores = {"defer": 0.3, "confirm": 0.9, "act": 0.9}
        assert self.label_by(scores)["label"] == "confirm"
        assert self.label_by(scores, min_score=0.5) == "uncertain_label"
        assert self.label_by({**scores, "act": 0.2}, min_score=0.5)["label"] == "confirm"

    def test_answers_without_probabilities_go_by_the_order_of_the_classes(self):
        assert self.label_by({"defer": 1.0, "confirm": 1.0, "act": 1.0})["label"] == "defer"
        assert self.label_by({"defer": 0.0, "confirm": 1.0, "act": 1.0})["label"] == "confirm"

    def test_thresholds_decide_among_classes_too(self):
        scores = {"defer": 0.1, "confirm": 0.7, "act": 0.6}
        assert self.label_by(scores, thresholds={"act": 0.3})["label"] == "act"
        assert self.label_by(scores, thresholds={"confirm": 0.8, "act": 0.7})["label"] == "ignore"

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0.05, 0.95))
    def test_scores_are_a_distribution_whose_mode_is_the_label(self, scores, threshold):
        shifted = {f"c{i}": shift_probability(score, threshold) for i, score in enumerate(scores)}
        weighed = label_actionability.weigh_against_others(shifted, "last")
        assert sum(weighed.values()) == pytest.approx(1)
        best = max(shifted, key=shifted.get)
        assert weighed[best if shifted[best] >= 0.5 else "last"] == pytest.approx(max(weighed.values()))
        if len(scores) == 1:
            assert weighed == {"c0": shifted["c0"], "last": 1 - shifted["c0"]}

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
