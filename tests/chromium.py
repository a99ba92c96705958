"""A real Chromium for tests: that of the system, since none is downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


@contextmanager
def open_chromium() -> Iterator[Browser]:
    """Start a headless browser; skips the test where there is none, or no `playwright` to drive it with."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra `dev`)")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no Chromium is installed: none of {', '.join(NAMES)} is on the path")
    with playwright.sync_playwright() as driver:
        # Containers often forbid the sandbox; the pages are our own.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
