"""The listening page in a real browser: filters, keys, sound, reloads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from bystander.server.access import Access, make_access
from bystander.server.listening_routes import make_listening_routes
from bystander.server.local_server import running
from chromium import open_chromium
from listening_builds import open_index, write_heard

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
HERE = "document.querySelector('.row.here')?.id ?? ''"
SOUNDING = "[...document.querySelectorAll('audio')].filter((a) => !a.paused).map((a) => a.getAttribute('src')).join()"
HEARD = "Math.max(0, ...[...document.querySelectorAll('audio')].map((a) => a.currentTime))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    index = open_index(write_heard(tmp_path_factory.mktemp("store") / "tpi-train" / "demo"))
    with running(make_listening_routes(index), make_access()) as access:
        yield access


class Listener:
    """One person at one browser."""

    def __init__(self, browser: Browser, access: Access, path: str = "", width: int = 1200) -> None:
        self.page: Page = browser.new_page(viewport={"width": width, "height": 900})
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda said: self.faults.append(said.text) if said.type == "error" else None)
        self.page.goto(access.url + path)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def wait(self, condition: str) -> None:
        """Wait until an expression is true; `wait_for_function` would need `eval`, which the page's policy forbids."""
        for _ in range(500):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(condition)

    def choose(self, field: str, value: str) -> None:
        """Choose a filter, and wait for the page that it leads to."""
        with self.page.expect_navigation():
            self.page.select_option(f"select[name={field}]", value)

    @property
    def shown(self) -> list[str]:
        return [str(one.get_attribute("id")) for one in self.page.locator("article").all()]

    @property
    def here(self) -> str:
        return str(self.page.evaluate(HERE))


def test_rows_are_filtered_and_heard_by_keys(browser: Browser, served: Access) -> None:
    ada = Listener(browser, served)
    assert len(ada.shown) == 20
    ada.choose("label", "ignorable")
    ada.choose("scenario", "priority_alert")
    ada.choose("state", "kept")
    wanted = [f"kept-{number + 1}" for number in range(3, 30, 4)]
    assert ada.shown == wanted
    assert sorted(ada.page.url.partition("?")[2].split("&")) == [  # what is not set stands in no address
        "label=ignorable",
        "scenario=priority_alert",
        "state=kept",
    ]
    ada.page.reload()
    assert ada.shown == wanted
    assert ada.page.input_value("select[name=label]") == "ignorable"
    assert ada.page.input_value("select[name=state]") == "kept"

    ada.press("j", "j")
    assert ada.here == wanted[1]
    ada.press("k", "Space")
    assert ada.here == wanted[0]
    ada.wait(f"{SOUNDING} !== '' && {HEARD} > 0.1")
    assert str(ada.page.evaluate(SOUNDING)).endswith("/3/0")
    ada.press("Space")
    assert ada.page.evaluate(SOUNDING) == ""
    ada.page.check("#play-on-move")
    ada.press("j")
    ada.wait(f"{SOUNDING}.endsWith('/7/0')")
    ada.press("k")
    ada.wait(f"{SOUNDING}.endsWith('/3/0')")  # and the other has stopped
    ada.page.evaluate(  # so quickly that the first has not told yet that it began
        "for (const key of 'jk') document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))"
    )
    ada.page.wait_for_timeout(200)
    assert str(ada.page.evaluate(SOUNDING)).endswith("/3/0")
    assert ada.faults == []
    ada.page.close()


def test_a_reject_is_found_and_heard(browser: Browser, served: Access) -> None:
    ada = Listener(browser, served)
    ada.press("/")
    ada.page.keyboard.type("jk REFUSED")  # no letter of it is a command
    with ada.page.expect_navigation():
        ada.press("Enter")
    assert ada.shown == []
    ada.page.fill("input[name=q]", "REFUSED")
    with ada.page.expect_navigation():
        ada.press("Enter")
    assert ada.shown == ["rejected-34", "rejected-35"]
    ada.choose("reject_reason", "too_noisy")
    assert ada.shown == ["rejected-35"]
    assert ada.page.input_value("input[name=q]") == "REFUSED"
    ada.press("Space")
    ada.wait(f"{HEARD} > 0.05")
    assert str(ada.page.evaluate(SOUNDING)).endswith("/34/0")
    ada.page.evaluate("document.querySelectorAll('audio')[1].play()")
    ada.wait(f"{SOUNDING}.endsWith('/34/1')")
    assert "similarity 0.9" in str(ada.page.text_content("article"))
    with ada.page.expect_navigation():
        ada.page.click(".go a")
    assert len(ada.shown) == 20
    assert ada.faults == []
    ada.page.close()


def test_keys_lead_from_page_to_page(browser: Browser, served: Access) -> None:
    ada = Listener(browser, served)
    ada.press(*"j" * 20)
    with ada.page.expect_navigation():
        ada.press("j")
    assert ada.shown[0] == "kept-21"
    ada.press("j")
    assert ada.here == "kept-21"
    with ada.page.expect_navigation():
        ada.press("k")
    assert ada.shown[-1] == "kept-20"
    ada.page.close()


@pytest.mark.parametrize("width", [360, 1400])
def test_nothing_sticks_out_at_the_side(browser: Browser, served: Access, width: int) -> None:
    ada = Listener(browser, served, "?page=2", width)
    assert ada.page.evaluate("document.documentElement.scrollWidth") == width
    ada.page.close()
