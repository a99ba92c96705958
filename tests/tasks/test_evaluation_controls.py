"""Controls on benches whose answers are known: who only reads is at chance on twins, who hears is not."""

import pytest

from bystander.prompts.load import load_pack
from bystander.schemas.engines import EngineIdentity, RowFault, TextReply
from bystander.schemas.evaluate_config import ControlsConfig
from bystander.schemas.evaluation import BENCH_ROW
from bystander.schemas.recogniser_configs import FakeVerifierConfig
from bystander.tasks.engines.fake_speech import FakeVerifier
from bystander.tasks.evaluation_controls import measure_controls
from control_rows import AMBIGUOUS, make_bench, make_bench_row, make_bench_rows
from final_rows import make_table

TEXT_ONLY = ControlsConfig()
NOTHING = ControlsConfig(transcript_classifier=False)


def verifier():
    return FakeVerifier(FakeVerifierConfig())


def by_name(controls):
    return {control.name: control for control in controls}


class Grader:
    """A judge who gives a fixed grade to each second text, and none to those it does not know."""

    identity = EngineIdentity("text", "grader", "grades", "1")

    def __init__(self, grades):
        self._grades = grades
        self.asked = []

    def generate(self, requests, on_reply=None):
        self.asked += requests
        return [self._grade(request) for request in requests]

    def close(self):
        pass

    def _grade(self, request):
        grade = self._grades.get(request.variables["third_party"])
        if grade is None:
            return RowFault("request_refused", "no")
        return TextReply(str(grade), option_probs={option: float(option == str(grade)) for option in request.options})


@pytest.fixture(scope="module")
def bench():
    return make_bench(pairs=16, alone=16)


def test_the_classifier_is_at_chance_on_twins_and_above_it_where_words_tell(bench):
    twins, every = measure_controls(bench, TEXT_ONLY, 1)
    assert (twins.name, every.name) == ("transcript classifier, twins", "transcript classifier, all rows")
    assert (twins.auc, twins.low, twins.high, twins.pairs) == (0.5, 0.5, 0.5, 16)
    assert not twins.hears
    assert twins.note == "both twins have the same transcript and so the same score"
    # A third of the rows have lines that only two people say: 16 of 32 two-speaker rows are above all 16 one-speaker
    # rows, the 16 twins tie with theirs, in every resample of whole pairs.
    assert (every.auc, every.low, every.high) == (0.75, 0.75, 0.75)
    assert every.note == "32 two-speaker and 16 one-speaker rows"


def test_the_verifier_tells_twins_apart(bench):
    found = measure_controls(bench, NOTHING, 1, verifier())
    assert [(control.name, control.auc, control.pairs) for control in found] == [
        ("speaker verifier, twins", 1, 16),
        ("speaker verifier, all rows", 1, 16),
    ]
    assert all(control.hears and "fake_verifier tones" in control.method for control in found)


def test_the_verifier_is_at_chance_where_both_twins_have_one_voice():
    rows = [make_bench_row(i, one, voices=(3, 3)) for i in range(12) for one in (False, True)]
    twins, _ = measure_controls(make_table(rows), NOTHING, 1, verifier())
    assert twins.low <= 0.5 <= twins.high
    assert twins.auc < 0.9


def test_judges_give_twins_the_same_score_and_are_asked_once_a_transcript(bench):
    grades = dict.fromkeys(AMBIGUOUS, 5) | {"Are you talking to it again?": 1, "You never liked jazz, did you?": 5}
    judge = Grader(grades)
    found = by_name(
        measure_controls(
            bench, NOTHING.model_copy(update={"transcript_judges": True}), 1, None, {"a": judge}, load_pack("reference")
        )
    )
    twins, every = found["transcript judge a, twins"], found["transcript judge a, all rows"]
    assert (twins.auc, twins.low, twins.high) == (0.5, 0.5, 0.5)
    assert len(judge.asked) == 32
    assert len({request.seed for request in judge.asked}) == 32
    # Unlinked rows are numbers 16 to 31, their lines 1, 2, 0, ...: 5 of line 0 are graded 1 and higher than all 16
    # one-speaker rows; 16 twins and 6 of line 1 tie with them; line 2 has no grade.
    assert every.auc == pytest.approx((5 + 22 / 2) / 27)
    assert every.note == "27 two-speaker and 16 one-speaker rows; 5 of 48 rows could not be scored (request_refused 5)"


def test_a_pair_counts_only_if_both_twins_were_scored():
    rows = make_bench_rows(pairs=4, alone=0)
    rows += [make_bench_row(9, one, third_party="No", overlap_characters=1) for one in (False, True)]
    twins, every = measure_controls(make_table(rows), NOTHING, 1, verifier())
    assert (twins.auc, twins.pairs) == (1, 4)
    assert "rows could not be scored (too_short_to_embed" in twins.note
    assert "of 10 rows" in every.note


def test_few_rows_and_no_twins_have_no_figure_but_a_reason():
    found = by_name(measure_controls(make_bench(pairs=2, alone=1), TEXT_ONLY, 1))
    for control in found.values():
        assert (control.auc, control.low, control.high) == (None, None, None)
        assert control.note == "3 two-speaker rows; the classifier needs 10"
    alone = [make_bench_row(i, one, linked=False) for i in range(6) for one in (False, True)]
    twins, every = measure_controls(make_table(alone), NOTHING, 1, verifier())
    assert (twins.auc, twins.pairs) == (None, 0)
    assert twins.note.startswith("no row has its twin in this bench")
    assert every.auc == 1
    twins, every = measure_controls(make_bench(0, 3), NOTHING, 1, verifier())
    assert every.auc is None
    assert every.note == "no row is of the negative class; 3 two-speaker and 0 one-speaker rows"
    assert measure_controls(make_bench(0, 0), NOTHING, 1, verifier())[1].auc is None


def test_twins_of_different_words_are_told_of():
    rows = make_bench_rows(pairs=12, alone=0)
    rows[1]["third_party_text"] = "Something else"
    twins, _ = measure_controls(make_table(rows), TEXT_ONLY, 1)
    assert twins.note == "1 of 12 pairs have different transcripts"


def test_reads_bench_rows_and_does_not_depend_on_their_order(bench):
    rows = bench.select([name for name in BENCH_ROW.names if name != "test"])
    found = measure_controls(rows, TEXT_ONLY, 5, verifier(), confidence=0.9, resamples=300)
    turned = rows.take(list(range(len(rows)))[::-1])
    assert measure_controls(turned, TEXT_ONLY, 5, verifier(), confidence=0.9, resamples=300) == found
    assert measure_controls(rows, NOTHING, 5) == ()
