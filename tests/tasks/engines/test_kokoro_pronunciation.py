"""How texts become Kokoro's symbols, and which symbols are whose."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from bystander.tasks.engines.kokoro_english import EnglishPronouncer
from bystander.tasks.engines.kokoro_mandarin import MandarinPronouncer
from bystander.tasks.engines.kokoro_styles import load_symbols
from bystander.tasks.engines.kokoro_syllables import convert_syllable
from bystander.tasks.engines.kokoro_words import Pronunciation
from bystander.tasks.texts.turn_words import split_turn_words


@pytest.fixture(scope="module")
def english() -> EnglishPronouncer:
    return EnglishPronouncer(british=False)


@pytest.fixture(scope="module")
def mandarin() -> MandarinPronouncer:
    return MandarinPronouncer()


def spell(spoken: Pronunciation) -> list[tuple[str, str]]:
    assert spoken.words is not None
    return [(word.word, spoken.symbols[word.start : word.end]) for word in spoken.words]


@pytest.mark.parametrize(
    ("pinyin", "symbols"),
    [
        ("zhong1", "ꭧʊ→ŋ"),
        ("guo2", "kwo↗"),
        ("ni3", "ni↓"),
        ("shi4", "ʂɨ↘"),
        ("si4", "sɨ↘"),
        ("ma5", "ma"),
        ("lü4", "ly↘"),
        ("lv4", "ly↘"),
        ("ju2", "ʨy↗"),
        ("yuan2", "ɥɛ↗n"),
        ("xiong2", "ɕjʊ↗ŋ"),
        ("wo3", "wo↓"),
        ("liu4", "ljou↘"),
        ("gui4", "kwei↘"),
        ("er2", "ɚ↗"),
        ("o2", "ɔ↗"),
        ("n2", "n↗"),
        ("bo1", "pwo→"),
    ],
)
def test_a_syllable_has_the_symbols_that_kokoro_knows(pinyin: str, symbols: str) -> None:
    assert convert_syllable(pinyin) == symbols
    assert set(symbols) <= set(load_symbols())


@pytest.mark.parametrize("pinyin", ["", "zhong", "zhong6", "xyz1", "Wi-Fi5", "5"])
def test_what_is_no_syllable_is_refused(pinyin: str) -> None:
    with pytest.raises(ValueError, match=r"tone|syllable"):
        convert_syllable(pinyin)


def test_mandarin_words_are_parted_and_every_character_has_its_syllable(mandarin: MandarinPronouncer) -> None:
    spoken = mandarin.pronounce("对，那个，我想先问一下。")
    assert spoken.symbols == "twei↘, na↘kɤ, wo↓ ɕja↓ŋ ɕjɛ→n wə↘n i→ɕja↘."
    assert spell(spoken)[:4] == [("对", "twei↘"), ("那", "na↘"), ("个", "kɤ"), ("我", "wo↓")]


def test_the_reading_of_a_character_depends_on_its_word(mandarin: MandarinPronouncer) -> None:
    assert mandarin.pronounce("银行").symbols.endswith("xa↗ŋ")
    assert mandarin.pronounce("行走").symbols.startswith("ɕi↗ŋ")


def test_numerals_and_latin_words_of_mandarin_texts_are_read(mandarin: MandarinPronouncer) -> None:
    spoken = mandarin.pronounce("我要2个Wi-Fi，3点30分。")
    assert spell(spoken) == [
        ("我", "wo↓"),
        ("要", "jau↘"),
        ("2", "lja↓ŋ"),
        ("个", "kɤ↘"),
        ("Wi-Fi", "wˈIfˌI"),
        ("3", "sa→n"),
        ("点", "tjɛ↓n"),
        ("30", "sa→nʂɨ↗"),
        ("分", "fə→n"),
    ]


def test_a_character_without_a_reading_leaves_its_word_untimed(mandarin: MandarinPronouncer) -> None:
    spoken = mandarin.pronounce("好\U00030000吧")
    assert spoken.words is None
    assert "xau↓" in spoken.symbols


def test_mandarin_symbols_are_all_kokoros(mandarin: MandarinPronouncer) -> None:
    text = "“嗯嗯”——哦，《新闻》（第3版）：是的；真的？好！哎呀、诶…"
    assert set(mandarin.pronounce(text).symbols) <= set(load_symbols())


def test_english_symbols_are_those_of_the_rules_and_every_word_has_its_own(english: EnglishPronouncer) -> None:
    source = resources.files("bystander.schemas") / "data" / "starter_queries.jsonl"
    texts = [json.loads(line)["text"] for line in source.read_text("utf-8").splitlines()[:60]]
    for text in texts:
        spoken = english.pronounce(text)
        assert spoken.symbols == english.transcribe(text)
        assert [word for word, _ in spell(spoken)] == split_turn_words(text)
        assert all(symbols.strip() for _, symbols in spell(spoken))


def test_a_number_that_is_read_as_several_words_has_the_symbols_of_all(english: EnglishPronouncer) -> None:
    assert spell(english.pronounce("Okay -- meet me at 7:30, please!")) == [
        ("Okay", "ˌOkˈA"),
        ("meet", "mˈit"),
        ("me", "mˌi"),
        ("at", "æt"),
        ("7:30,", "sˈɛvən θˈɜɹTi"),
        ("please!", "plˈiz"),
    ]


def test_words_that_are_pronounced_in_one_piece_are_not_told_apart(english: EnglishPronouncer) -> None:
    assert english.pronounce("See https://a.org--yes...and so on.").words is None
