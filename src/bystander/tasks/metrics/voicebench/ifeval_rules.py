"""IFEval's rule checks: one function an instruction id, from (answer, settings) to whether the answer follows it.

What each instruction asks is defined by Zhou et al. 2023 (arXiv:2311.07911), table 1; the checks here are our own. No
package fits: lm-eval and if-verifiable try to download nltk's models as soon as they are imported and bring frameworks
along, inspect-evals has the checks from a git address. Words and sentences are cut by nltk, which needs no download for
this, and the language is told by py3langid, whose model is in its wheel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from bystander.tasks.metrics.voicebench.ifeval_texts import (
    is_in_language,
    list_sentences,
    list_tokens,
    list_words,
    may_be_english,
    split_at_asterisks,
)

Settings = Mapping[str, Any]
Rule = Callable[[str, Settings], bool]

_CONSTRAINED_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_POSTSCRIPTS = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
"""How the two usual markers may be spaced, in lower case."""


def follows(instruction: str, answer: str, settings: Settings) -> bool:
    """Return whether `answer` follows an instruction. A blank answer follows none.

    Args:
        instruction: an id of `schemas.ifeval_instructions.INSTRUCTIONS`.
        answer: what the system said.
        settings: those of the instruction, complete.
    """
    return bool(answer.strip()) and RULES[instruction](answer, settings)


def _compare(count: int, relation: str, wanted: float) -> bool:
    return count < wanted if relation == "less than" else count >= wanted


def _has_keywords(answer: str, settings: Settings) -> bool:
    return all(word.lower() in answer.lower() for word in settings["keywords"])


def _has_keyword_so_often(answer: str, settings: Settings) -> bool:
    found = answer.lower().count(settings["keyword"].lower())
    return _compare(found, settings["relation"], settings["frequency"])


def _lacks_words(answer: str, settings: Settings) -> bool:
    words = "|".join(re.escape(word.strip()) for word in settings["forbidden_words"])
    return re.search(rf"(?<!\w)(?:{words})(?!\w)", answer, re.IGNORECASE) is None


def _has_letter_so_often(answer: str, settings: Settings) -> bool:
    found = answer.lower().count(settings["letter"].strip().lower())
    return _compare(found, settings["let_relation"], settings["let_frequency"])


def _is_in_language(answer: str, settings: Settings) -> bool:
    return is_in_language(answer, settings["language"])


def _has_sentences(answer: str, settings: Settings) -> bool:
    return _compare(len(list_sentences(answer)), settings["relation"], settings["num_sentences"])


def _has_paragraphs(answer: str, settings: Settings) -> bool:
    paragraphs = split_at_asterisks(answer)
    if paragraphs and not paragraphs[0]:
        paragraphs = paragraphs[1:]
    if paragraphs and not paragraphs[-1]:
        paragraphs = paragraphs[:-1]
    return all(paragraphs) and len(paragraphs) == int(settings["num_paragraphs"])


def _has_words(answer: str, settings: Settings) -> bool:
    return _compare(len(list_words(answer)), settings["relation"], settings["num_words"])


def _begins_paragraph_with(answer: str, settings: Settings) -> bool:
    paragraphs = [piece.strip() for piece in re.split(r"\n\s*\n", answer) if piece.strip()]
    number = int(settings["nth_paragraph"])
    if len(paragraphs) != int(settings["num_paragraphs"]) or not 1 <= number <= len(paragraphs):
        return False
    first = re.match(r"[^\w]*([\w-]+)", paragraphs[number - 1])
    return first is not None and first[1].lower() == settings["first_word"].strip().lower()


def _has_placeholders(answer: str, settings: Settings) -> bool:
    return len(re.findall(r"\[[^\]\n]*\]", answer)) >= int(settings["num_placeholders"])


def _has_postscript(answer: str, settings: Settings) -> bool:
    marker = settings["postscript_marker"].strip()
    pattern = _POSTSCRIPTS.get(marker, re.escape(marker.lower()))
    # The end of "P.P.S." is no "P.S.".
    return re.search(rf"(?<![\w.]){pattern}", answer.lower()) is not None


def _has_bullets(answer: str, settings: Settings) -> bool:
    return len(re.findall(r"^\s*(?:\*(?!\*)|-)\s*\S.*$", answer, re.MULTILINE)) == int(settings["num_bullets"])


def _is_constrained(answer: str, settings: Settings) -> bool:
    del settings
    return any(text in answer for text in _CONSTRAINED_ANSWERS)


def _has_highlights(answer: str, settings: Settings) -> bool:
    found = re.findall(r"\*\*[^\n*]+\*\*|\*[^\n*]+\*", answer)
    return sum(bool(text.strip("*").strip()) for text in found) >= int(settings["num_highlights"])


def _has_sections(answer: str, settings: Settings) -> bool:
    sections = re.findall(rf"{re.escape(settings['section_spliter'].strip())}\s?\d+", answer)
    return len(sections) >= int(settings["num_sections"])


def _is_json(answer: str, settings: Settings) -> bool:
    del settings
    text = re.sub(r"^```(?:json)?|```$", "", answer.strip(), flags=re.IGNORECASE).strip()
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _has_title(answer: str, settings: Settings) -> bool:
    del settings
    return any(title.strip("<> \t") for title in re.findall(r"<<[^\n]+?>>", answer))


def _is_two_responses(answer: str, settings: Settings) -> bool:
    del settings
    responses = [piece.strip() for piece in answer.split("******")]
    if responses and not responses[0]:
        responses = responses[1:]
    if responses and not responses[-1]:
        responses = responses[:-1]
    return len(responses) == 2 and all(responses) and responses[0] != responses[1]


def _repeats_prompt(answer: str, settings: Settings) -> bool:
    return answer.strip().lower().startswith(settings["prompt_to_repeat"].strip().lower())


def _ends_with(answer: str, settings: Settings) -> bool:
    return answer.strip().strip('"').strip().lower().endswith(settings["end_phrase"].strip().lower())


def _is_quoted(answer: str, settings: Settings) -> bool:
    del settings
    text = answer.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


def _has_capital_words(answer: str, settings: Settings) -> bool:
    found = sum(token.isupper() for token in list_tokens(answer))
    return _compare(found, settings["capital_relation"], settings["capital_frequency"])


def _is_english_capital(answer: str, settings: Settings) -> bool:
    del settings
    return answer.isupper() and may_be_english(answer)


def _is_english_lowercase(answer: str, settings: Settings) -> bool:
    del settings
    return answer.islower() and may_be_english(answer)


def _lacks_comma(answer: str, settings: Settings) -> bool:
    del settings
    return "," not in answer


RULES: dict[str, Rule] = {
    "keywords:existence": _has_keywords,
    "keywords:frequency": _has_keyword_so_often,
    "keywords:forbidden_words": _lacks_words,
    "keywords:letter_frequency": _has_letter_so_often,
    "language:response_language": _is_in_language,
    "length_constraints:number_sentences": _has_sentences,
    "length_constraints:number_paragraphs": _has_paragraphs,
    "length_constraints:number_words": _has_words,
    "length_constraints:nth_paragraph_first_word": _begins_paragraph_with,
    "detectable_content:number_placeholders": _has_placeholders,
    "detectable_content:postscript": _has_postscript,
    "detectable_format:number_bullet_lists": _has_bullets,
    "detectable_format:constrained_response": _is_constrained,
    "detectable_format:number_highlighted_sections": _has_highlights,
    "detectable_format:multiple_sections": _has_sections,
    "detectable_format:json_format": _is_json,
    "detectable_format:title": _has_title,
    "combination:two_responses": _is_two_responses,
    "combination:repeat_prompt": _repeats_prompt,
    "startend:end_checker": _ends_with,
    "startend:quotation": _is_quoted,
    "change_case:capital_word_frequency": _has_capital_words,
    "change_case:english_capital": _is_english_capital,
    "change_case:english_lowercase": _is_english_lowercase,
    "punctuation:no_comma": _lacks_comma,
}
"""Id to check; every id of `schemas.ifeval_instructions`."""
