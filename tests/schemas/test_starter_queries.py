from collections import Counter

import pytest
from pydantic import ValidationError

from bystander.schemas.starter_queries import SPEAKABLE, StarterQuery, load_starter_queries, normalise_text

DOMAINS = {
    "device_control",
    "facts",
    "how_to",
    "maths",
    "media",
    "messages",
    "planning",
    "shopping",
    "small_talk",
    "travel",
    "writing",
}


def test_there_are_at_least_300_queries_over_all_domains() -> None:
    counts = Counter(query.domain for query in load_starter_queries())
    assert set(counts) == DOMAINS
    assert sum(counts.values()) >= 300
    assert min(counts.values()) >= 20


def test_no_request_stands_there_twice() -> None:
    texts = [normalise_text(query.text) for query in load_starter_queries()]
    assert len(set(texts)) == len(texts)


def test_texts_have_a_spoken_length() -> None:
    lengths = [len(query.text.split()) for query in load_starter_queries()]
    assert min(lengths) >= 4
    assert max(lengths) <= 16
    assert sum(5 <= length <= 16 for length in lengths) / len(lengths) > 0.95


def test_answers_end_as_sentences_and_never_refuse() -> None:
    for query in load_starter_queries():
        assert query.answer[-1] in ".?!"
        assert query.answer[0].isupper()
        assert not {"sorry", "cant", "cannot", "unable"} & set(normalise_text(query.answer).split())


@pytest.mark.parametrize("text", ["Mum's car, isn't it?", "Play it.", "Really?!"])
def test_spoken_characters_are_accepted(text: str) -> None:
    assert SPEAKABLE.fullmatch(text)


@pytest.mark.parametrize("text", ["well-known", "'quoted'", "dogs' home", "5€", "a; b", "naïve", "tab\there"])
def test_other_characters_are_rejected(text: str) -> None:
    assert not SPEAKABLE.fullmatch(text)


def test_a_slot_must_stand_in_the_text() -> None:
    with pytest.raises(ValidationError, match="do not stand in the text"):
        StarterQuery(text="Play jazz.", domain="media", intent="play", slots={"music": "blues"}, answer="Playing jazz.")


def test_normalising_ignores_case_punctuation_and_apostrophes() -> None:
    assert normalise_text("  What's  THAT, then?! ") == normalise_text("whats that then") == "whats that then"
