"""The review page in a real browser: clicks, keys, drags and reloads, and what is on the disk afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bystander.schemas.review import RowReview
from bystander.server.access import Access, make_access
from bystander.server.local_server import running
from bystander.server.review_routes import make_review_routes
from bystander.server.review_session import ReviewSession
from bystander.storage.review_files import read_reviews, write_decisions
from bystander.tasks.exchange_reviews import decide_rows
from bystander.tasks.review.resolution import Resolution
from chromium import open_chromium
from review_builds import open_session, write_sid, write_tpi

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SAVED = "document.getElementById('saving').textContent === 'All saved'"
XSS = '<img src=x onerror="document.title=1"><script>document.title=2</script>'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_chromium() as opened:
        yield opened


@pytest.fixture
def session(tmp_path: Path) -> Iterator[ReviewSession]:
    opened = open_session(write_tpi(tmp_path, third_party_text=XSS))
    yield opened
    opened.close()


@pytest.fixture
def served(session: ReviewSession) -> Iterator[Access]:
    with running(make_review_routes(session), make_access()) as access:
        yield access


def wait_until(page: Page, condition: str) -> None:
    """Wait until an expression is true; `wait_for_function` would need `eval`, which the page's policy forbids."""
    for _ in range(500):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    raise AssertionError(condition)


class Reviewer:
    """One person at one browser."""

    def __init__(self, browser: Browser, access: Access, name: str) -> None:
        self.context = browser.new_context(viewport={"width": 1200, "height": 900})
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda said: self.faults.append(said.text) if said.type == "error" else None)
        self.page.goto(access.url)
        self.page.fill("#name", name)
        self.page.click("button.main")
        self.wait()

    def wait(self, row_id: str | None = None) -> None:
        """Wait until a row is shown, and all is saved."""
        self.page.wait_for_selector(f'html[data-row="{row_id}"]' if row_id else "html[data-row]")
        wait_until(self.page, SAVED)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    @property
    def row(self) -> str:
        return str(self.page.get_attribute("html", "data-row"))

    def drag(self, selector: str, to: float) -> None:
        """Drag a boundary to a place in the waveform, 0 its left and 1 its right end."""
        handle, picture = self.page.locator(selector).bounding_box(), self.page.locator("#picture").bounding_box()
        assert handle is not None
        assert picture is not None
        self.page.mouse.move(handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2)
        self.page.mouse.down()
        self.page.mouse.move(picture["x"] + picture["width"] * (to + 0.05), handle["y"], steps=4)
        self.page.mouse.move(picture["x"] + picture["width"] * to, handle["y"], steps=4)
        self.page.mouse.up()


def read(session: ReviewSession, name: str = "ada") -> dict[str, RowReview]:
    return read_reviews(session.folder, session.build.digest)[name]


def test_a_review_from_the_first_key_to_the_decisions(
    browser: Browser, served: Access, session: ReviewSession, tmp_path: Path
) -> None:
    ids = session.row_ids
    ada = Reviewer(browser, served, "Ada")
    assert ada.row == ids[0]
    assert ada.page.input_value("#third_party_text") == XSS
    assert ada.page.title() == "Review of tpi-bench/demo"

    ada.press("a")  # and on it goes
    ada.wait(ids[1])
    ada.press("r")
    assert ada.row == ids[1]
    ada.press("8")
    ada.wait(ids[2])
    ada.page.click("#reject")
    ada.page.click("#reasons button:has-text('Wrong label')")
    ada.wait(ids[3])
    ada.press("5")  # a digit alone is no verdict
    ada.press("k", "k")
    ada.wait(ids[1])
    ada.press("Control+a", "j")
    ada.wait(ids[2])
    ada.press("z", "z")  # the reason, then the rejection
    ada.wait()
    assert ada.page.get_attribute("#reject", "aria-pressed") == "false"

    found = {row: review.model_dump(exclude_none=True) for row, review in read(session).items()}
    assert found == {
        ids[0]: {"verdict": "accept"},
        ids[1]: {"verdict": "reject", "reason": "wrong_speakers"},
        ids[2]: {},
    }
    assert ada.page.text_content("#progress-words") == "2 of 6"

    ben = Reviewer(browser, served, "ben")
    assert ben.row == ids[0]
    assert ben.page.text_content("#progress-words") == "0 of 6"
    ben.press("a")
    ben.wait(ids[1])
    ben.press("a")
    ben.wait(ids[2])
    ada.page.select_option("#filter-verdict", "others")
    ada.wait(ids[1])
    assert "ben" in str(ada.page.text_content("#others"))
    assert "accept" in str(ada.page.text_content("#others"))
    assert ada.page.text_content("#list-count") == "(1 of 6)"
    ada.page.click("a[href='/agreement']")
    assert ids[1] in str(ada.page.text_content("main"))

    decisions = decide_rows(session.build, session.folder, Resolution(adjudicator="ada"))
    write_decisions(str(tmp_path / "d.jsonl"), decisions)
    assert [(one.row_id, one.verdict, one.reason) for one in decisions] == sorted(
        [(ids[0], "accept", None), (ids[1], "reject", "wrong_speakers")]
    )
    assert (ada.faults, ben.faults) == ([], [])


def test_boundaries_by_mouse_and_keys_and_texts_survive_a_reload(
    browser: Browser, served: Access, session: ReviewSession
) -> None:
    ada = Reviewer(browser, served, "ada")
    row_id = ada.row
    row = session.build.read_row(row_id)
    primary, third = row["segments"]
    ada.drag("button.handle.third.start_s", 0.4)
    ada.wait()
    moved = read(session)[row_id].segments
    assert moved is not None
    assert moved[1].start_s == pytest.approx(0.4 * row["duration_s"], abs=0.01)
    assert (moved[1].end_s, moved[0].start_s, moved[0].end_s) == (third["end_s"], 0.0, primary["end_s"])

    ada.press(".", ".", ",", ">")  # the dragged one: 10 ms and 100 ms to the right
    ada.wait()
    nudged = read(session)[row_id].segments
    assert nudged is not None
    assert nudged[1].start_s == pytest.approx(moved[1].start_s + 0.11, abs=0.0011)
    ada.press("Escape", "[", ".")  # the one before it: the end of the primary speaker
    ada.page.focus("button.handle.primary.start_s")
    ada.press("ArrowRight")
    ada.wait()
    both = read(session)[row_id].segments
    assert both is not None
    assert both[0].end_s == pytest.approx(primary["end_s"] + 0.01)
    assert both[0].start_s == 0.01

    ada.page.click("#primary_text")
    ada.press("End")
    ada.page.keyboard.type(" Thanks a lot")  # no letter of it is a command
    ada.page.fill("#note", "quiet")
    ada.wait()
    said = read(session)[row_id]
    assert said.primary_text == f"{row['primary_text']} Thanks a lot"
    assert (said.note, said.verdict) == ("quiet", None)

    ada.press("Escape", "j")
    ada.wait(session.row_ids[1])
    ada.press("k")
    ada.wait(row_id)
    ada.page.reload()
    ada.wait(row_id)
    assert ada.page.input_value("#primary_text") == said.primary_text
    assert ada.page.input_value("#note") == "quiet"
    handle = ada.page.locator("button.handle.third.start_s")
    assert float(str(handle.get_attribute("aria-valuenow"))) == nudged[1].start_s

    ada.page.fill("#primary_text", row["primary_text"])  # as it was: no edit any more
    ada.wait()
    assert read(session)[row_id].primary_text is None
    assert ada.faults == []


def test_changes_wait_in_the_browser_while_the_server_is_away(browser: Browser, tmp_path: Path) -> None:
    folder = write_tpi(tmp_path)
    first = open_session(folder)
    with running(make_review_routes(first), make_access()) as access:
        ada = Reviewer(browser, access, "ada")
        ada.press("a")
        ada.wait(first.row_ids[1])
        ada.page.uncheck("#go-on")
    first.close()
    ada.press("a", "n")
    ada.page.keyboard.type("while away")
    wait_until(ada.page, "document.getElementById('saving').textContent.includes('the server does not answer')")
    assert "while away" not in (first.folder / "ada.jsonl").read_text()
    again = open_session(folder)
    with running(make_review_routes(again), access):
        ada.page.reload()  # what was not sent is in no page any more
        ada.wait(again.row_ids[1])
        assert ada.page.input_value("#note") == "while away"
        assert ada.page.text_content("#progress-words") == "2 of 6"
        review = read(again)[again.row_ids[1]]
        assert (review.verdict, review.note) == ("accept", "while away")
        assert ada.page.evaluate("Object.keys(localStorage).filter((key) => key.includes('unsent'))") == []
    again.close()


def test_playing_looping_and_speed(browser: Browser, served: Access) -> None:
    ada = Reviewer(browser, served, "ada")
    page = ada.page
    wait_until(page, "document.getElementById('audio').readyState > 2")
    box = page.locator("#picture").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
    half = page.evaluate("audio.duration / 2")
    assert page.evaluate("audio.currentTime") == pytest.approx(half, abs=0.03)
    ada.press("-")
    assert page.evaluate("audio.playbackRate") == 0.75
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20, steps=5)
    page.mouse.up()
    wait_until(page, "!audio.paused && audio.currentTime > audio.duration * 0.2")
    page.wait_for_timeout(1200)  # longer than the region: it must have begun anew
    assert page.evaluate("audio.currentTime / audio.duration") == pytest.approx(0.25, abs=0.08)
    ada.press(" ")
    assert page.evaluate("audio.paused")
    assert ada.faults == []


def test_the_break_of_a_sid_row_by_word_by_mouse_and_none(browser: Browser, tmp_path: Path) -> None:
    session = open_session(write_sid(tmp_path))
    row_id = next(row for row in session.row_ids if row.startswith("middle-en"))
    with running(make_review_routes(session, "ada"), make_access()) as access:
        page: Any = browser.new_page()
        page.goto(f"{access.url}#{row_id}")
        page.wait_for_selector(f'html[data-row="{row_id}"]')

        def wait() -> RowReview:
            wait_until(page, SAVED)
            return read(session)[row_id]

        row = session.build.read_row(row_id)
        page.click(".break-words button:has-text('yeah')")
        said = wait()
        assert said.edits.given == {
            "text_with_break": "Right <break>yeah but how much is it",
            "break_time_s": row["words"][1]["start_s"],
        }
        page.click("button.handle.break")
        page.keyboard.press("ArrowLeft")
        assert wait().break_time_s == pytest.approx(row["words"][1]["start_s"] - 0.01)
        page.click(".break-words button.none")
        assert wait().edits.given == {
            "text_with_break": "Right yeah but how much is it",
            "break_time_s": row["duration_s"],
        }
        assert page.locator("button.handle.break").count() == 0
        for _ in range(3):
            page.keyboard.press("z")
        assert wait().edits.given == {}
        page.fill("#text_with_break", "a <break> b <break> c")  # is not sent
        assert page.evaluate("document.getElementById('text_with_break').validationMessage") == "One break at most."
        page.close()
    assert read(session)[row_id].edits.given == {}
    session.close()


@pytest.mark.parametrize("width", [360, 1400])
def test_nothing_sticks_out_at_the_side(browser: Browser, served: Access, width: int) -> None:
    ada = Reviewer(browser, served, "ada")
    ada.page.set_viewport_size({"width": width, "height": 800})
    ada.press("r")
    for path in ("", "agreement", "annotator"):
        if path:
            ada.page.goto(f"{served.url}{path}")
        assert ada.page.evaluate("document.documentElement.scrollWidth") == width, path
