from __future__ import annotations

from typing import Any

import pytest

from bystander.schemas.ifeval_instructions import INSTRUCTIONS, find_setting_fault
from bystander.tasks.metrics.voicebench.ifeval_rules import RULES, follows

LESS, LEAST = "less than", "at least"

CASES: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    ("keywords:existence", {"keywords": ["rain", "Sun"]}, ["Sun after RAIN", "rainy sunday"], ["only rain"]),
    (
        "keywords:frequency",
        {"keyword": "owl", "frequency": 2, "relation": LEAST},
        ["Owl and owl", "owls, owls, owls"],
        ["one owl"],
    ),
    ("keywords:frequency", {"keyword": "owl", "frequency": 2, "relation": LESS}, ["one owl", "none"], ["owl owl"]),
    (
        "keywords:forbidden_words",
        {"forbidden_words": ["cat", "C++"]},
        ["a category of dogs", "plain C"],
        ["a Cat.", "I like c++!"],
    ),
    (
        "keywords:letter_frequency",
        {"letter": "e", "let_frequency": 3, "let_relation": LEAST},
        ["Eee", "eleven pets"],
        ["two bees"],
    ),
    ("keywords:letter_frequency", {"letter": "e", "let_frequency": 1, "let_relation": LESS}, ["a b"], ["E"]),
    (
        "language:response_language",
        {"language": "de"},
        ["Das ist ein kurzer Satz über den Regen im Herbst."],
        ["This is a short sentence about the rain.", "123 456"],
    ),
    ("language:response_language", {"language": "hi"}, ["यह हिंदी में एक वाक्य है"], ["This is English text."]),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": LEAST},
        ["One is here. Two is there.", "Is it? It is!"],
        ["Dr. Holt paid 3.50 for it, e.g. in coins."],
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": LESS},
        ["Mr. Holt sleeps."],
        ["He sleeps. He snores."],
    ),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 2},
        ["one\n***\ntwo", "***\none\n***\ntwo\n***"],
        ["one\n\ntwo", "one\n***\n\n***\ntwo", "one"],
    ),
    ("length_constraints:number_words", {"num_words": 3, "relation": LEAST}, ["a b c", "it's so"], ["two words"]),
    ("length_constraints:number_words", {"num_words": 3, "relation": LESS}, ["two words"], ["one two three"]),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Then"},
        ["First this.\n\nThen that.", 'One.\n\n"then, two"'],
        ["Then this.\n\nFirst that.", "First.\n\nThen.\n\nLast.", "First.\n\nThence."],
    ),
    (
        "detectable_content:number_placeholders",
        {"num_placeholders": 2},
        ["Dear [name], from [place]", "[a] [b] [c]"],
        ["Dear [name]", "[name"],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.S."},
        ["Bye.\nP.S. Call me.", "Bye. p. s. Call."],
        ["Bye. PS Call.", "Bye.\nP.P.S. More."],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.P.S"},
        ["Bye.\nP.P.S. Call me.", "p. p. s again"],
        ["Bye.\nP.S. Call."],
    ),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 2},
        ["* one\n* two", "- one\n  - two", "Fruits:\n* pears\n- plums"],
        ["* one", "* one\n* two\n* three", "**one**\n**two**"],
    ),
    (
        "detectable_format:constrained_response",
        {},
        ["My answer is yes.", "Well. My answer is maybe. Bye."],
        ["Yes.", "My answer is certain."],
    ),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        ["*one* and *two*", "**one** and *two*"],
        ["*one*", "* *\n*one*", "**one**"],
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        ["Section 1\nrain\nSection 2\nsun", "Section1 a Section2 b Section3 c"],
        ["Section 1\nrain", "A section of sun, another section of rain"],
    ),
    (
        "detectable_format:json_format",
        {},
        ['{"a": 1}', '```json\n{"a": 1}\n```', "```\n[1, 2]\n```"],
        ["a: 1", "{'a': 1}", "[" * 100_000],
    ),
    ("detectable_format:title", {}, ["<<Rain>>\ntext", "text <<Sun>>"], ["<Rain>", "<<>>", "<< >>"]),
    (
        "combination:two_responses",
        {},
        ["one\n******\ntwo", "******\none\n******\ntwo"],
        ["one", "one\n******\none", "one\n******\ntwo\n******\nthree", "one\n***\ntwo"],
    ),
    (
        "combination:repeat_prompt",
        {"prompt_to_repeat": "Why is rain wet?"},
        ["why is rain wet? Because.", "  Why is rain wet?"],
        ["Because. Why is rain wet?"],
    ),
    (
        "startend:end_checker",
        {"end_phrase": "Any more?"},
        ["Done. any more?", '"Done. Any more?"', "Any more?\n"],
        ["Any more? No."],
    ),
    ("startend:quotation", {}, ['"quoted"', ' "a" and "b" '], ['"half', '"', "“curly”"]),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": LEAST},
        ["I AM here", "NASA and ESA"],
        ["Only NASA here", "Title Case Words"],
    ),
    ("change_case:capital_word_frequency", {"capital_frequency": 1, "capital_relation": LESS}, ["none"], ["ONE"]),
    (
        "change_case:english_capital",
        {},
        ["I AM VERY HAPPY TO HELP YOU WITH THAT TODAY.", "OK"],
        ["I am", "DAS IST EIN KURZER SATZ ÜBER DEN REGEN IM HERBST.", "123"],
    ),
    (
        "change_case:english_lowercase",
        {},
        ["i am very happy to help you with that today", "ok"],
        ["I am", "das ist ein kurzer satz über den regen im herbst"],
    ),
    ("punctuation:no_comma", {}, ["no comma here."], ["one, two"]),
]


def _name_case(case: tuple[str, dict[str, Any], list[str], list[str]]) -> str:
    return f"{case[0]}-{list(case[1].values())}"


@pytest.mark.parametrize("case", CASES, ids=_name_case)
def test_rules_tell_what_follows_from_what_does_not(case: tuple[str, dict[str, Any], list[str], list[str]]) -> None:
    instruction, settings, good, bad = case
    assert find_setting_fault(instruction, settings) is None
    for answer in good:
        assert follows(instruction, answer, settings), answer
    for answer in bad:
        assert not follows(instruction, answer, settings), answer


def test_every_published_instruction_has_a_rule_and_a_test() -> None:
    assert RULES.keys() == INSTRUCTIONS.keys()
    assert {case[0] for case in CASES} == INSTRUCTIONS.keys()
    assert len(INSTRUCTIONS) == 25


@pytest.mark.parametrize("case", CASES, ids=_name_case)
def test_a_blank_answer_follows_nothing(case: tuple[str, dict[str, Any], list[str], list[str]]) -> None:
    assert not follows(case[0], "", case[1])
    assert not follows(case[0], " \n ", case[1])


@pytest.mark.parametrize("case", CASES, ids=_name_case)
def test_rules_stand_ten_thousand_words(case: tuple[str, dict[str, Any], list[str], list[str]]) -> None:
    follows(case[0], "rain and sun\n" * 3_334, case[1])


@pytest.mark.parametrize(
    ("instruction", "settings", "fault"),
    [
        ("length_constraints:number_words", {"relation": LESS}, "has no num_words"),
        ("length_constraints:number_words", {"num_words": 2.5, "relation": LESS}, "not a whole number"),
        ("length_constraints:number_words", {"num_words": float("nan"), "relation": LESS}, "not a whole number"),
        ("length_constraints:number_words", {"num_words": True, "relation": LESS}, "not a whole number"),
        ("length_constraints:number_words", {"num_words": 2, "relation": "around"}, "not one of less than"),
        ("keywords:existence", {"keywords": []}, "not a list of texts"),
        ("keywords:existence", {"keywords": "rain"}, "not a list of texts"),
        ("keywords:letter_frequency", {"letter": "ab", "let_frequency": 1, "let_relation": LESS}, "not one character"),
        ("language:response_language", {"language": "German"}, "not a language code"),
        ("startend:end_checker", {"end_phrase": " "}, "not a text"),
    ],
)
def test_settings_that_do_not_fit_are_named(instruction: str, settings: dict[str, Any], fault: str) -> None:
    assert fault in (find_setting_fault(instruction, settings) or "")


def test_counts_may_come_as_floats() -> None:
    settings = {"num_words": 3.0, "relation": LEAST}
    assert find_setting_fault("length_constraints:number_words", settings) is None
    assert follows("length_constraints:number_words", "a b c", settings)
