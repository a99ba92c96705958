import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.stages import text_rules as rules
from bystander.tasks.stages.sentence_cut import cut_sentence
from bystander.tasks.texts.spoken_text import clean_spoken_text, is_speakable

WORDS = st.lists(st.text("abcdefgh'XYZ019", min_size=1, max_size=8).filter(lambda w: w.strip("'")), max_size=25)


@given(WORDS, st.integers(0, 2**32), st.sampled_from([".", "?", "!", ""]))
def test_a_cut_keeps_a_beginning_of_three_words_at_least_and_never_all(words, seed, mark):
    text = " ".join(words) + mark
    cut = cut_sentence(text, np.random.default_rng(seed))
    if len(words) < 4:
        assert cut is None
        return
    assert cut is not None
    kept = cut.removesuffix("...").split()
    assert cut.endswith("...")
    assert words[: len(kept)] == kept
    assert max(3, len(words) / 2) <= len(kept) <= len(words) - 1


def test_every_allowed_cut_occurs():
    cuts = {cut_sentence("one two three four five six.", np.random.default_rng(i)) for i in range(60)}
    assert cuts == {"one two three...", "one two three four...", "one two three four five..."}


def test_a_cut_ends_in_a_word_that_can_be_heard_where_there_is_one():
    cuts = {cut_sentence("Turn on the lights in the kitchen now.", np.random.default_rng(i)) for i in range(60)}
    assert cuts == {"Turn on the lights...", "Turn on the lights in the kitchen..."}
    assert cut_sentence("Take it to the", np.random.default_rng(0)) == "Take it to..."


def test_a_cut_drops_punctuation_before_the_ellipsis():
    assert cut_sentence("Well, I see, now go.", np.random.default_rng(0)) in {
        "Well, I see...",
        "Well, I see, now...",
    }


@given(st.text(max_size=60))
def test_speakable_texts_hold_only_allowed_characters(text):
    if is_speakable(text):
        assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .,?!'")
        assert any(c.isalpha() for c in text)
        assert not text.startswith("'")
        assert not text.endswith("'")


@given(st.text(max_size=60), st.booleans())
def test_cleaning_twice_changes_nothing(text, keep):
    once = clean_spoken_text(text, keep)
    assert clean_spoken_text(once, keep) == once
    assert keep or "'" not in once


@pytest.mark.parametrize(
    ("text", "speakable"),
    [
        ("Don't go.", True),
        ("It's 8 o'clock!", True),
        ("'Go' he said.", False),
        ("the dogs' bowl", False),
        ("a-b", False),
        ("caf\u00e9", False),
        ("line\nbreak", False),
        ("...", False),
        ("12?", False),
        ("", False),
    ],
)
def test_speakable(text, speakable):
    assert is_speakable(text) is speakable


def test_cleaning_straightens_what_writers_curl():
    assert clean_spoken_text(" Don\u2019t  re-heat it\u2026 ", True) == "Don't re heat it..."
    assert clean_spoken_text("Don\u2019t", False) == "Dont"


@pytest.mark.parametrize(
    ("request_text", "rewritten", "kept"),
    [
        ("what is the weather in rome tomorrow", "How is the weather in Rome going to be tomorrow?", True),
        ("set alarm for seven", "Wake me up at seven.", False),
        ("set alarm for seven", "Please set an alarm for seven.", True),
        ("play some jazz", "Could you put on some jazz?", True),
        ("play some jazz", "Play some rock.", False),
        ("call taxi", "Call a taxi to bring me from the office to the old harbour restaurant near Anna's.", False),
        ("turn on the lights", "Turn on the light, please.", True),
        ("what time is it", "What time is it?", True),
    ],
)
def test_keeps_meaning(request_text, rewritten, kept):
    assert rules.keeps_meaning(request_text, rewritten) is kept


@given(st.text("abcdefghij ", max_size=60))
def test_a_request_keeps_its_own_meaning(text):
    assert rules.keeps_meaning(text, text)


@pytest.mark.parametrize(
    "line",
    [
        "Okay, setting a timer for ten minutes.",
        "Sure, I can do that.",
        "Here is the weather for Rome.",
        "How can I help you today?",
        "Playing the next song.",
        "Would you like me to book it?",
        "The event has been added.",
    ],
)
def test_lines_of_an_assistant_are_seen(line):
    assert rules.speaks_as_assistant(line)


@pytest.mark.parametrize(
    "line",
    [
        "Sure, but the kids are asleep.",
        "Playing outside is better.",
        "I can tell you that, it's nine.",
        "Here we go again.",
    ],
)
def test_lines_of_a_bystander_are_left_alone(line):
    assert not rules.speaks_as_assistant(line)


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, I can't do that.",
        "As an AI language model, no.",
        "I am unable to help.",
        "I can\u2019t assist with that.",
    ],
)
def test_refusals_are_seen(text):
    assert rules.refuses(text)


@pytest.mark.parametrize("text", ["I can't stand jazz.", "The lid will not open.", "Sorry, which one?"])
def test_other_negations_are_no_refusals(text):
    assert not rules.refuses(text)


def test_label_leaks():
    assert rules.leaks_labels("That is actionable.")
    assert rules.leaks_labels("A third party spoke.")
    assert rules.leaks_labels("This is goal_suggestion.", ["goal_suggestion"])
    assert not rules.leaks_labels("The party starts at nine.", ["goal_suggestion"])


KEYS = ("act", "confirm", "defer", "ignore", "act_now")


@pytest.mark.parametrize(
    "text", ["Confirm: the lamp is on.", "Done. Act: it is on.", "This is 'act'.", "It is (defer).", "Label: ignore."]
)
def test_everyday_keys_leak_where_they_stand_as_labels(text):
    assert rules.leaks_labels(text, KEYS, KEYS)
    assert not rules.leaks_labels(text, KEYS)


@pytest.mark.parametrize(
    "text",
    [
        "Should I confirm the table?",
        "I will act on that: the lamp is on.",
        "Just ignore the bell, I set it for ten.",
        "What kind do you want? Confirm it, and I order it.",
    ],
)
def test_everyday_keys_may_be_said(text):
    assert not rules.leaks_labels(text, KEYS, KEYS)


@pytest.mark.parametrize("text", ["{a", "**bold**", "see [1]", "- a\n- b", "`code`"])
def test_markup(text):
    assert rules.has_markup(text)


def test_repetition():
    assert rules.repeats_itself("we go to the shop and we go to the shop")
    assert rules.repeats_itself("no no no")
    assert not rules.repeats_itself("No, no, let's go.")


def test_shared_words_count_each_occurrence_once():
    assert rules.measure_shared_words("the the dog", "the cat") == pytest.approx(1 / 3)
    assert rules.measure_shared_words("", "the cat") == 0


@pytest.mark.parametrize(
    ("line", "addressed"),
    [
        ("Why, are you trying to study?", True),
        ("I am so glad that you are going there.", True),
        ("Did you say twelve?", True),
        ("Is that your brother's number?", True),
        ("Do you really want that?", True),
        ("And add some olives, please.", False),
        ("Oh, and a big thank you too.", False),
        ("Could you make it louder?", False),
        ("No, make it half past six, if you can.", False),
        ("You know, I would rather have soup.", False),
        ("You know what, your phone is ringing.", True),
    ],
)
def test_you_said_to_a_person_is_told_from_you_said_to_the_assistant(line, addressed):
    assert rules.addresses_somebody(line) is addressed
