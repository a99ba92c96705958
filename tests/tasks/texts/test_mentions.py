"""What a reply makes of a remark, by rules."""

import pytest

from bystander.tasks.texts.mentions import asks_user, find_remark_words, refers_to_other_person


def test_remark_words_are_those_that_only_the_remark_has():
    found = find_remark_words("Playing jazz near the neighbours.", "Play some jazz.", "The neighbours like jazz.")
    assert found == ["neighbour"]
    assert find_remark_words("Playing jazz.", "Play some jazz.", "Good idea, I like jazz.") == []


@pytest.mark.parametrize(
    ("reply", "mentions"),
    [
        ("Someone near you says it is closed.", True),
        ("I heard another voice suggest tea.", True),
        ("Your friend wants olives. Shall I add them?", True),
        ("Okay, one pizza with olives.", False),
        ("", False),
    ],
)
def test_another_person_is_spoken_of(reply, mentions):
    assert refers_to_other_person(reply) is mentions


@pytest.mark.parametrize(
    ("reply", "asks"),
    [
        ("Shall I wait?", True),
        ('Shall I say "stop"?"', True),
        ("If that is right, just say yes and I will go on.", True),
        ("Someone said five. Let me know which you want.", True),
        ("Did you mean five? I set it to five.", False),
        ("Okay, five.", False),
        ("", False),
    ],
)
def test_the_decision_is_left_to_the_user(reply, asks):
    assert asks_user(reply) is asks
