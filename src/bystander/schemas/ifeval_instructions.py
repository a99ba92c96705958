"""The instructions of IFEval by their published ids, and the settings that each needs.

Source: Zhou et al. 2023, Instruction-Following Evaluation for Large Language Models (arXiv:2311.07911), table 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

COUNT, TEXT, TEXTS, RELATION, LETTER, LANGUAGE = "count", "text", "texts", "relation", "letter", "language"
RELATIONS = ("less than", "at least")

INSTRUCTIONS: dict[str, dict[str, str]] = {
    "keywords:existence": {"keywords": TEXTS},
    "keywords:frequency": {"keyword": TEXT, "frequency": COUNT, "relation": RELATION},
    "keywords:forbidden_words": {"forbidden_words": TEXTS},
    "keywords:letter_frequency": {"letter": LETTER, "let_frequency": COUNT, "let_relation": RELATION},
    "language:response_language": {"language": LANGUAGE},
    "length_constraints:number_sentences": {"num_sentences": COUNT, "relation": RELATION},
    "length_constraints:number_paragraphs": {"num_paragraphs": COUNT},
    "length_constraints:number_words": {"num_words": COUNT, "relation": RELATION},
    "length_constraints:nth_paragraph_first_word": {
        "num_paragraphs": COUNT,
        "nth_paragraph": COUNT,
        "first_word": TEXT,
    },
    "detectable_content:number_placeholders": {"num_placeholders": COUNT},
    "detectable_content:postscript": {"postscript_marker": TEXT},
    "detectable_format:number_bullet_lists": {"num_bullets": COUNT},
    "detectable_format:constrained_response": {},
    "detectable_format:number_highlighted_sections": {"num_highlights": COUNT},
    "detectable_format:multiple_sections": {"section_spliter": TEXT, "num_sections": COUNT},
    "detectable_format:json_format": {},
    "detectable_format:title": {},
    "combination:two_responses": {},
    "combination:repeat_prompt": {"prompt_to_repeat": TEXT},
    "startend:end_checker": {"end_phrase": TEXT},
    "startend:quotation": {},
    "change_case:capital_word_frequency": {"capital_frequency": COUNT, "capital_relation": RELATION},
    "change_case:english_capital": {},
    "change_case:english_lowercase": {},
    "punctuation:no_comma": {},
}
"""Id to settings, each with what it must be. `section_spliter` is spelled as published."""


def find_setting_fault(instruction: str, settings: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the settings of an instruction, or None.

    A setting that is missing is a fault: VoiceBench's own scorer would draw a random one in its place.
    """
    for name, kind in INSTRUCTIONS[instruction].items():
        value = settings.get(name)
        if value is None:
            return f"{instruction} has no {name}"
        if not _FITS[kind](value):
            return f"{instruction} has {name} {value!r}, which is not {_DESCRIPTIONS[kind]}"
    return None


def _is_count(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and value >= 0 and float(value).is_integer()


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


_FITS: dict[str, Callable[[Any], bool]] = {
    COUNT: _is_count,
    TEXT: _is_text,
    TEXTS: lambda value: isinstance(value, list) and bool(value) and all(map(_is_text, value)),
    RELATION: lambda value: value in RELATIONS,
    LETTER: lambda value: isinstance(value, str) and len(value.strip()) == 1,
    LANGUAGE: lambda value: isinstance(value, str) and value.isalpha() and len(value) in (2, 3),
}
_DESCRIPTIONS = {
    COUNT: "a whole number from 0",
    TEXT: "a text",
    TEXTS: "a list of texts",
    RELATION: f"one of {', '.join(RELATIONS)}",
    LETTER: "one character",
    LANGUAGE: "a language code",
}
