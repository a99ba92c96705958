"""Tagging the first word with new intent: votes, their count, and what cannot be tagged."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scripted_text import ScriptedTextEngine, answer_always, list_reasons
from sid_turns import USED, make_sid_context, make_turns

from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.sid import TAGGED
from bystander.schemas.sid_params import TagBreaks
from bystander.schemas.text_tasks import BREAK_TAG
from bystander.tasks.engines.rule_tagger import RuleTagger
from bystander.tasks.stages.tag_breaks import STAGE
from bystander.tasks.texts.turn_words import split_turn_words

SO: dict[str, Any] = {"word": "so", "number": 2}
NONE: dict[str, Any] = {"word": "", "number": 0}
WRONG: dict[str, Any] = {"word": "what", "number": 2}


class Named(ScriptedTextEngine):
    """A scripted engine under a name of its own."""

    def __init__(self, name: str, answer: Any) -> None:
        super().__init__(answer if callable(answer) else lambda request, number: answer)
        self._name = name

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity("text", "scripted", self._name, "1")


def run(*turns, tagger=None, second=None, **params):
    engines = {"tagger": tagger or RuleTagger(), **({"second_tagger": second} if second else {})}
    return STAGE(make_turns(*(turns or ({},))), make_sid_context(TagBreaks(**params), **engines))


def test_the_text_is_tagged_before_the_word_named():
    tagger = answer_always(SO)
    row = run(tagger=tagger).kept.to_pylist()[0]
    assert row["words"] == ["Yeah,", "so", "what", "about", "Tuesday?"]
    assert row["break_word_index"] == 1
    assert row["text_with_break"] == "Yeah, <break>so what about Tuesday?"
    assert row["tag_votes"] == [{"tagger": "script", "break_word_index": 1}]
    assert row["tag_agreement"] == 1.0
    assert tagger.requests[0].variables["words"] == "1 Yeah 2 so 3 what 4 about 5 Tuesday"


def test_no_new_intent_is_no_tag():
    row = run({"text": "Uh huh, okay."}, tagger=answer_always(NONE)).kept.to_pylist()[0]
    assert row["break_word_index"] is None
    assert row["text_with_break"] == "Uh huh, okay."
    assert row["tag_votes"] == [{"tagger": "script", "break_word_index": None}]


def test_in_mandarin_words_are_characters():
    tagger = answer_always({"word": "那", "number": 3})
    row = run({"language": "zh", "text": "嗯嗯，那明天呢？"}, tagger=tagger).kept.to_pylist()[0]
    assert row["words"] == list("嗯嗯那明天呢")
    assert row["text_with_break"] == "嗯嗯，<break>那明天呢？"
    assert tagger.requests[0].task == "tag_break_zh"
    assert tagger.requests[0].variables["words"] == "1嗯 2嗯 3那 4明 5天 6呢"


def test_the_schema_takes_the_turns_own_words_only():
    tagger = answer_always(SO)
    run({"text": "So, so what?"}, tagger=tagger)
    schema = tagger.requests[0].reply_schema
    assert schema is not None
    assert schema["properties"]["word"]["enum"] == ["So", "so", "what", ""]
    assert schema["properties"]["number"]["enum"] == [0, 1, 2, 3]
    for value in (SO, NONE):
        jsonschema.validate(value, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"word": "other", "number": 1}, schema)


@pytest.mark.parametrize(
    "wrong", [WRONG, {"word": "so", "number": 0}, {"word": "", "number": 2}, {"word": "so", "number": 9}]
)
def test_a_vote_is_asked_for_again_while_it_names_a_word_that_is_not_there(wrong):
    tagger = ScriptedTextEngine(lambda request, number: wrong if number < 2 else SO)
    output = run(tagger=tagger, max_attempts=3)
    assert output.kept["break_word_index"].to_pylist() == [1]
    assert len({request.seed for request in tagger.requests}) == 3
    output = run(tagger=answer_always(wrong), max_attempts=2)
    assert list_reasons(output) == ["word_not_there"]
    assert output.rejected["raw_output"][0].as_py()


def test_case_and_marks_of_a_named_word_do_not_matter():
    assert run(tagger=answer_always({"word": "SO,", "number": 2})).kept["break_word_index"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("votes", "tag", "agreement"),
    [([SO, SO, NONE], 1, 2 / 3), ([NONE, SO, NONE], None, 2 / 3), ([SO, WRONG, SO], 1, 2 / 3), ([SO, SO, SO], 1, 1.0)],
)
def test_most_votes_decide_and_failed_ones_agree_with_nothing(votes, tag, agreement):
    tagger = ScriptedTextEngine(lambda request, number: votes[number])
    row = run(tagger=tagger, samples=3, temperature=0.7, max_attempts=1).kept.to_pylist()[0]
    assert row["break_word_index"] == tag
    assert row["tag_agreement"] == pytest.approx(agreement)
    assert len(row["tag_votes"]) == 3 - votes.count(WRONG)
    assert len({request.seed for request in tagger.requests}) == 3


def test_a_tie_rejects_unless_half_is_enough_and_then_the_first_tagger_decides():
    first, second = Named("first", SO), Named("second", NONE)
    output = run(tagger=first, second=second)
    assert list_reasons(output) == ["taggers_disagree"]
    assert output.rejected["reject_detail"][0].as_py() == "first: word 2, 'so'; second: no break"
    for tagger, other, tag in ((first, second, 1), (second, first, None)):
        row = run(tagger=tagger, second=other, min_agreement=0.5).kept.to_pylist()[0]
        assert (row["break_word_index"], row["tag_agreement"]) == (tag, 0.5)
        assert [vote["tagger"] for vote in row["tag_votes"]] == [tagger.identity.model, other.identity.model]


def test_what_a_tagger_cannot_answer_is_a_reason_only_where_none_can():
    fault = RowFault("request_refused", "too long")
    assert list_reasons(run(tagger=answer_always(fault))) == ["request_refused"]
    output = run(tagger=answer_always(fault), second=answer_always(SO), min_agreement=0.5)
    assert output.kept["tag_agreement"].to_pylist() == [0.5]
    assert list_reasons(run(tagger=answer_always({"word": 3, "number": "2"}))) == ["unparsable_reply"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"text": " ... "}, "no_words"),
        ({"text": "yeah " * 61}, "too_many_words"),
        ({"text": "Yeah <break> so"}, "text_holds_tag"),
        ({"language": "de"}, "language_not_tagged"),
    ],
)
def test_what_cannot_be_tagged_costs_no_call(change, reason):
    tagger = answer_always(SO)
    assert list_reasons(run(change, tagger=tagger)) == [reason]
    assert tagger.requests == []


def test_rows_keep_their_order_among_rejects():
    turns = [
        {"text": "..."},
        {"text": "Yeah."},
        {"language": "de"},
        {"text": "Stop."},
        {"language": "zh", "text": "嗯"},
    ]
    output = run(*turns)
    assert output.kept["id"].to_pylist() == ["turn-1", "turn-3", "turn-4"]
    assert output.kept["break_word_index"].to_pylist() == [None, 0, None]
    assert output.rejected["id"].to_pylist() == ["turn-0", "turn-2"]


def test_the_truth_of_a_synthetic_turn_is_not_read():
    assert STAGE.needed == tuple(USED.names)
    assert not [name for name in STAGE.needed if name.startswith("true_")]
    assert {"words", "break_word_index", "text_with_break", "tag_votes", "tag_agreement"} <= {*TAGGED.names}


def test_seeds_hang_on_the_row_alone():
    def seeds(*turns):
        tagger = answer_always(SO)
        run(*turns, tagger=tagger)
        return {request.variables["text"]: request.seed for request in tagger.requests}

    one, other = {"id": "a", "text": "Yeah, so what?"}, {"id": "b", "text": "Okay, so who?"}
    assert seeds(one, other) == seeds(other, one) == {**seeds(one), **seeds(other)}


class TestOptions:
    def test_the_turn_is_asked_about_stretch_by_stretch_and_tagged_at_the_first_with_new_intent(self):
        tagger = ScriptedTextEngine(
            lambda request, number: {"B": 0.9 if "stop" in request.variables["stretch"] else 0.2, "A": 0.1}
        )
        row = run({"text": "Yeah, right, hmpf, stop that, I'm late."}, tagger=tagger, method="options")
        assert [(request.variables["heard"], request.variables["stretch"]) for request in tagger.requests] == [
            ("Yeah, right,", "Yeah, right,"),
            ("Yeah, right, hmpf,", "hmpf,"),
            ("Yeah, right, hmpf, stop that,", "stop that,"),
            ("Yeah, right, hmpf, stop that, I'm late.", "I'm late."),
        ]
        assert all(request.options == ("B", "A") for request in tagger.requests)
        assert row.kept["text_with_break"].to_pylist() == ["Yeah, right, hmpf, <break>stop that, I'm late."]

    def test_the_threshold_moves_the_decision(self):
        tagger = answer_always({"B": 0.4, "A": 0.6})
        assert run(tagger=tagger, method="options").kept["break_word_index"].to_pylist() == [0]
        output = run(tagger=tagger, method="options", new_intent_threshold=0.5)
        assert output.kept["break_word_index"].to_pylist() == [None]

    @pytest.mark.parametrize("spoilt", ["Yeah,", "so what about Tuesday?"])
    def test_a_fault_fails_the_vote_where_it_decides(self, spoilt):
        def answer(request, number):
            if request.variables["stretch"] == spoilt:
                return RowFault("request_refused")
            return {"B": 0.1, "A": 0.9}

        assert list_reasons(run(tagger=ScriptedTextEngine(answer), method="options")) == ["request_refused"]

    def test_the_rule_tagger_says_the_same_by_either_method(self):
        turns = [{"text": text} for text in ("Yeah.", "Right now.", "Okay, um, stop", "I see, but why?")]
        tags = [run(*turns, method=method).kept["text_with_break"].to_pylist() for method in ("json", "options")]
        assert tags[0] == tags[1] == ["Yeah.", "<break>Right now.", "Okay, um, <break>stop", "I see, <break>but why?"]


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["yeah,", "so", "what?", "嗯，", "\u2014", "..."]), min_size=1, max_size=8), st.data())
def test_without_its_tag_the_text_is_as_it_was(pieces, data):
    text = " ".join(pieces)
    words = split_turn_words(text)
    number = data.draw(st.integers(0, len(words)))
    word = words[number - 1] if number else ""
    output = run({"text": text}, tagger=answer_always({"word": word, "number": number}))
    for row in output.kept.to_pylist():
        assert row["text_with_break"].replace(BREAK_TAG, "") == text
        assert row["text_with_break"].count(BREAK_TAG) == (number > 0)
        assert row["break_word_index"] == (number - 1 if number else None)
    assert list_reasons(output) == ([] if words else ["no_words"])


@pytest.mark.parametrize("values", [{"samples": 3}, {"samples": 3, "temperature": 0.5, "method": "options"}])
def test_samples_that_cannot_differ_are_refused(values):
    with pytest.raises(ValidationError, match="samples: "):
        TagBreaks(**values)
