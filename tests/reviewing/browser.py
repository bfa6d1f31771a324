"""A real Chromium for the tests, where one is installed; foreign requests are blocked and counted."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def require_browser() -> None:
    """Skip the module with the reason."""
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)", allow_module_level=True)


@dataclass
class Watched:
    """A page, and everything that must not happen on it."""

    page: Any
    foreign: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def check(self) -> None:
        assert self.foreign == []
        assert self.errors == []
        assert self.dialogs == []


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to run as root with it
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def watched_page(browser: Any, url: str, **options: Any) -> Iterator[Watched]:
    """A page at an address; at its end there must have been no foreign request, no error and no dialog."""
    context = browser.new_context(**({"viewport": {"width": 1000, "height": 720}} | options))
    context.set_default_timeout(20_000)
    own = urlsplit(url).netloc
    page = context.new_page()
    watched = Watched(page)

    def route(request: Any) -> None:
        if urlsplit(request.request.url).netloc == own:
            request.continue_()
        else:
            watched.foreign.append(request.request.url)
            request.abort()

    context.route("**/*", route)
    page.on("console", lambda message: watched.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: watched.errors.append(str(error)))

    def dialog(shown: Any) -> None:
        watched.dialogs.append(shown.message)
        shown.dismiss()

    page.on("dialog", dialog)
    page.goto(url)
    page.wait_for_selector("#item, #grid, #sheet")
    try:
        yield watched
        watched.check()
    finally:
        context.close()


def wait_for_text(page: Any, selector: str, start: str) -> str:
    """Wait until an element's text begins so, and return it; `wait_for_function` needs eval, which the page forbids."""
    ends = time.monotonic() + 20
    while time.monotonic() < ends:
        found = page.evaluate("(s) => document.querySelector(s)?.textContent ?? ''", selector)
        if found.startswith(start):
            return str(found)
        page.wait_for_timeout(20)
    raise AssertionError(f"{selector} is {found!r}, expected {start!r}")


def settle(page: Any) -> None:
    """Wait until all decisions are saved."""
    wait_for_text(page, "#saved", "all saved")
