"""The page in a real Chromium: keys, focus, marks, undo, filters, hostile texts, roles and contrast."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from pars.data.columns import Columns
from pars.data.preview import RecordPreviews
from reviewing.browser import chromium, require_browser, settle, wait_for_text, watched_page
from reviewing.helpers import make_items, make_session, serving

require_browser()

STATIC = Path(__file__).parents[2] / "src" / "pars" / "reviewing" / "static"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def row_shown(page: Any) -> int:
    return int(re.search(r"row (\d+)", page.locator("#item .why").first.text_content()).group(1))  # type: ignore[union-attr]


def test_keys_decide_and_go_to_the_next_row_and_back(tmp_path: Path, browser: Any) -> None:
    items = make_items()
    with serving(make_session(tmp_path, items)) as (server, client), watched_page(browser, server.url) as watched:
        page = watched.page
        first, second, third = items.listed[:3].tolist()
        assert row_shown(page) == first
        page.keyboard.press("a")
        wait_for_text(page, "#item .why", "2 of")
        wait_for_text(page, "#live", f"row {first}: accepted")
        assert page.evaluate("document.activeElement.id") == "item"
        for key in ("Enter", "Backspace"):
            page.keyboard.press(key)
        page.keyboard.press("x")
        wait_for_text(page, "#item .why", "3 of")
        page.keyboard.press("ArrowRight")
        wait_for_text(page, "#item .why", "4 of")
        settle(page)
        state = {item["row"]: item["state"] for item in client.get("/api/items?limit=200")["rows"]}
        assert (state[first], state[second], state[third]) == ("accept", "drop", "undecided")
        page.keyboard.press("u")
        wait_for_text(page, "#item .why", "2 of")
        page.keyboard.press("Shift+U")
        wait_for_text(page, "#live", "redone")
        page.reload()
        page.wait_for_selector("#item")
        assert row_shown(page) == second  # the address keeps the place


def test_the_sheet_has_qualities_and_nothing_to_decide(tmp_path: Path, browser: Any) -> None:
    items = make_items(classes=("cat", "dog", "\u0642\u0637\u0629"))  # the last one is written from right to left
    with serving(make_session(tmp_path, items)) as (server, _), watched_page(browser, server.url) as watched:
        page = watched.page
        assert page.locator("#actions").is_visible()
        assert page.locator("#given bdi").text_content() == items.classes[items.given[items.listed[0]]]
        page.keyboard.press("i")
        page.wait_for_selector("#sheet")
        assert not page.locator("#actions").is_visible()
        lines = page.get_by_role("region", name="Really wrong, by quality").locator("tr").all_text_contents()
        quality = items.quality[items.listed]
        assert lines[1].startswith(f"{quality[0]:.3f} to {quality[3]:.3f}")
        assert lines[10].startswith(f"{quality[36]:.3f} to {quality[39]:.3f}")


def test_marks_take_all_that_match_after_one_confirmation(tmp_path: Path, browser: Any) -> None:
    with (
        serving(make_session(tmp_path, make_items(200, 100))) as (server, client),
        watched_page(browser, server.url) as watched,
    ):
        page = watched.page
        page.keyboard.press("v")
        page.wait_for_selector("[role=grid]")
        page.keyboard.press("Control+a")
        wait_for_text(page, "#marks-note", "60 marked")
        page.keyboard.press("Control+a")
        wait_for_text(page, "#marks-note", "100 marked: all that match")
        page.keyboard.press("k")
        wait_for_text(page, "#confirm-text", "Decide 100 rows at once")
        page.get_by_role("button", name="Yes, decide").click()
        wait_for_text(page, "#live", "100 rows: kept")
        assert client.get("/api/meta")["counts"]["keep"] == 100
        page.keyboard.press("Control+z")
        wait_for_text(page, "#live", "undone")
        assert client.get("/api/meta")["counts"]["undecided"] == 100


def test_the_switch_turns_the_keys_off_and_is_remembered(tmp_path: Path, browser: Any) -> None:
    with serving(make_session(tmp_path)) as (server, client), watched_page(browser, server.url) as watched:
        page = watched.page
        page.get_by_role("checkbox", name="Keyboard shortcuts").uncheck()
        page.locator("#item").focus()
        page.keyboard.press("a")
        page.reload()
        page.wait_for_selector("#item")
        page.keyboard.press("a")
        page.wait_for_timeout(300)
        assert client.get("/api/meta")["seq"] == 0
        page.get_by_role("button", name="Accept suggestion").click()  # every key has a button
        wait_for_text(page, "#item .why", "2 of")
        settle(page)
        assert client.get("/api/meta")["seq"] == 1


def test_hostile_texts_are_shown_as_text(tmp_path: Path, browser: Any) -> None:
    with serving(make_session(tmp_path)) as (server, _), watched_page(browser, server.url) as watched:
        page = watched.page
        for key in ("v", "i", "v"):
            page.keyboard.press(key)
            page.wait_for_timeout(200)
        assert page.locator("img[src=x], main b").count() == 0
        assert "<b>bold</b>" in page.locator("main").text_content()


def test_a_page_of_another_port_decides_nothing(tmp_path: Path, browser: Any) -> None:
    class Evil(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<p>evil")

        def log_message(self, *args: object) -> None:
            pass

    other = HTTPServer(("127.0.0.1", 0), Evil)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        with serving(make_session(tmp_path)) as (server, client):
            page = browser.new_context().new_page()
            page.goto(server.url)  # the cookie is there
            page.wait_for_selector("#item")
            page.goto(f"http://127.0.0.1:{other.server_port}/")
            attack = """async (url) => {
              const body = JSON.stringify({id: "0123456789", base_seq: 0, rows: [1], action: "drop"});
              for (const type of ["text/plain", "application/json"])
                for (const mode of ["no-cors", "cors"])
                  await fetch(url, {method: "POST", body, mode, credentials: "include",
                                    headers: {"Content-Type": type}}).catch(() => 0);
            }"""
            page.evaluate(attack, f"http://127.0.0.1:{server.port}/api/decide")
            assert client.get("/api/meta")["seq"] == 0
            page.context.close()
    finally:
        other.shutdown()


def test_a_tab_walk_reaches_every_control_and_each_has_a_name(tmp_path: Path, browser: Any) -> None:
    with (
        serving(make_session(tmp_path)) as (server, _),
        watched_page(browser, server.url, viewport={"width": 320, "height": 640}) as watched,
    ):
        page = watched.page
        wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1]  # nothing is cut off at 320 pixels
        expected = page.locator("button:visible, summary:visible, input:visible").count()
        seen = set()
        for _ in range(expected + 15):
            page.keyboard.press("Tab")
            name = page.evaluate("document.activeElement.id || document.activeElement.textContent")
            seen.add(name)
        assert len(seen) >= expected
        for button in page.get_by_role("button").all():
            assert (button.text_content() or "").strip()


def contrast(one: str, other: str) -> float:
    def luminance(color: str) -> float:
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_texts_have_enough_contrast_in_light_and_dark() -> None:
    css = (STATIC / "app.css").read_text()
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in css.split("@media", 2)[:2])
    for colors in (light, dark):
        for text in ("text", "soft", "accent", "good", "bad", "warn"):
            for ground in ("page", "panel"):
                assert contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
        assert contrast(colors["on-accent"], colors["accent"]) >= 4.5


def test_a_blind_sample_comes_first_and_hides_the_labels(tmp_path: Path, browser: Any) -> None:
    session = make_session(tmp_path)
    session.draw_sample(3)
    sample = session.store.sample()
    assert sample is not None
    with serving(session) as (server, client), watched_page(browser, server.url) as watched:
        page = watched.page
        for number in range(len(sample)):
            wait_for_text(page, "#item .why", f"{number + 1} of {len(sample)}")
            assert not page.locator("#sample-done").is_visible()
            assert page.locator("#given, #suggested").count() == 0
            page.keyboard.press("1")
        settle(page)
        page.wait_for_selector("#sample-done", state="visible")
        page.keyboard.press("i")
        page.wait_for_selector("#sheet")
        assert "Precision of the list" in page.locator("#sheet").text_content()
        assert client.get("/api/meta")["sample"] == {"n": len(sample), "done": len(sample)}


def test_a_list_without_suspects_says_so(tmp_path: Path, browser: Any) -> None:
    session = make_session(tmp_path, make_items(suspects=0))
    with serving(session) as (server, _), watched_page(browser, server.url) as watched:
        page = watched.page
        wait_for_text(page, "#item", "No suspect labels")
        assert not page.locator("#actions").is_visible()
        for key in "akx1s":  # nothing to decide, and no error
            page.keyboard.press(key)
        page.keyboard.press("i")
        wait_for_text(page, "#share", "Nothing is checked yet")
        assert page.get_by_role("region", name="Really wrong, by quality").count() == 0


def test_a_server_that_is_gone_is_named_and_its_row_stays_undecided(tmp_path: Path, browser: Any) -> None:
    items = make_items()
    with serving(make_session(tmp_path, items)) as (server, _):
        context = browser.new_context()  # not watched: Chromium reports failed requests on its console
        try:
            page = context.new_page()
            page.goto(server.url)
            page.wait_for_selector("#item")
            server.close()
            page.keyboard.press("a")
            wait_for_text(page, "#error", "The server does not answer")
            wait_for_text(page, "#saved", "NOT SAVED")
            assert row_shown(page) == items.listed[0]
            wait_for_text(page, "#state", "○ undecided")
        finally:
            context.close()


def test_a_long_row_leaves_its_buttons_in_sight(tmp_path: Path, browser: Any) -> None:
    columns = Columns("wide.csv", {f"column {at}": ["a value"] * 100 for at in range(60)})
    session = make_session(tmp_path, previews=RecordPreviews(columns))
    with serving(session) as (server, _), watched_page(browser, server.url) as watched:
        box = watched.page.locator("#accept").bounding_box()
        assert box["y"] + box["height"] <= 720
