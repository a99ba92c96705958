"""A real browser for tests, where the system has one: real clicks and keys in a headless Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@contextmanager
def open_chromium() -> Iterator[Any]:
    """Yield a browser; the test is skipped where Playwright or a Chromium is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no Chromium on this machine: none of {', '.join(_NAMES)} is in PATH")
    with playwright.sync_playwright() as started:
        # As root in a container there is no sandbox; the pages are our own.
        browser = started.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
        )
        try:
            yield browser
        finally:
            browser.close()
