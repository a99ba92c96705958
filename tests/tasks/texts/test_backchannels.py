import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.texts.backchannels import (
    LEXICON_LANGUAGES,
    find_new_intent,
    find_segments,
    is_backchannel,
    load_lexicon,
)
from bystander.tasks.texts.turn_words import find_turn_words, insert_break, split_turn_words


def tag(text, language="en", context=""):
    return insert_break(text, find_turn_words(text), find_new_intent(text, language, context))


@pytest.mark.parametrize(
    "tagged",
    [
        "Yeah.",
        "Mmmm, okaaay",
        "Uh-huh, uh huh",
        "Oh no",
        "Yeah, so",
        "really?",
        "I see, thanks.",
        "Yeah, <break>so what about Tuesday?",
        "okay got it <break>what comes next",
        "Okay, um, <break>wait, it's stuck.",
        "yeah right <break>that's never going to work",
        "<break>No, no, that's wrong.",
        "<break>Right now I need milk.",
        "Right, <break>now I need milk.",
        "<break>I see a problem.",
        "<break>So what?",
        "<break>Stop.",
    ],
)
def test_english_breaks(tagged):
    assert tag(tagged.replace("<break>", "")) == tagged


@pytest.mark.parametrize(
    "tagged",
    [
        "嗯。",
        "对对对，好的",
        "哦，原来是这样啊",
        "然后呢？",
        "OK，好的",
        "嗯，对，<break>那我先走了",
        "嗯嗯好的<break>那个我想问一下",
        "哦我知道了<break>但是太贵了",
        "<break>对了，明天呢",
        "<break>好多少钱",
        "<break>可以换一个吗",
        "好，<break>可以换一个吗",
        "<break>是不是明天",
        "<break>等一下。",
    ],
)
def test_mandarin_breaks(tagged):
    assert tag(tagged.replace("<break>", ""), "zh") == tagged


def test_words_repeated_from_the_other_speaker_acknowledge_unless_they_ask():
    context = "The train leaves at seven thirty from platform four"
    assert tag("Seven thirty, okay.", "en", context) == "Seven thirty, okay."
    assert tag("Seven thirty? Are you sure?", "en", context) == "<break>Seven thirty? Are you sure?"
    assert tag("Seven thirty, where from?", "en", context) == "Seven thirty, <break>where from?"
    assert tag("七点半，好的", "zh", "火车七点半从四号站台出发") == "七点半，好的"
    assert tag("七点半，好的", "zh", "火车八点从四号站台出发") == "<break>七点半，好的"


@pytest.mark.parametrize("language", LEXICON_LANGUAGES)
def test_what_a_user_is_scripted_to_say_acknowledges(language):
    spoken = load_lexicon(language).spoken
    assert len(set(spoken)) >= 25
    assert all(is_backchannel(text, language) for text in spoken)


def test_no_words_are_no_backchannel():
    assert not is_backchannel("", "en")
    assert not is_backchannel("...", "zh")
    assert not is_backchannel("Yeah, so", "en")  # the connective says that more is to come


@pytest.mark.parametrize(
    ("stretches", "language"),
    [
        ("Yeah, yeah, okay | so what about Tuesday?", "en"),
        ("okay got it | what comes next", "en"),
        ("righto | what comes next", "en"),
        ("No, | no, | I asked how tall it is, | not what it weighs.", "en"),
        ("Barn, | yeah.", "en"),
        ("嗯，对对，| 那明天呢？", "zh"),
        ("嗯好的| 我想问一下", "zh"),
    ],
)
def test_new_intent_can_begin_with_a_stretch_of_the_turn(stretches, language):
    parts = stretches.replace("| ", "|").split("|")
    counts = [len(split_turn_words(part)) for part in parts]
    assert find_segments("".join(parts), language) == [sum(counts[:i]) for i in range(len(counts))]


PIECES = st.sampled_from("yeah right good no so now really uh-huh x , ? ... 嗯 对 好 那 我 ，".split())
CONTEXTS = st.sampled_from(["", "right now x", "那我好"])


@given(st.lists(PIECES, max_size=40), st.sampled_from(LEXICON_LANGUAGES), CONTEXTS)
def test_a_break_is_a_word_of_the_turn(pieces, language, context):
    text = " ".join(pieces)
    index = find_new_intent(text, language, context)
    words = split_turn_words(text)
    assert index is None or 0 <= index < len(words)
    starts = find_segments(text, language)
    assert starts == sorted({*starts})
    assert bool(starts) == bool(words)
    assert {*starts} <= {*range(len(words))}
    assert index is None or index in starts
    assert index == find_new_intent(text, language, context)


def test_long_turns_take_no_time():
    # Each acknowledgement may hang on the next: followed naively, this would take for ever, or too deep a stack.
    assert find_new_intent("good " * 2000 + "grief", "en") == 0
    assert find_new_intent("good " * 2000, "en") is None
    assert find_new_intent("好" * 2000 + "丽", "zh") is not None
