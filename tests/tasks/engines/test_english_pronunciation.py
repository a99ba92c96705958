"""Pronunciations for what the dictionary lacks."""

import pytest

from bystander.tasks.engines.english_pronunciation import (
    CMU_PHONES,
    SPOKEN_SOUNDS,
    EnglishPronouncer,
    convert_misaki,
    list_spellings,
)
from bystander.tasks.engines.kokoro import load_symbols


@pytest.mark.parametrize(
    ("word", "spellings"),
    [
        ("Hello,", ["hello"]),
        ("(O’Brien)", ["o'brien"]),
        ("“Café!”", ["café", "cafe"]),
        ("U.S.", ["u.s.", "u.s"]),
        ("'cause", ["'cause", "cause"]),
        ("dogs'", ["dogs'", "dogs"]),
        ("well-known-", ["well-known"]),
        ("&", ["and"]),
        ("$5", ["$5"]),
        ("50%", ["50%"]),
        ("...", []),
        ("", []),
        ("-", []),
    ],
)
def test_spellings(word, spellings):
    assert list_spellings(word) == spellings


@pytest.mark.parametrize(
    ("text", "phones"),
    [
        ("7:30", ["S EH V AH N", "TH ER T IY"]),
        ("$5", ["F AY V", "D AA L ER Z"]),
        ("hello", ["HH AH L OW"]),
        ("judge", ["JH AH JH"]),
        ("你好", []),
        ("...", []),
    ],
)
def test_rules(text, phones):
    assert [" ".join(group) for group in EnglishPronouncer().pronounce(text)] == phones


def test_every_phone_is_cmu_s():
    assert {phone for sound in SPOKEN_SOUNDS.values() for phone in sound.split()} <= CMU_PHONES
    assert set(convert_misaki("".join(load_symbols()))) <= CMU_PHONES
    assert convert_misaki("bˈɜːɹd") == ("B", "ER", "R", "D")
