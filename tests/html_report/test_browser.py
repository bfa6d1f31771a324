"""Reports in Chromium, light, dark, narrow and printed: no message on the console, no request, no script."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.helpers import pars

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.mark.parametrize("kind", ["texts", "classic", "columns", "digits"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_opens_without_messages_requests_or_wide_lines(
    kind: str, scheme: str, browser: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    out = tmp_path / "report.html"
    assert pars("report", request.getfixturevalue(kind), out) == 0
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1100, "height": 800})
    messages: list[str] = []
    asked: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", lambda dialog: messages.append(dialog.message))
    page.on("request", lambda found: asked.append(found.url))
    page.goto(out.as_uri())
    assert messages == []
    assert [url for url in asked if not url.startswith(("data:", out.as_uri()))] == []
    assert page.get_by_role("heading", name="Did it help?").is_visible()
    assert page.get_by_role("img").count() >= 2  # charts have a description
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}[scheme]
    assert page.evaluate("document.querySelectorAll('img').length") == page.evaluate(
        "[...document.images].filter(i => i.complete && i.naturalWidth > 0).length"
    )
    for width in (1100, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_a_printed_report_is_dark_on_white(browser: Any, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert pars("report", texts, out) == 0
    page = browser.new_context(color_scheme="dark").new_page()
    page.goto(out.as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf().startswith(b"%PDF")
