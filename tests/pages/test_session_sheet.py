"""The printed sheet: every line with its cue, whatever is in it, in the order in which it is recorded."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from bystander.pages.session_sheet import render_session_sheet
from html_pages import Page
from session_samples import LINES, make_rows, make_sheet


def list_marks(html: str) -> list[str]:
    return re.findall(r"<dd>[^\n]*?<mark>(.*?)</mark>", html)


def test_takes_stand_room_by_room_in_the_order_of_their_codes() -> None:
    sheet = make_sheet(make_rows(12), rooms=("hallway", "living_room"), speakers=("ann", "ben", "cat"))
    html = render_session_sheet(sheet)
    page = Page(html)
    assert re.findall(r"<strong class=\"code\" id=\"(\w+)\">", html) == [take.code for take in sheet.takes]
    places = [page.text.index(room) for room in ("hallway 6 takes", "living room 6 takes")]
    assert places == sorted(places)
    for take in sheet.takes:
        assert f"say “{take.slate}”" in page.text
    assert list_marks(html) == [take.primary_words[take.cue_word] for take in sheet.takes]
    for primary, third in LINES:
        assert page.text.count(third) == 3
        assert page.text.count(primary) == 3


def test_roles_are_counted_for_the_list_to_sign() -> None:
    sheet = make_sheet(make_rows(12), speakers=("ann", "ben", "cat"))
    cells = re.findall(r'<th scope="row">(\w+)</th><td class="number">(\d+)</td><td class="number">(\d+)</td>',
                       render_session_sheet(sheet))  # fmt: skip
    assert cells == [(name, "4", "4") for name in ("ann", "ben", "cat")]


def test_a_request_that_breaks_off_shows_what_was_to_come_but_not_to_be_read() -> None:
    cut = {"primary_text": "Give me directions to...", "primary_complete": LINES[0][0], "timing": "within_sentence"}
    page = Page(render_session_sheet(make_sheet([make_rows(1)[0] | cut])))
    assert "Give me directions to –" in page.text
    assert "..." not in page.text
    assert f"A was going to say: {LINES[0][0]}" in page.text
    assert "while A is in mid-sentence, about 0.4 s before A stops" in page.text


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip))
def test_nothing_that_is_read_becomes_markup(line: str) -> None:
    evil = f'{line} <script src="x">&amp;</script>'
    plain = Page(render_session_sheet(make_sheet(make_rows(1))))
    row = make_rows(1)[0] | {"third_party_text": evil, "primary_text": evil}
    page = Page(render_session_sheet(make_sheet([row], speakers=("<b>ann", "ben"), rooms=("<i>hall",))))
    count = len(plain.find("script"))
    assert len(page.find("script")) == count
    assert not page.find("b")
    assert not page.find("i")
    assert '<script src="x">&amp;</script>' in page.text
