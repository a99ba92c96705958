"""What phones words become, English and Mandarin."""

from __future__ import annotations

import pytest

from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.kaldi_gmm import english, mandarin
from bystander.tasks.engines.kaldi_gmm.chinese_numbers import read_digits
from bystander.tasks.engines.kaldi_gmm.pronunciations import Pronouncer, open_pronouncer


@pytest.fixture(scope="module")
def english_words() -> Pronouncer:
    return open_pronouncer("en")


@pytest.fixture(scope="module")
def mandarin_words() -> Pronouncer:
    return open_pronouncer("zh")


@pytest.mark.parametrize(
    ("word", "variant", "known"),
    [
        ("read", "ɹɛd", True),
        ("Read,", "ɹid", True),
        ("tomato", "təmɑtQ", True),
        ("HELLO", "həlO", True),
        ("25", "twɛntifIv", True),
        ("Uh-huh.", "əhʌ", True),
        ("“don’t”", "dOnt", True),
        ("water", "wɔtəɹ", True),
        ("blorptastic", "blɔɹptæstɪk", False),
    ],
)
def test_english_words_have_their_variants(english_words: Pronouncer, word: str, variant: str, known: bool) -> None:
    (found,) = english_words.pronounce([word])
    assert found is not None
    assert tuple(variant) in found.variants
    assert found.in_vocabulary is known
    assert {phone for phones in found.variants for phone in phones} <= set(english.PHONES)


@pytest.mark.parametrize("word", ["", "...", "—", "你好", "🙂"])
def test_nothing_to_pronounce_is_none(english_words: Pronouncer, word: str) -> None:
    assert english_words.pronounce([word, "yes"])[0] is None


def test_mandarin_is_read_in_context(mandarin_words: Pronouncer) -> None:
    found = mandarin_words.pronounce(["银", "行", "不", "行"])
    assert [word.variants[0] for word in found if word] == [("in",), ("h", "ang"), ("b", "u"), ("x", "ing")]
    assert all(("x", "ing") in found[i].variants for i in (1, 3))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("word", "variant", "known"),
    [
        ("四", "s iz", True),
        ("日", "r ih", True),
        ("去", "q v", True),
        ("穷", "q iong", True),
        ("嗯", "en", True),
        ("水壶", "sh uei h u", True),
        ("3", "s an", True),
        ("7:30", "q i d ian s an sh ih", True),
        ("20%", "b ai f en zh ih er sh ih", True),
        ("WiFi", "u ai f ai", False),
        ("，", None, True),
    ],
)
def test_mandarin_words_have_their_variants(
    mandarin_words: Pronouncer, word: str, variant: str | None, known: bool
) -> None:
    (found,) = mandarin_words.pronounce([word])
    if variant is None:
        assert found is None
        return
    assert found is not None
    assert tuple(variant.split()) in found.variants
    assert found.in_vocabulary is known
    assert {phone for phones in found.variants for phone in phones} <= set(mandarin.PHONES)


@pytest.mark.parametrize(
    ("digits", "reading"),
    [
        ("0", "零"),
        ("2", "两"),
        ("10", "十"),
        ("105", "一百零五"),
        ("2050", "二千零五十"),
        ("2025", "二零二五"),
        ("10500", "一万零五百"),
        ("100005000", "一亿零五千"),
        ("3.5", "三点五"),
        ("2:05", "两点零五"),
        ("1,234", "一千二百三十四"),
        ("007", "零零七"),
    ],
)
def test_digits_are_read_as_chinese_speakers_do(digits: str, reading: str) -> None:
    assert reading in read_digits(digits)


def test_other_languages_are_refused() -> None:
    with pytest.raises(EngineSetupError, match="those of en and zh"):
        open_pronouncer("fr")
