"""Where a page goes, found out before the work that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from bystander.cli.page_file import prepare_page
from bystander.schemas.errors import InputError


@pytest.mark.parametrize(
    ("out", "file"), [("page.html", "page.html"), ("new/PAGE.HTM", "new/PAGE.HTM"), ("pages", "pages/usual.html")]
)
def test_a_page_is_written_to_a_file_or_into_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    page = prepare_page(out, "usual.html")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []  # nothing is left of the probe
    page.write("<p>ü</p>")
    assert page.address == str(tmp_path / file)
    assert (tmp_path / file).read_text("utf-8") == "<p>ü</p>"


def test_what_cannot_be_written_is_said_before(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(InputError, match=r"^--out .*/file/page.html: cannot be written; name another file or folder$"):
        prepare_page(str(tmp_path / "file" / "page.html"), "usual.html")
