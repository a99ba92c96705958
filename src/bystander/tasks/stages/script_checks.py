"""What the texts of a scripted conversation must be like. English and Mandarin; pure functions of strings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from bystander.schemas.engines import RowFault
from bystander.schemas.sid_params import WriteConversations
from bystander.tasks.stages.text_rules import repeats_itself, speaks_as_assistant
from bystander.tasks.texts.backchannels import find_new_intent, is_backchannel
from bystander.tasks.texts.spoken_text import clean_spoken_text, is_speakable
from bystander.tasks.texts.turn_words import fold_word, split_turn_words

_CHINESE_TEXT = re.compile(r"[\u4e00-\u9fff，。？！]*[\u4e00-\u9fff][\u4e00-\u9fff，。？！]*")
_TO_CHINESE_MARKS = str.maketrans(
    {",": "，", ".": "。", "?": "？", "!": "！", "、": "，", "；": "，", "：": "，", ";": "，", ":": "，"}
)
_END_MARKS = ".?!。？！"
WORDS_A_CHARACTER = 0.6
"""Words that a Chinese character counts for in bounds of length."""


def clean_script_text(text: str, language: str) -> str:
    """Return a text with single spaces and straight apostrophes; in Mandarin with no spaces, and its own marks."""
    if language == "zh":
        return re.sub(r"\s+", "", text).translate(_TO_CHINESE_MARKS)
    return clean_spoken_text(text, keep_apostrophes=True)


def end_text(text: str, language: str, mark: str) -> str:
    """Return `text` with `mark` ("," or ".", in the language's own form) where it has no mark at its end."""
    bare = text.rstrip(" ,.，。")
    if bare and bare[-1] in _END_MARKS:
        return bare
    return bare + (mark.translate(_TO_CHINESE_MARKS) if language == "zh" else mark)


def check_assistant_text(text: str, language: str, params: WriteConversations) -> RowFault | None:
    """Return why this is nothing that an assistant may say, or None."""
    return _check_speech(text, "assistant_text", language) or _check_length(
        text, "assistant_text", language, params.assistant_words
    )


def check_backchannel(text: str, language: str) -> RowFault | None:
    """Return why this is no backchannel, or None."""
    fault = _check_speech(text, "backchannel", language, may_repeat=True)
    if fault is None and not is_backchannel(text, language):
        return RowFault("not_a_backchannel", f"{text!r} is more than the lexicon's acknowledgements")
    return fault


def check_substance(text: str, language: str, params: WriteConversations) -> RowFault | None:
    """Return why this carries no new intent from its first word on, or None."""
    fault = _check_speech(text, "substance", language) or _check_length(
        text, "substance", language, params.substance_words
    )
    if fault is not None:
        return fault
    if find_new_intent(text, language) != 0:
        return RowFault("substance_begins_with_backchannel", f"substance: {text!r}")
    if language == "en" and speaks_as_assistant(text):
        return RowFault("speaks_as_assistant", f"substance: {text!r}")
    return None


def copies_example(text: str, examples: Sequence[str], limit: float) -> bool:
    """Whether more than the share `limit` of the words of `text` come from one of `examples`."""
    words = Counter(fold_word(word) for word in split_turn_words(text))
    total = sum(words.values())
    pools = (Counter(fold_word(word) for word in split_turn_words(example)) for example in examples)
    return any(sum((words & pool).values()) > limit * total for pool in pools)


def find_missing(value: Mapping[str, object], keys: Sequence[str]) -> list[str]:
    """Return which of `keys` have no text."""
    return [key for key in keys if not isinstance(value.get(key), str) or not str(value[key]).strip()]


def _check_speech(text: str, name: str, language: str, may_repeat: bool = False) -> RowFault | None:
    if language == "zh":
        speakable = bool(_CHINESE_TEXT.fullmatch(text))
    else:
        # A digit is spoken in several ways: aligners would not know which.
        speakable = is_speakable(text) and not any(sign.isdigit() for sign in text)
    if not speakable:
        return RowFault("unspeakable_text", f"{name}: {text!r}")
    if not may_repeat and (repeats_itself(text) if language == "en" else _repeats_characters(text)):
        return RowFault("repeats_itself", f"{name}: {text!r}")
    return None


def _repeats_characters(text: str) -> bool:
    """Whether six characters in a row come twice, or one four times in a row: a small model that loops."""
    six = [text[i : i + 6] for i in range(len(text) - 5)]
    return len(set(six)) < len(six) or bool(re.search(r"(.)\1{3}", text))


def _check_length(text: str, name: str, language: str, bounds: tuple[int, int]) -> RowFault | None:
    count = len(split_turn_words(text)) * (WORDS_A_CHARACTER if language == "zh" else 1)
    lowest, highest = bounds
    if count < lowest:
        return RowFault(f"{name}_too_short", f"{text!r} has {count:g} words of at least {lowest}")
    if count > highest:
        return RowFault(f"{name}_too_long", f"{text!r} has {count:g} words of at most {highest}")
    return None
