"""The rule tagger: what it answers, and how often it is right on turns whose break is marked."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from bystander.schemas.engines import RowFault, TextEngine, TextReply, TextRequest
from bystander.schemas.sid import MIDDLE, SPEECH_CATEGORIES
from bystander.schemas.sid_engine_configs import RuleTaggerConfig
from bystander.schemas.text_tasks import CHECK_NEW_INTENT, SID_LANGUAGES, TAG_BREAK, WRITE_CONVERSATION
from bystander.tasks.engines.authored_conversations import draw_conversation, load_authored_texts
from bystander.tasks.engines.registry import open_tagger
from bystander.tasks.engines.rule_tagger import RuleTagger
from bystander.tasks.texts.backchannels import find_new_intent, is_backchannel
from bystander.tasks.texts.turn_words import split_turn_words

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "tagger_turns.py"


def load_benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tagger_turns", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ask(task: str, seed: int = 0, options: tuple[str, ...] = (), **texts: str) -> TextReply | RowFault:
    return RuleTagger().generate([TextRequest(task, (), seed=seed, variables=texts, options=options)])[0]


def test_it_is_a_text_engine_of_its_own() -> None:
    engine = open_tagger(RuleTaggerConfig(), Path)
    assert isinstance(engine, TextEngine)
    assert engine.identity == RuleTagger().identity
    assert (engine.identity.name, len(engine.identity.revision)) == ("rule_tagger", 64)


@pytest.mark.parametrize(
    ("language", "text", "value"),
    [
        ("en", "Yeah, so what?", {"word": "so", "number": 2}),
        ("en", "Uh-huh.", {"word": "", "number": 0}),
        ("zh", "嗯，那明天呢？", {"word": "那", "number": 2}),
        ("zh", "对对。", {"word": "", "number": 0}),
    ],
)
def test_tags_name_the_word_and_its_number(language, text, value) -> None:
    reply = ask(TAG_BREAK[language].name, text=text, context="", words="")
    assert isinstance(reply, TextReply)
    assert reply.value == value


def test_options_say_whether_new_intent_has_begun() -> None:
    task, text = CHECK_NEW_INTENT["en"].name, "Yeah, so what?"
    heard = ["Yeah,", "Yeah, so", text]
    replies = [ask(task, options=("B", "A"), text=text, context="", heard=part) for part in heard]
    assert [reply.option_probs for reply in replies if isinstance(reply, TextReply)] == [
        {"B": 0.0, "A": 1.0},
        {"B": 1.0, "A": 0.0},
        {"B": 1.0, "A": 0.0},
    ]


def test_what_it_does_not_know_is_outside_its_coverage() -> None:
    for reply in (
        ask("write_reply", text="x"),
        ask(TAG_BREAK["en"].name, text="Yeah"),
        ask(CHECK_NEW_INTENT["en"].name, options=("A", "B", "C"), text="x", heard="x", context=""),
    ):
        assert isinstance(reply, RowFault)
        assert reply.reason == "outside_coverage"


def test_conversations_hang_on_the_seed_alone() -> None:
    task = WRITE_CONVERSATION["en"].name
    one, same, other = (ask(task, seed=seed, category=MIDDLE, topic="x") for seed in (1, 1, 2))
    assert one == same != other


@pytest.mark.parametrize("language", SID_LANGUAGES)
def test_authored_texts_are_enough_and_hold_what_they_say(language) -> None:
    texts = load_authored_texts(language)
    said = [turn.say for turn in texts.turns]
    substances = [*texts.general, *(own for turn in texts.turns for own in turn.own)]
    assert len(set(said)) == len(said) >= 40
    assert len(set(substances)) == len(substances) >= 80
    words = [len(split_turn_words(text)) for text in said]
    assert (min(words), max(words)) >= (15, 15) if language == "en" else min(words) >= 25
    assert max(words) <= (35 if language == "en" else 60)
    assert [text for text in substances if find_new_intent(text, language) != 0] == []


@pytest.mark.parametrize("language", SID_LANGUAGES)
def test_draws_use_all_of_it(language) -> None:
    drawn = [draw_conversation(language, category, seed) for seed in range(1500) for category in SPEECH_CATEGORIES]
    texts = load_authored_texts(language)
    assert {conversation.assistant_text for conversation in drawn} == {turn.say for turn in texts.turns}
    own = {own: turn.say for turn in texts.turns for own in turn.own}
    assert {*own, *texts.general} == {conversation.substance for conversation in drawn}
    for conversation in drawn:
        assert own.get(conversation.substance, conversation.assistant_text) == conversation.assistant_text
        assert is_backchannel(conversation.backchannel, language)


@pytest.mark.parametrize(("language", "right"), [("en", 47), ("zh", 50)])
def test_accuracy_on_the_measuring_half_is_as_documented(language, right) -> None:
    turns = [t for t in load_benchmark().read_turns() if (t.half, t.language) == ("measure", language)]
    assert len(turns) == 55
    found = [find_new_intent(turn.text, language, turn.context) for turn in turns]
    assert sum(index == turn.break_word_index for index, turn in zip(found, turns, strict=True)) == right


def test_the_two_halves_of_the_benchmark_share_no_turn() -> None:
    turns = load_benchmark().read_turns()
    for language in SID_LANGUAGES:
        halves = {half: [t for t in turns if (t.half, t.language) == (half, language)] for half in ("tune", "measure")}
        assert not {t.context for t in halves["tune"]} & {t.context for t in halves["measure"]}
        for half in halves.values():
            assert {"backchannel", "interruption", "growing", "sarcasm", "denial"} <= {t.kind for t in half}
