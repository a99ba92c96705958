"""Rules for requests: what could be put to an assistant, and what needs a person."""

from __future__ import annotations

import pytest

from bystander.tasks.texts.request_forms import (
    asks_or_requests,
    find_human_need,
    find_name,
    list_given_names,
    split_speaker_name,
)
from bystander.tasks.texts.transcript_sentences import write_sentence


@pytest.mark.parametrize(
    "text",
    [
        "What's the weather like tomorrow?",
        "UM SO WHAT DOES AN ELEPHANT EAT",
        "and how long does it take to boil an egg",
        "in which year was that film made",
        "Is rubber more expensive than titanium",
        "Play something quiet.",
        "okay um set a timer for ten minutes",
        "I wonder how many people live there",
        "do you know what time it is",
        "any volunteers does anyone know the answer",
    ],
)
def test_questions_and_requests_are_found_without_marks(text: str) -> None:
    assert asks_or_requests(text)


@pytest.mark.parametrize(
    "text",
    [
        "I think both.",
        "When I was young we had a cat.",
        "Yeah we should do that then.",
        "so our aim is to produce a remote control",
        "That would be cool.",
    ],
)
def test_statements_are_none(text: str) -> None:
    assert not asks_or_requests(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("What did you say?", "asks_to_repeat"),
        ("What did you cook?", "addresses_people"),
        ("What do you mean?", "asks_to_repeat"),
        ("What do you think about red?", "asks_for_opinion"),
        ("Why don't we use wood?", "asks_for_opinion"),
        ("Where did she put the bill?", "refers_to_people"),
        ("What are our price goals?", "refers_to_people"),
        ("How does this work?", "needs_context"),
        ("Is it the red one?", "needs_context"),
        ("What is on the whiteboard?", "needs_sight"),
        ("Could the window be shut?", "needs_hands"),
        ("Can you tell me how tall giraffes are?", None),
        ("How do you spell necessary?", None),
        ("Do you know what LCD stands for?", None),
        ("What is the tallest building in the world?", None),
        ("How many weeks are left until Christmas?", None),
    ],
)
def test_needs(text: str, reason: str | None) -> None:
    found = find_human_need(text)
    assert (found and found[0]) == reason


def test_names_count_where_they_call_somebody() -> None:
    assert find_name("Monica, what is a fossil?", set()) == "Monica"
    assert find_name("What is a fossil, Ross?", set()) == "Ross"
    assert find_name("Who was Michael Faraday, and when did he live?", set()) is None
    assert find_name("Where is chandler going?", {"chandler"}) == "chandler"
    assert not {"will", "may", "mark", "grace", "jack"} & list_given_names()


def test_ids_of_speakers_are_no_names() -> None:
    assert split_speaker_name("FEE041") == []
    assert split_speaker_name("Monica Geller") == ["monica", "geller"]
    assert split_speaker_name("All") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("HOW MUCH IS A D_V_D", "How much is a DVD?"),
        ('She said "no" -- really; it\'s 5% off', "She said no, really, it's 5 percent off?"),
        ("th- the mm-hmm thing 'cause I", "Th the mm hmm thing cause I?"),
        ("already done.", "Already done."),
    ],
)
def test_transcripts_are_made_speakable(text: str, said: str) -> None:
    assert write_sentence(text, asks=True) == said
