"""The served listening page in a real browser: filters, keys, a reject heard, and all of it after a reload."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from bystander.server.access import Access, make_access
from bystander.server.listening_routes import make_listening_routes
from bystander.server.local_server import running
from chromium import open_chromium
from listening_builds import build_with_rejects, open_index

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SOUNDING = (
    "[...document.querySelectorAll('audio')].filter((one) => !one.paused).map((one) => one.closest('article').id)"
)
IS_READY = "document.readyState === 'complete'"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with pytest.MonkeyPatch.context() as patch:
        built = build_with_rejects(tmp_path_factory.mktemp("listen") / "store", patch)
    with running(make_listening_routes(open_index(built.folder)), make_access()) as access:
        yield access


def wait_until(page: Page, expression: str, value: object) -> None:
    """Wait until an expression has a value; the page's policy forbids `eval`, which `wait_for_function` needs."""
    for _ in range(500):
        if page.evaluate(expression) == value:
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"{expression} is {page.evaluate(expression)!r}, not {value!r}")


def list_shown(page: Page) -> list[str]:
    found: list[str] = page.evaluate("[...document.querySelectorAll('article')].map((one) => one.id)")
    return found


def test_rejects_are_filtered_heard_by_keys_and_found_again_after_a_reload(browser: Browser, served: Access) -> None:
    page = browser.new_page(base_url=served.url, viewport={"width": 1000, "height": 800})
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.goto("/")
    everything = list_shown(page)
    assert len(everything) == 20
    with page.expect_navigation():
        page.get_by_label("Refused by").select_option("synthesise_speech")
    refused = list_shown(page)
    assert refused
    assert all(key.startswith("~synthesise_speech.") for key in refused)
    page.keyboard.press("j")
    page.keyboard.press("Space")
    wait_until(page, SOUNDING, refused[:1])
    page.keyboard.press("Space")
    wait_until(page, SOUNDING, [])
    page.get_by_label("play on J and K").check()
    page.locator("h1").click()
    page.keyboard.press("j")
    wait_until(page, SOUNDING, refused[1:2])
    page.reload()
    assert list_shown(page) == refused
    assert page.get_by_label("Refused by").input_value() == "synthesise_speech"
    page.keyboard.press("/")
    page.keyboard.type("nobody ever said this")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert list_shown(page) == []
    assert page.get_by_text("Nothing is left by these filters.").is_visible()
    with page.expect_navigation():
        page.get_by_role("link", name="all").click()
    assert list_shown(page) == everything
    with page.expect_navigation():
        page.get_by_role("link", name="Next").click()
    assert not set(list_shown(page)) & set(everything)
    assert faults == []
    page.close()


def test_it_can_be_used_on_a_phone(browser: Browser, served: Access) -> None:
    page = browser.new_page(base_url=served.url, viewport={"width": 390, "height": 800})
    page.goto("/?state=rejected")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    names = page.evaluate("[...document.querySelectorAll('audio')].map((one) => one.getAttribute('aria-label'))")
    assert names
    assert all(names)
    page.close()
