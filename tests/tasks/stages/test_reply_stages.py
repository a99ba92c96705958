"""write_replies and build_hard_negatives: the assistant's replies."""

import re

import pytest
from scripted_text import ScriptedTextEngine, answer_always, list_reasons, make_context, make_rows

from bystander.prompts.load import load_pack
from bystander.schemas.engines import ENGINE_REASONS, RowFault
from bystander.schemas.identity import make_id
from bystander.schemas.tpi import LABELLED, VOICED
from bystander.schemas.tpi_params import BuildHardNegatives, WriteReplies
from bystander.tasks.stages import build_hard_negatives, write_replies

ATTRIBUTED = "I heard someone say that the neighbours are asleep. Should I keep it low?"
PLAIN = "Playing jazz in the kitchen now."
IGNORABLE = {"label": "ignorable", "kind": None}

COMMON_FAULTS = [
    ("unparsable_reply", {"answer": "x"}, {}),
    ("empty_reply", {"reply": " ... "}, {}),
    ("reply_has_markup", {"reply": "I heard someone say **stop**. Should I?"}, {}),
    ("reply_leaks_label", {"reply": "Someone said so, it is actionable. Should I?"}, {}),
    ("reply_refuses", {"reply": "I'm sorry, I can't help with that."}, {}),
    ("reply_repeats_itself", {"reply": "I can play it, I can play it."}, {}),
    ("reply_has_too_many_words", {"reply": "I heard someone say that it is late. Should I?"}, {"max_words": 6}),
]


class TestClassesOfOtherPacks:
    def run(self, reply, pack, label, **row):
        context = make_context(answer_always({"reply": reply}), WriteReplies(), pack=load_pack(pack))
        return write_replies.STAGE(make_rows(LABELLED, {"label": label, "kind": None, **row}), context)

    LEFT = "Someone with you spoke up too, which I leave to you. Jazz is on in the kitchen."

    def test_a_remark_that_is_left_to_the_people_is_not_taken_up(self):
        assert len(self.run(self.LEFT, "household", "defer").kept) == 1
        taken_up = self.run(
            "Someone with you says that the neighbours sleep, which I leave to you.", "household", "defer"
        )
        assert list_reasons(taken_up) == ["reply_takes_up_remark"]
        assert list_reasons(self.run(PLAIN, "household", "defer")) == ["reply_ignores_remark"]

    def test_words_of_the_packs_own_opening_are_not_the_remarks(self):
        remark = {"third_party_text": "No, leave it off."}
        assert len(self.run(self.LEFT, "household", "defer", **remark).kept) == 1
        other = self.run("Jazz is on. Someone with you wants to leave.", "household", "defer", **remark)
        assert list_reasons(other) == ["reply_takes_up_remark"]

    def test_a_class_that_acts_attributes_and_takes_up(self):
        done = "Done, as someone with you asked: no jazz, since the neighbours are asleep."
        assert len(self.run(done, "household", "act").kept) == 1
        assert list_reasons(self.run(PLAIN, "household", "act")) == ["reply_ignores_remark"]

    @pytest.mark.parametrize("label", ["contested", "incidental"])
    def test_the_strict_pack_never_mentions_anybody_or_takes_anything_up(self, label):
        assert len(self.run("As you asked, jazz is on. You can still change it.", "strict_primary", label).kept) == 1
        for reply in ("As you asked, jazz is on, softly for the neighbours.", "Someone disagrees, but jazz is on."):
            assert list_reasons(self.run(reply, "strict_primary", label)) == ["reply_mentions_remark"]

    def test_a_class_of_an_everyday_name_may_be_said(self):
        reply = "Someone near you says they are asleep. Do you want to confirm the jazz, or should I not act on it?"
        assert len(self.run(reply, "household", "confirm").kept) == 1
        named = self.run("Confirm: someone near you says they are asleep. Do you want that?", "household", "confirm")
        assert list_reasons(named) == ["reply_leaks_label"]


class TestWriteReplies:
    def run(self, engine, *changes, **params):
        return write_replies.STAGE(make_rows(LABELLED, *changes), make_context(engine, WriteReplies(**params)))

    def test_an_attributed_proposal_is_kept(self):
        row = self.run(answer_always({"reply": ATTRIBUTED})).kept.to_pylist()[0]
        assert (row["reply"], row["reply_attempts"]) == (ATTRIBUTED, 1)

    def test_an_ignorable_remark_is_not_mentioned(self):
        output = self.run(answer_always({"reply": PLAIN}), IGNORABLE)
        assert output.kept["reply"].to_pylist() == [PLAIN]

    @pytest.mark.parametrize(("reason", "answer", "params"), COMMON_FAULTS)
    def test_common_rejects(self, reason, answer, params):
        output = self.run(answer_always(answer), **{"max_attempts": 2, **params})
        assert list_reasons(output) == [reason]
        assert output.rejected["raw_output"].to_pylist()[0] is not None

    @pytest.mark.parametrize(
        "reply",
        ["Playing jazz softly for the neighbours.", "Someone wants quiet, but here is jazz.", "Are they asleep?"],
    )
    def test_an_ignorable_reply_that_mentions_the_remark_is_rejected(self, reply):
        assert list_reasons(self.run(answer_always({"reply": reply}), IGNORABLE)) == ["reply_mentions_remark"]

    def test_words_of_the_complete_request_are_no_mention_even_where_it_was_cut(self):
        row = {**IGNORABLE, "primary_text": "Play some jazz...", "third_party_text": "I love that kitchen of yours."}
        assert len(self.run(answer_always({"reply": "Jazz in the kitchen, coming up."}), row).kept) == 1

    def test_an_actionable_reply_that_ignores_the_remark_is_rejected(self):
        assert list_reasons(self.run(answer_always({"reply": PLAIN}))) == ["reply_ignores_remark"]

    @pytest.mark.parametrize("reason", sorted(ENGINE_REASONS))
    def test_faults_of_the_engine_become_rejects(self, reason):
        assert list_reasons(self.run(answer_always(RowFault(reason)))) == [reason]

    def test_a_second_try_can_succeed(self):
        replies = [PLAIN, ATTRIBUTED]
        engine = ScriptedTextEngine(lambda request, number: {"reply": replies[number]})
        assert self.run(engine).kept["reply_attempts"].to_pylist() == [2]
        assert engine.requests[0].seed != engine.requests[1].seed

    def test_replies_of_a_class_with_openings_are_guided(self):
        engine = answer_always({"reply": ATTRIBUTED})
        self.run(engine, {}, {"id": "b", **IGNORABLE})
        patterns = {r.variables["class"]: r.reply_schema["properties"]["reply"].get("pattern") for r in engine.requests}
        assert patterns["ignorable"] is None
        assert re.match(patterns["actionable"], ATTRIBUTED)
        assert not re.match(patterns["actionable"], PLAIN)
        self.run(engine, guided_openings=False)
        assert "pattern" not in engine.requests[-1].reply_schema["properties"]["reply"]

    def test_the_assistant_hears_the_request_as_it_was_cut(self):
        engine = answer_always({"reply": ATTRIBUTED})
        self.run(engine, {"primary_text": "Play some jazz..."})
        assert engine.requests[0].variables["primary"] == "Play some jazz..."
        assert engine.requests[0].variables["kind"] == "feasibility_constraint"


class TestBuildHardNegatives:
    def run(self, engine, *changes, **params):
        context = make_context(engine, BuildHardNegatives(**params))
        return build_hard_negatives.STAGE(make_rows(VOICED, *changes), context)

    def test_the_twin_has_the_same_texts_and_one_voice(self):
        source = make_rows(VOICED).to_pylist()[0]
        row = self.run(answer_always({"reply": PLAIN})).kept.to_pylist()[0]
        changed = {key for key in row if row[key] != source[key]}
        assert changed == {"id", "label", "kind", "reply", "n_speakers", "third_party_voice", "twin_id"}
        assert row["id"] == make_id("row", "row-0", "hard_negative")
        assert row["label"] == "hard_negative"
        assert row["kind"] is None
        assert row["n_speakers"] == 1
        assert row["primary_voice"] == "anna"
        assert row["third_party_voice"] is None
        assert row["twin_id"] == "row-0"
        assert row["reply"] == PLAIN

    def test_clear_cases_are_not_ambiguous_and_cost_no_call(self):
        engine = answer_always({"reply": PLAIN})
        output = self.run(engine, {"ambiguity_score": 3.9}, {"ambiguity_score": 4.0})
        assert list_reasons(output) == ["not_ambiguous"]
        assert output.kept["twin_id"].to_pylist() == ["row-1"]
        assert len(engine.requests) == 1

    def test_a_reply_to_two_people_is_rejected(self):
        assert list_reasons(self.run(answer_always({"reply": ATTRIBUTED}))) == ["reply_mentions_speaker"]

    @pytest.mark.parametrize(("reason", "answer", "params"), COMMON_FAULTS)
    def test_common_rejects(self, reason, answer, params):
        assert list_reasons(self.run(answer_always(answer), reply=WriteReplies(max_attempts=2, **params))) == [reason]

    @pytest.mark.parametrize("reason", sorted(ENGINE_REASONS))
    def test_faults_of_the_engine_become_rejects(self, reason):
        assert list_reasons(self.run(answer_always(RowFault(reason)))) == [reason]


def test_every_reason_is_declared_and_tested():
    tested = {reason for reason, _, _ in COMMON_FAULTS} | ENGINE_REASONS
    assert write_replies.STAGE.reasons == tested | {
        "reply_mentions_remark",
        "reply_takes_up_remark",
        "reply_ignores_remark",
    }
    assert build_hard_negatives.STAGE.reasons == tested | {"reply_mentions_speaker", "not_ambiguous"}
