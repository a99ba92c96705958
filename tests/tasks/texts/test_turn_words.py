import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.texts.turn_words import (
    BREAK_TAG,
    find_turn_words,
    fold_word,
    insert_break,
    is_tagged_text,
    split_turn_words,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Yeah, so what's next?", ["Yeah,", "so", "what's", "next?"]),
        ("uh-huh - 7 p.m. ok", ["uh-huh", "7", "p.m.", "ok"]),
        ("Right\u2014but wait...no", ["Right", "but", "wait", "no"]),
        ("嗯，对那个 OK，3点的。", ["嗯", "对", "那", "个", "OK", "3", "点", "的"]),
        (" ... ? ", []),
        ("", []),
    ],
)
def test_words_are_as_written(text, words):
    assert split_turn_words(text) == words


@given(st.text(alphabet="ab '.,?!-\u2014\u2026嗯好，。<>0", max_size=40))
def test_words_lie_in_the_text_in_order(text):
    words = find_turn_words(text)
    assert [text[word.start : word.end] for word in words] == [word.text for word in words]
    ends = [0, *(word.end for word in words)]
    assert all(end <= word.start for end, word in zip(ends, words, strict=False))
    assert sum(map(str.isalnum, text)) == sum(sum(map(str.isalnum, word.text)) for word in words)


@given(st.text(alphabet="ab '.,?-嗯好，。", max_size=40), st.data())
def test_without_its_tag_a_tagged_text_is_the_text(text, data):
    words = find_turn_words(text)
    index = data.draw(st.sampled_from([None, *range(len(words))]))
    tagged = insert_break(text, words, index)
    assert tagged.replace(BREAK_TAG, "") == text
    assert tagged.count(BREAK_TAG) == (index is not None)
    assert is_tagged_text(tagged, text, index)
    others = {None, *range(len(words) + 1)} - {index}
    assert not any(is_tagged_text(tagged, text, other) for other in others)


def test_a_tag_within_a_word_or_a_changed_text_is_none():
    assert is_tagged_text("Yeah, <break>so what", "Yeah, so what", 1)
    for tagged in ("Yeah, s<break>o what", "Yeah <break>so what", "Yeah, <break>so <break>what", "Yeah, so what"):
        assert not is_tagged_text(tagged, "Yeah, so what", 1)


def test_words_are_looked_up_without_case_marks_and_stretching():
    assert [fold_word(word) for word in ('"Okaaay,', "Uh-huh!", "what\u2019s", "Hmmmm...", "对")] == [
        "okay",
        "uhhuh",
        "what's",
        "hm",
        "对",
    ]
