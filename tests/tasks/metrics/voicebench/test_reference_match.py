from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.metrics.voicebench.reference_match import holds_reference


@pytest.mark.parametrize(
    ("answer", "reference", "held"),
    [
        ("It was written by Maren Holt.", "Maren Holt", True),
        ("maren holt", "The Maren Holt", True),
        ("Holt, Maren", "Maren Holt", False),
        ("It was a party", "art", False),
        ("The café Müller", "cafe muller", True),
        ("About 1,234.5 metres", "1234.5", True),
        ("In the U.S. only", "us", True),
        ("Rock 'n' roll", "rock n roll", True),
        ("", "seven", False),
        ("anything", "the", False),
        ("seven " * 10_000, "eight", False),
        ("word " * 10_000 + "seven", "seven", True),
    ],
)
def test_the_words_of_the_reference_must_stand_together(answer: str, reference: str, held: bool) -> None:
    assert holds_reference(answer, reference) is held


@given(st.text("abc xyz.,'", max_size=40), st.text("abc xyz.,'", max_size=40))
def test_a_held_reference_stays_held_in_a_longer_answer(answer: str, more: str) -> None:
    assert not holds_reference(answer, "abc") or holds_reference(f"{more} {answer} {more}", "abc")
