"""Authored conversations of one side, and voices of one side: nothing of the other, and all else as before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bystander.schemas.engines import TextReply, TextRequest, Voice
from bystander.schemas.sid import SPEECH_CATEGORIES
from bystander.schemas.sid_params import SpeakConversations
from bystander.schemas.sides import Sided, SideUse
from bystander.schemas.speech_engine_configs import FakeSpeechConfig
from bystander.schemas.text_tasks import SIDE, WRITE_CONVERSATION
from bystander.tasks.engines.authored_conversations import NoTextsError, draw_conversation, load_authored_texts
from bystander.tasks.engines.kokoro_styles import load_styles
from bystander.tasks.engines.registry import open_speech_engine
from bystander.tasks.engines.rule_tagger import RuleTagger
from bystander.tasks.stages.speak_conversations import list_speaking

LANGUAGES = ("en", "zh")


def list_voices(engine: str) -> Sequence[Voice]:
    if engine == "kokoro":
        return [Voice(voice, language) for language in LANGUAGES for voice in load_styles(language).voices]
    return open_speech_engine(FakeSpeechConfig(languages=LANGUAGES), Path).voices


def draw_texts(language: str, use: SideUse) -> tuple[set[str], set[str]]:
    drawn = [
        draw_conversation(language, category, seed, Sided(use=use))
        for seed in range(600)
        for category in SPEECH_CATEGORIES
    ]
    return {one.assistant_text for one in drawn}, {one.substance for one in drawn}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_sides_share_no_text_and_are_everything_together(language: str) -> None:
    rest, held = draw_texts(language, "rest"), draw_texts(language, "held_out")
    texts = load_authored_texts(language)
    for one, other in zip(rest, held, strict=True):
        assert one
        assert other
        assert not one & other
    assert rest[0] | held[0] == {turn.say for turn in texts.turns}
    assert rest[1] | held[1] == {*texts.general, *(own for turn in texts.turns for own in turn.own)}


def test_without_a_side_texts_are_drawn_as_in_the_version_that_knew_none() -> None:
    drawn = draw_conversation("en", "middle", 7)
    assert drawn.assistant_text.startswith(
        "The battery of this camera lasts for about four hundred pictures, but in cold"
    )
    assert (drawn.backchannel, drawn.substance) == ("Right", "I only want to film with it.")
    assert draw_conversation("zh", "beginning", 11).substance == "把六位数字念给我听。"


def test_the_writer_heeds_the_side_that_a_request_names() -> None:
    task = WRITE_CONVERSATION["en"].name
    variables = {"category": "middle", "topic": "", SIDE: Sided(use="held_out").encode_side()}
    [reply] = RuleTagger().generate([TextRequest(task=task, messages=(), seed=3, variables=variables)])
    assert isinstance(reply, TextReply)
    assert json.loads(reply.text)["assistant_text"] in draw_texts("en", "held_out")[0]


def test_a_side_without_texts_is_said() -> None:
    with pytest.raises(NoTextsError, match="hold_out 1e-09"):
        draw_conversation("en", "middle", 7, Sided(use="held_out", hold_out=1e-9))


@pytest.mark.parametrize("engine", ["kokoro", "fake"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_each_side_has_voices_to_speak(engine: str, language: str) -> None:
    voices = list_voices(engine)
    rest, held, every = (
        set(list_speaking(voices, language, SpeakConversations(avoid_voices=("zf_xiaoni",), use=use)))
        for use in ("rest", "held_out", "all")
    )
    assert not rest & held
    assert rest | held == every
    for side in (rest, held):
        assert len(side) >= 2
        if engine == "kokoro":
            assert {voice[1] for voice in side} == {"f", "m"}  # women and men
