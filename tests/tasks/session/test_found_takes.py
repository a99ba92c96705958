"""Stretches of a long recording are given to takes by what is heard in them: bursts of noise with scripted texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.schemas.engines import EngineIdentity, RecognitionReply, RecognitionRequest
from bystander.schemas.recording_session import ImportSettings, SessionSheet
from bystander.tasks.session.found_takes import FoundTake, split_recording
from bystander.tasks.session.match_script import ScriptMatcher
from session_samples import LINES, make_sheet

RATE = 8000
BURST_S, PAUSE_S = 1.0, 2.0
SHEET = make_sheet()
CODES = {f"{take.row['primary_text']} {take.row['third_party_text']}": take.code for take in SHEET.takes}
TEXTS = [f"{primary} {third}" for primary, third in LINES]
BY_CODE = {take.code: take for take in SHEET.takes}


class Hears:
    """Hears one text after the other, one a stretch."""

    identity = EngineIdentity("recogniser", "scripted", "scripted", "1")

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def recognise(self, requests: Sequence[RecognitionRequest], on_reply: Any = None) -> list[Any]:
        assert len(requests) == len(self._texts)
        return [RecognitionReply(text) for text in self._texts]

    def close(self) -> None: ...


def split(texts: Sequence[str], sheet: SessionSheet = SHEET, tail_s: float = 0.3) -> list[FoundTake]:
    """Return what is found in bursts of a second, after two seconds of quiet each."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in texts:
        parts += [np.zeros(round(PAUSE_S * RATE)), 0.1 * rng.standard_normal(round(BURST_S * RATE))]
    mono = np.concatenate([*parts, np.zeros(round(tail_s * RATE))])
    mono += 1e-4 * rng.standard_normal(len(mono))
    samples = mono.astype(np.float32)[:, None]
    found = split_recording(samples, RATE, "x.wav", "ab", ScriptMatcher(sheet), ImportSettings(), Hears(texts))
    return list(found)


def name_codes(found: Sequence[FoundTake]) -> list[str | None]:
    return [one.take.code if one.take is not None else None for one in found]


@given(
    order=st.lists(st.integers(0, 3), min_size=1, max_size=6), slated=st.lists(st.booleans(), min_size=6, max_size=6)
)
@settings(max_examples=25)
def test_every_try_is_found_in_order_with_and_without_slates(order: list[int], slated: list[bool]) -> None:
    texts = []
    for at, says in zip(order, slated, strict=False):
        slate = BY_CODE[CODES[TEXTS[at]]].slate
        texts += [*([f"{slate}."] if says else []), TEXTS[at].lower()]
    found = split(texts)
    assert name_codes(found) == [CODES[TEXTS[at]] for at in order]
    assert [one.start_s for one in found] == sorted(one.start_s for one in found)


def test_where_a_stretch_lies_in_the_file() -> None:
    first, second = split([TEXTS[0], TEXTS[1]])
    assert first.start_s == pytest.approx(PAUSE_S - 0.5, abs=0.03)
    assert second.start_s == pytest.approx(2 * PAUSE_S + BURST_S - 0.5, abs=0.03)
    assert len(first.samples) / RATE == pytest.approx(BURST_S + 1.0, abs=0.05)


def test_lines_with_a_long_pause_between_them_are_one_take() -> None:
    (found,) = split(LINES[0])
    assert name_codes([found]) == [CODES[TEXTS[0]]]
    assert found.heard == TEXTS[0]
    assert len(found.samples) / RATE == pytest.approx(2 * BURST_S + PAUSE_S + 0.8, abs=0.25)


def test_a_slate_within_keeps_takes_apart() -> None:
    found = split([LINES[0][0], f"{BY_CODE[CODES[TEXTS[0]]].slate}. {TEXTS[0]}"])
    assert name_codes(found) == [CODES[TEXTS[0]]] * 2  # a try that was broken off, and the next one


def test_talk_is_no_take_unless_a_slate_says_so() -> None:
    talk = "Shall we have lunch after this one?"
    slate = BY_CODE[CODES[TEXTS[2]]].slate
    assert name_codes(split([talk, TEXTS[1]])) == [None, CODES[TEXTS[1]]]
    assert name_codes(split([f"{slate}.", talk])) == [CODES[TEXTS[2]]]
    assert name_codes(split([f"{slate}.", TEXTS[1]])) == [CODES[TEXTS[1]]]  # the words count more than the number
    assert name_codes(split(["Take care of her.", TEXTS[1]])) == [CODES[TEXTS[1]]]  # a misheard slate
    assert name_codes(split(["Take ninety.", talk])) == [None]  # of no take of this sheet


def test_a_take_that_nobody_could_hear_is_what_follows_its_slate() -> None:
    third, second = (BY_CODE[CODES[TEXTS[at]]] for at in (3, 1))
    found = split([f"{third.slate}.", f"{second.slate}.", TEXTS[1]])
    assert name_codes(found) == [third.code, second.code]
    assert found[0].heard == ""
    assert found[0].start_s == pytest.approx(PAUSE_S + BURST_S + 0.5, abs=0.03)
    (last,) = split([f"{third.slate}."], tail_s=3.0)
    assert (last.take, last.heard) == (third, "")
    assert split([f"{third.slate}."]) == []  # nothing follows
