import re

import pytest
from scripted_text import ScriptedTextEngine, answer_always, list_reasons, make_context, make_rows

from bystander.schemas.engines import ENGINE_REASONS, RowFault
from bystander.schemas.taxonomy import load_taxonomy
from bystander.schemas.tpi import DRAWN
from bystander.schemas.tpi_params import WriteInterruptions
from bystander.tasks.stages.write_interruptions import STAGE

PRIMARY = "Play some jazz in the kitchen."
LINE = "No, don't, the neighbours went to bed early."
GOOD = {"primary": PRIMARY, "third_party": LINE}


def run(engine, *changes, **params):
    return STAGE(make_rows(DRAWN, *changes), make_context(engine, WriteInterruptions(**params)))


def test_good_texts_are_kept_and_counted():
    output = run(answer_always(GOOD))
    row = output.kept.to_pylist()[0]
    assert row["primary_complete"] == row["primary_text"] == PRIMARY
    assert row["third_party_text"] == LINE
    assert row["write_attempts"] == 1


def test_within_sentence_cuts_the_spoken_request_only():
    output = run(answer_always(GOOD), {"timing": "within_sentence"})
    row = output.kept.to_pylist()[0]
    assert row["primary_complete"] == PRIMARY
    assert row["primary_text"] == "Play some jazz..."  # not after "in" or "the", which nobody hears


def test_the_cut_depends_on_the_seed_and_row_alone():
    long = {"primary": "Play some jazz music nice and loud.", "third_party": LINE}
    request = "play some jazz music nice and loud"
    rows = [{"timing": "within_sentence", "id": f"r{i}", "request": request} for i in range(30)]
    alone = [run(answer_always(long), row).kept["primary_text"][0].as_py() for row in rows]
    together = run(answer_always(long), *rows).kept["primary_text"].to_pylist()
    assert alone == together
    assert set(alone) == {"Play some jazz music...", "Play some jazz music nice..."}


@pytest.mark.parametrize(
    ("reason", "texts", "row", "params"),
    [
        ("unspeakable_text", {"third_party": "No, don't play #1 hits."}, {}, {}),
        ("unspeakable_text", {"primary": "Play some jazz & blues in the kitchen."}, {}, {}),
        (
            "primary_changed_meaning",
            {"primary": "Order a taxi to the station."},
            {},
            {},
        ),
        ("primary_too_long", {}, {}, {"max_primary_words": 4}),
        (
            "primary_too_short_to_cut",
            {"primary": "Play some jazz."},
            {"request": "play some jazz", "timing": "within_sentence"},
            {},
        ),
        ("third_party_too_short", {"third_party": "No."}, {}, {}),
        ("third_party_too_long", {}, {}, {"max_third_party_words": 4}),
        ("wrong_ending", {"third_party": "No, don't, or should we wait?"}, {}, {}),
        ("wrong_ending", {"third_party": "No, don't, the neighbours went to bed"}, {}, {}),
        ("speaks_as_assistant", {"third_party": "Sure, I'll play that for you."}, {}, {}),
        ("speaks_as_assistant", {"third_party": "Your timer has been set for noon."}, {}, {}),
        ("refuses_request", {"third_party": "I'm sorry, the speaker broke."}, {}, {}),
        ("repeats_request", {"third_party": "No, don't, play some jazz in the kitchen."}, {}, {}),
        ("repeats_itself", {"third_party": "No way, go to bed now, go to bed now."}, {}, {}),
        ("repeats_itself", {"primary": "Play some jazz in the kitchen, jazz in the kitchen."}, {}, {}),
        ("copies_example", {"third_party": "No, don't, the dog will run out!"}, {}, {}),
        ("leaks_label", {"third_party": "No, don't, the user must hear it."}, {}, {}),
        ("leaks_label", {"third_party": "No way, this is ignorable."}, {}, {}),
        ("unparsable_reply", {"third_party": 3}, {}, {}),
    ],
)
def test_rejects(reason, texts, row, params):
    output = run(answer_always({**GOOD, **texts}), row, **{"max_attempts": 2, **params})
    assert list_reasons(output) == [reason]
    rejected = output.rejected.to_pylist()[0]
    assert rejected["reject_stage"] == "write_interruptions"
    assert rejected["raw_output"] is not None


@pytest.mark.parametrize("reason", sorted(ENGINE_REASONS))
def test_faults_of_the_engine_become_rejects(reason):
    output = run(answer_always(RowFault(reason, "detail", "raw")), max_attempts=2)
    assert list_reasons(output) == [reason]
    assert output.rejected["raw_output"].to_pylist() == ["raw"]


def test_only_failing_rows_are_asked_again_and_with_another_seed():
    def answer(request, number):
        bad = request.variables["request"].endswith("hall") and number < 2
        return {**GOOD, "primary": f"{request.variables['request']}.", **({"third_party": "No."} if bad else {})}

    engine = ScriptedTextEngine(answer)
    output = run(engine, {}, {"request": "play some jazz in the hall"}, max_attempts=3)
    assert [len(batch) for batch in engine.batches] == [2, 1, 1]
    assert output.kept["write_attempts"].to_pylist() == [1, 3]
    seeds = [r.seed for r in engine.requests if r.variables["request"].endswith("hall")]
    assert len(set(seeds)) == 3


def test_the_reason_of_the_last_attempt_counts():
    lines = ["No.", "No, don't, play some jazz in the kitchen."]
    engine = ScriptedTextEngine(lambda request, number: {**GOOD, "third_party": lines[number]})
    assert list_reasons(run(engine, max_attempts=2)) == ["repeats_request"]


def test_the_first_good_candidate_is_taken():
    lines = ["No.", LINE, "No way, it is late already."]
    engine = ScriptedTextEngine(lambda request, number: {**GOOD, "third_party": lines[number]})
    output = run(engine, candidates=3)
    assert len(engine.batches) == 1
    assert output.kept["third_party_text"].to_pylist() == [LINE]
    assert output.kept["write_attempts"].to_pylist() == [3]


def test_apostrophes_are_dropped_if_asked():
    output = run(answer_always(GOOD), keep_apostrophes=False)
    assert output.kept["third_party_text"].to_pylist() == [LINE.replace("'", "")]


def test_guided_replies_must_begin_with_an_opening_of_the_scenario():
    engine = answer_always(GOOD)
    run(engine)
    pattern = engine.requests[0].reply_schema["properties"]["third_party"]["pattern"]
    openings = load_taxonomy()["veto_with_justification"].openings
    offered = [opening for opening in openings if re.match(pattern, f"{opening}the dog will run out.")]
    assert len(offered) == 3
    assert not re.match(pattern, "The dog will run out.")


def test_unguided_replies_have_the_schema_of_the_pack():
    engine = answer_always(GOOD)
    run(engine, guided_openings=False)
    assert "pattern" not in engine.requests[0].reply_schema["properties"]["third_party"]


def test_where_a_word_slipped_the_mind_the_bystander_may_supply_it():
    row = {"scenario": "recall_assistance", "request": "call doctor tanaka about the results"}
    texts = {"primary": "Call doctor, um, what's his name, about the results.", "third_party": "You mean Tanaka."}
    assert len(run(answer_always(texts), row).kept) == 1
    lost = {**texts, "third_party": "You mean tomorrow."}
    row["request"] = "call doctor tanaka about blood tests"
    assert list_reasons(run(answer_always(lost), row)) == ["primary_changed_meaning"]


def test_an_empty_table_asks_nothing():
    engine = answer_always(GOOD)
    rows = make_rows(DRAWN).slice(0, 0)
    output = STAGE(rows, make_context(engine, WriteInterruptions()))
    assert len(output.kept) == len(output.rejected) == 0
    assert engine.requests == []
