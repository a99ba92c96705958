"""Scripting conversations: what each category has, what texts must be like, and the pause."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from scripted_text import ScriptedTextEngine, answer_always, list_reasons
from sid_turns import make_plans, make_sid_context

from bystander.schemas.engines import RowFault
from bystander.schemas.sid import SPEECH_CATEGORIES
from bystander.schemas.sid_params import WriteConversations
from bystander.tasks.engines.rule_tagger import RuleTagger
from bystander.tasks.stages.script_checks import end_text
from bystander.tasks.stages.write_conversations import STAGE
from bystander.tasks.texts.backchannels import find_new_intent, load_lexicon
from bystander.tasks.texts.conversation_topics import list_topics
from bystander.tasks.texts.turn_words import split_turn_words

GOOD = {
    "assistant_text": "The ferry to the island leaves every hour from the old pier, and the trip takes fifty minutes.",
    "backchannel": "Uh huh",
    "substance": "Can I take my bicycle on board?",
}
GOOD_ZH = {
    "assistant_text": "去岛上的轮渡每个小时从老码头开一班，路上大约五十分钟，船上有座位。",
    "backchannel": "嗯嗯",
    "substance": "自行车可以带上船吗？",
}


def run(engine, *changes, seed=7, **params):
    context = make_sid_context(WriteConversations(**params), seed, writer=engine)
    return STAGE(make_plans(*(changes or ({},))), context)


@pytest.mark.parametrize(
    ("category", "has"),
    [
        ("beginning", ("assistant_text", "substance")),
        ("middle", ("assistant_text", "backchannel", "substance")),
        ("uninterrupted", ("assistant_text", "backchannel")),
    ],
)
def test_a_category_asks_for_its_texts_and_has_them(category, has):
    engine = answer_always(GOOD)
    row = run(engine, {"category": category}).kept.to_pylist()[0]
    schema = engine.requests[0].reply_schema
    assert schema is not None
    assert tuple(schema["properties"]) == tuple(schema["required"]) == has
    assert {name: bool(row[name]) for name in GOOD} == {name: name in has for name in GOOD}
    assert category == "middle" or row["gap_s"] is None


def test_the_topic_is_drawn_row_by_row():
    engine = answer_always(GOOD)
    run(engine, *({"recording_id": f"r{i}"} for i in range(40)))
    topics = {request.variables["topic"] for request in engine.requests}
    assert len(topics) > 15
    assert topics <= {*list_topics("en")}


def test_a_small_model_chooses_among_backchannels_drawn_from_the_lexicon():
    engine = answer_always(GOOD)
    run(engine, *({"recording_id": f"r{i}"} for i in range(40)))
    offered = [request.reply_schema["properties"]["backchannel"]["enum"] for request in engine.requests]
    assert all(len(set(choice)) == 4 for choice in offered)
    assert {text for choice in offered for text in choice} == {*load_lexicon("en").spoken}
    run(engine, guided_backchannels=False)
    assert engine.requests[-1].reply_schema["properties"]["backchannel"]["maxLength"] == 30


def test_pauses_are_drawn_and_a_share_is_spoken_as_one():
    plans = [{"recording_id": f"r{i}"} for i in range(200)]
    rows = run(answer_always(GOOD), *plans).kept.to_pylist()
    gaps = [row["gap_s"] for row in rows if row["gap_s"] is not None]
    assert 0.2 < 1 - len(gaps) / len(rows) < 0.4
    assert 0.15 <= min(gaps) < 0.22
    assert 0.72 < max(gaps) <= 0.8
    assert {(row["gap_s"] is None, row["backchannel"]) for row in rows} == {(True, "Uh huh,"), (False, "Uh huh.")}
    assert {row["gap_s"] for row in run(answer_always(GOOD), *plans, joined_share=1).kept.to_pylist()} == {None}


def test_rows_hang_on_their_plan_and_the_seed_alone():
    plans = [{"recording_id": f"r{i}", "category": SPEECH_CATEGORIES[i % 3]} for i in range(6)]
    together = {row["recording_id"]: row for row in run(RuleTagger(), *plans).kept.to_pylist()}
    alone = [run(RuleTagger(), plan).kept.to_pylist()[0] for plan in reversed(plans)]
    assert all(together[row["recording_id"]] == row for row in alone)
    assert run(RuleTagger(), *plans, seed=8).kept.to_pylist() != [*together.values()]


@pytest.mark.parametrize(
    ("reason", "texts"),
    [
        ("unspeakable_text", {"assistant_text": GOOD["assistant_text"].replace("fifty", "50")}),
        ("unspeakable_text", {"substance": "Can I take my bicycle & my dog?"}),
        ("unspeakable_text", {"backchannel": "Yeah :)"}),
        ("assistant_text_too_short", {"assistant_text": "The ferry leaves every hour from the old pier."}),
        ("assistant_text_too_long", {"assistant_text": " ".join(f"{w} is {w}ed" for w in "abcdefghijklmnop") + "."}),
        ("substance_too_short", {"substance": "Why?"}),
        ("substance_too_long", {"substance": " ".join(f"w{w}" for w in "abcdefghijklmnopqrstu") + "?"}),
        ("not_a_backchannel", {"backchannel": "Yeah, but why"}),
        ("not_a_backchannel", {"backchannel": "Stop"}),
        ("substance_begins_with_backchannel", {"substance": "Okay, can I take my bicycle?"}),
        ("substance_begins_with_backchannel", {"substance": "Oh, really, I see."}),
        ("speaks_as_assistant", {"substance": "Would you like me to book the ferry?"}),
        ("repeats_itself", {"substance": "Can I take can I take can I take it?"}),
        ("copies_example", {"substance": "Wait, it is the brush that does not turn."}),
        ("unparsable_reply", {"substance": ""}),
        ("unparsable_reply", {"assistant_text": None}),
    ],
)
def test_texts_that_are_no_good(reason, texts):
    output = run(answer_always({**GOOD, **texts}), max_attempts=1)
    assert list_reasons(output) == [reason]
    assert output.rejected["raw_output"][0].as_py()


@pytest.mark.parametrize(
    ("reason", "texts"),
    [
        ("unspeakable_text", {"substance": "bike可以带上船吗？"}),
        ("unspeakable_text", {"assistant_text": GOOD_ZH["assistant_text"].replace("五十", "50")}),
        ("assistant_text_too_short", {"assistant_text": "轮渡每个小时开一班。"}),
        ("not_a_backchannel", {"backchannel": "对了"}),
        ("substance_begins_with_backchannel", {"substance": "好的，自行车可以带上船吗？"}),
        ("repeats_itself", {"substance": "可以带上船吗可以带上船吗？"}),
        ("copies_example", {"substance": "等一下，不转的是刷子。"}),
    ],
)
def test_mandarin_texts_that_are_no_good(reason, texts):
    assert list_reasons(run(answer_always({**GOOD_ZH, **texts}), {"language": "zh"}, max_attempts=1)) == [reason]


def test_mandarin_texts_hold_chinese_characters_and_their_marks_only():
    texts = {**GOOD_ZH, "backchannel": "嗯 嗯", "substance": "等等,自行车可以带上船吗?"}
    row = run(answer_always(texts), {"language": "zh"}, joined_share=1).kept.to_pylist()[0]
    assert row["backchannel"] == "嗯嗯，"
    assert row["substance"] == "等等，自行车可以带上船吗？"


def test_a_row_is_tried_again_and_another_language_is_not():
    engine = ScriptedTextEngine(lambda request, number: {**GOOD, "backchannel": "Stop"} if number < 2 else GOOD)
    output = run(engine, {}, {"language": "fr"}, max_attempts=3)
    assert len(output.kept) == 1
    assert list_reasons(output) == ["language_not_scripted"]
    assert len({request.seed for request in engine.requests}) == len(engine.requests) == 3
    assert list_reasons(run(answer_always(RowFault("reply_too_long")))) == ["reply_too_long"]


@pytest.mark.parametrize(
    ("text", "language", "mark", "ended"),
    [
        ("Yeah", "en", ".", "Yeah."),
        ("Yeah.", "en", ",", "Yeah,"),
        ("Oh, really?", "en", ",", "Oh, really?"),
        ("嗯", "zh", ",", "嗯，"),
        ("嗯。", "zh", ".", "嗯。"),
        ("真的吗？", "zh", ".", "真的吗？"),
    ],
)
def test_texts_end_in_a_mark(text, language, mark, ended):
    assert end_text(text, language, mark) == ended


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_authored_conversation_passes_and_breaks_where_its_substance_begins(language):
    plans = [
        {"recording_id": f"{category}-{i}", "category": category, "language": language}
        for category in SPEECH_CATEGORIES
        for i in range(150)
    ]
    output = run(RuleTagger(), *plans)
    assert list_reasons(output) == []
    space = " " if language == "en" else ""
    for row in output.kept.to_pylist():
        text = space.join(part for part in (row["backchannel"], row["substance"]) if part)
        expected = len(split_turn_words(row["backchannel"])) if row["substance"] else None
        assert find_new_intent(text, language, row["assistant_text"]) == expected, text


def test_ranges_ascend():
    with pytest.raises(ValidationError, match="gap_s: give two numbers"):
        WriteConversations(gap_s=(0.8, 0.2))
