"""Word error rates, with values worked out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.tasks.metrics.text_normaliser import normalise_text
from bystander.tasks.metrics.wer import measure_wer

SAME = [
    ("Set it to fifty.", "Set it to 50."),
    ("Wake me at 7.30.", "Wake me at 7:30."),
    ("Wake me at seven thirty.", "Wake me at 7:30."),
    ("Wake me at seven thirty.", "Wake me at 7.30"),
    ("Meet me at two thirty pm.", "Meet me at 2:30 PM."),
    ("Meet me at two thirty pm.", "Meet me at 2:30 p.m."),
    ("Meet me at two thirty p m", "Meet me at 2.30pm"),
    ("At two pm please", "At 2:00 p.m., please."),
    ("The bus leaves at seven oh five.", "The bus leaves at 7:05."),
    ("Call me at seven o'clock.", "Call me at 7:00."),
    ("Call me at seven o'clock.", "Call me at 7 o'clock"),
    ("Call me at seven.", "Call me at 7:00."),
    ("One thirty works for me.", "1:30 works for me."),
    ("Twelve fifteen then", "12:15 then"),
    ("Can you set the...", "Can you set the"),
    ("Can you set the...", "Can you set the-"),
    ("Set a timer for 5...", "Set a timer for five…"),
    ("Wait... what?", "Wait, what?"),
    ("a hundred and five people", "105 people"),
    ("twenty-five percent off", "25% off"),
    ("three dollars and fifty cents", "$3.50"),
    ("two and a half cups", "2.5 cups"),
    ("the first of May", "the 1st of May"),
    ("in nineteen ninety nine", "in 1999"),
    ("dial five five five one two three four", "Dial 555-1234."),
    ("It's what's there.", "It is what is there."),
    ("Whats the weather like", "What's the weather like?"),
    ("Turn on the wifi", "Turn on the Wi-Fi."),
    ("send an email", "Send an e-mail."),
    ("What is two plus two?", "What is 2 + 2?"),
    ("five minus three", "5 - 3"),
    ("It is minus ten outside.", "It is -10 outside."),
    ("Is it one half?", "Is it 1/2?"),
    ("It is seventy degrees", "It is 70°"),
    ("OK, alright.", "Okay, all right."),
    ("um, turn it off", "Turn it off."),
    ("the colour grey", "the color gray"),
    ("Hmm.", "Hmm"),
    ("One more time.", "1 more time"),
    ("a thousand steps", "1,000 steps"),
    ("You can’t", "you cannot"),
    ("Mr. Smith", "mister Smith"),
]

DIFFERENT = [
    ("set it to fifty", "set it to fifteen", 1 / 4),
    ("turn off the lamp", "turn off lamp", 1 / 4),
    ("turn off the lamp", "turn off the the lamp", 1 / 4),
    ("wake me at 7:30", "wake me at 7:13", 1 / 4),
    ("at two pm", "at two am", 1 / 3),
    ("Two point five cups", "25 cups", 1 / 2),
    ("Hmm.", "Thank you for watching.", 4.0),
    ("Hmm.", "", 1.0),
    ("hello", "", 1.0),
    ("hello there", "good bye now you", 2.0),
    ("three point one four", "three one four", 1.0),
    ("I can do it", "I can't do it", 1 / 4),
    ("add nine plus seven", "add nine seven", 3 / 4),
]


@pytest.mark.parametrize(("reference", "hypothesis"), SAME)
def test_takes_spellings_of_the_same_words_as_equal(reference, hypothesis):
    assert measure_wer(reference, hypothesis).normalised == 0
    assert measure_wer(hypothesis, reference).normalised == 0


@pytest.mark.parametrize(("reference", "hypothesis", "rate"), DIFFERENT)
def test_counts_real_differences(reference, hypothesis, rate):
    assert measure_wer(reference, hypothesis).normalised == pytest.approx(rate)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "rate"),
    [
        ("Set it to fifty.", "Set it to 50.", 1 / 4),
        ("Turn it off.", "turn it off", 2 / 3),
        ("a b c d", "a x c d e", 2 / 4),
        ("wi fi", "wifi", 1.0),
        ("same words", "same words", 0.0),
        ("a b", "", 1.0),
    ],
)
def test_compares_raw_words_as_written(reference, hypothesis, rate):
    assert measure_wer(reference, hypothesis).raw == pytest.approx(rate)


def test_defines_the_rate_of_an_empty_reference():
    assert measure_wer("", "").normalised == measure_wer("", "").raw == 0
    assert measure_wer("", "two words").normalised == measure_wer("...", "two words").normalised == 2
    assert measure_wer("", "two words").raw == 2


def test_splits_mandarin_into_characters():
    assert normalise_text("你好，世界。", "zh") == "你 好 世 界"
    assert measure_wer("你好世界", "你好世纪", "zh").normalised == pytest.approx(1 / 4)


WORDS = st.sampled_from(
    ["one", "oh", "two", "thirty", "hundred", "point", "and", "a", "half", "7:30", "7.30", "$3.50", "1/2", "percent",
     "double", "pm", "minus", "plus", "dollars", "first", "the", "...", "0", "00", "1,000", "million", "cents", "."]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=8))
def test_never_fails_on_strings_of_number_words(words):
    text = " ".join(words)
    assert measure_wer(text, text).normalised == 0
    assert normalise_text(text) == " ".join(normalise_text(text).split())


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_is_never_negative_and_0_for_the_same_text(one, other):
    rates = measure_wer(one, other)
    assert rates.raw >= 0 <= rates.normalised
    assert measure_wer(one, one).normalised == measure_wer(one, one).raw == 0
