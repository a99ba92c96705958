"""A sheet survives its file; a table is safe in a spreadsheet; files that are no sheet are named with their fault."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.errors import InputError
from bystander.storage.filesystem import open_store
from bystander.storage.session_files import read_session, write_session
from session_samples import make_rows, make_sheet, write_sheet

# No surrogates, which UTF-8 lacks, and something to read.
LINES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(str.strip)


@given(primary=LINES, third=LINES, offset=st.floats(-3, 2))
def test_any_line_survives_file_and_table(
    tmp_path_factory: pytest.TempPathFactory, primary: str, third: str, offset: float
) -> None:
    row = make_rows(1)[0] | {"primary_text": primary, "third_party_text": third, "offset_asked_s": offset}
    sheet = make_sheet([row])
    folder = tmp_path_factory.mktemp("sheet")
    store = open_store(str(folder))
    write_session(store, sheet, "page")
    assert read_session(store) == sheet
    with (folder / "sheet.csv").open(newline="", encoding="utf-8") as source:
        (line,) = csv.DictReader(source)
    for cell, text in ((line["line_a"], primary), (line["line_b"], third)):
        assert cell in (text.replace("\r", " "), f"'{text}".replace("\r", " "))
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert primary.split()[int(line["b_begins_at_word"]) - 1] in (line["b_begins_at"], line["b_begins_at"][1:])


def spoil(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def apply(text: str) -> str:
        value = json.loads(text)
        change(value)
        return json.dumps(value)

    return apply


SPOILT: dict[str, tuple[Callable[[str], str], str]] = {
    "cut short": (lambda text: text[:200], "Invalid JSON"),
    "another format": (spoil(lambda v: v.update(format="study")), r"\(format: Input should be"),
    "a later version": (spoil(lambda v: v.update(format_version=2)), r"\(format_version: Input should be 1"),
    "no takes": (spoil(lambda v: v.update(takes=[])), r"\(takes: Tuple should have at least 1 item"),
    "a code twice": (spoil(lambda v: v["takes"].append(v["takes"][0])), r"\(session: XD001: is the code of two takes"),
    "a strange code": (spoil(lambda v: v["takes"][0].update(code="QQ001")), "QQ001: the codes of this sheet begin"),
    "no code": (spoil(lambda v: v["takes"][1].update(code="7")), r"\(takes.1.code: String should match pattern"),
    "no line": (spoil(lambda v: v["takes"][2]["row"].pop("third_party_text")), "lacks the text third_party_text"),
    "no such word": (spoil(lambda v: v["takes"][0].update(cue_word=99)), "XD001: B begins at word 99 of"),
    "an unknown field": (spoil(lambda v: v.update(notes="x")), r"\(notes: Extra inputs are not permitted"),
    "no pack": (spoil(lambda v: v["build_facts"].pop("pack")), "build_facts lacks pack"),
}  # fmt: skip


@pytest.mark.parametrize("what", SPOILT)
def test_what_is_no_sheet_is_named_in_one_sentence(what: str, tmp_path: Path) -> None:
    change, message = SPOILT[what]
    path = write_sheet(tmp_path, make_sheet()) / "session.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=message) as caught:
        read_session(open_store(str(tmp_path)))
    assert str(caught.value).startswith(f"{path}: is no session of this version (")
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_no_sheet(tmp_path: Path) -> None:
    (tmp_path / "session.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(InputError, match="is no session of this version"):
        read_session(open_store(str(tmp_path)))
