from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.metrics.voicebench.choice_letters import read_choice


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        # the letter alone
        ("B", "B"),
        ("b", "B"),
        ("a", "A"),
        ("B.", "B"),
        ("(b)", "B"),
        ("[C]", "C"),
        ("D)", "D"),
        ("**A**", "A"),
        ("“C”", "C"),
        ("Option B", "B"),
        ("letter d.", "D"),
        ("<|assistant|> B", "B"),
        ("$\\boxed{\\text{C}}$", "C"),
        # the letter first
        ("B. Lungs", "B"),
        ("**B.** Lungs", "B"),
        ("B: the lungs", "B"),
        ("A) gills", "A"),
        ("C, because fish have gills.", "C"),
        ("(D) since it melts", "D"),
        ("B) gills. (A) lungs are for mammals.", "B"),
        ("B, a kind of gill", "B"),
        # a statement
        ("Answer: C", "C"),
        ("answer is c", "C"),
        ("The answer is B.", "B"),
        ("The answer is a.", "A"),
        ("The answer is B (gills).", "B"),
        ("The answer is B - gills.", "B"),
        ('The answer is "b", I think.', "B"),
        ("The answer\nis B", "B"),
        ("Answer:\n\nC", "C"),
        ("The correct answer is (C).", "C"),
        ("The correct answer is: **D) Copper**", "D"),
        ("The answer is \\(\\boxed{B}\\).", "B"),
        ("The best answer to the question is 'A'.", "A"),
        ("The correct option is option A.", "A"),
        ("The answer is most likely B.", "B"),
        ("So the answer would be, option D: iron.", "D"),
        ("My final answer: d", "D"),
        ("The answer is B because A is wrong.", "B"),
        ("The answer is option B, not option C.", "B"),
        ("I would choose B.", "B"),
        ("I'd go with option C, since it fits.", "C"),
        ("I will go for D!", "D"),
        ("I think it's D.", "D"),
        ("It's B.", "B"),
        ("That would be (C).", "C"),
        ("B is the correct answer.", "B"),
        ("B is right.", "B"),
        ("Option C would be the best choice.", "C"),
        ("A: lungs, B: gills. I choose B: gills.", "B"),
        # a correction, a refutation
        ("The answer is A. No, wait, the answer is C.", "C"),
        ("The answer is not A. It is B.", "B"),
        ("A is not the correct answer; the correct answer is D.", "D"),
        # the only letter mentioned
        ("Fish breathe through gills (B).", "B"),
        ("They use gills, so option B.", "B"),
        ("Neither (A) nor (C) fits, so only (D) does.", "D"),
        ("I can't help. A.", "A"),
    ],
)
def test_letters_are_read_however_they_are_put(answer: str, letter: str) -> None:
    assert read_choice(answer) == letter


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "   \n",
        "I don't know.",
        "E",
        "The answer is E.",
        "None of the above",
        # an article, a name
        "A dog is an animal.",
        "A dog is the best answer.",
        "A good answer would be gills.",
        "The answer is a fish.",
        'It is a "natural" process.',
        "It's a (rather) long story.",
        "That is a - well, who knows.",
        "The answer is a matter of taste.",
        "Vitamin C is the best choice.",
        "I am a B student.",
        "D'accord",
        # several
        "It could be A or B.",
        "A or B",
        "(A), (B)",
        "A/C",
        "Option A, or option B.",
        "The answer is A and B.",
        "(A) lungs (B) gills (C) skin (D) legs",
        "A. lungs\nB. gills\nC. skin\nD. legs",
        # only refuted
        "Not A.",
        "It is not B.",
    ],
)
def test_what_chooses_nothing_is_not_guessed(answer: str) -> None:
    assert read_choice(answer) is None


def test_an_answer_of_ten_thousand_words_is_read() -> None:
    assert read_choice("word " * 10_000 + "so the answer is C.") == "C"
    assert read_choice("A " * 10_000) is None
    assert read_choice("option A, option B, " * 5_000) is None


@given(st.text(max_size=300))
def test_any_text_gives_a_letter_or_nothing(text: str) -> None:
    assert read_choice(text) in (None, "A", "B", "C", "D")


@given(st.sampled_from("ABCD"), st.sampled_from(["({})", "{}", "{}.", "option {}", "the answer is {}.", "{}) indeed"]))
def test_every_letter_is_read_alike(letter: str, form: str) -> None:
    assert read_choice(form.format(letter)) == letter
