"""From a table with wrong labels to a better model, by keys only, in a real browser: images, texts and table rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pars.cli import main
from pars.data import read_columns
from reviewing.browser import chromium, require_browser, settle, wait_for_text, watched_page

require_browser()

TEST, SUSPECTS = 150, 40
SHOTS = os.environ.get("PARS_SCREENSHOTS")  # a folder: screenshots for docs/ are written there
CLASSES = ("card", "loan", "transfer")


@dataclass
class Case:
    """Rows with known truth, and the flags of `pars fit` for them."""

    kind: str
    table: Path
    test: Path
    flags: list[str]
    true: list[str]
    given: list[str]


def wrong_labels(true: np.ndarray, rng: np.random.Generator, wrong: tuple[int, int, int]) -> np.ndarray:
    """So many of each class wrong, most of them in one direction: that is what costs accuracy."""
    given = true.copy()
    for label, n in enumerate(wrong):
        rows = rng.permutation(np.flatnonzero(true == label))[:n]
        given[rows] = (label + 1) % 3
    return given


def texts(folder: Path, rng: np.random.Generator) -> Case:
    words = {
        0: "card pin chip contactless plastic wallet declined atm",
        1: "loan interest mortgage credit rate repay debt borrow",
        2: "transfer iban recipient payment bank wire send abroad",
    }
    common = ["please", "help", "my", "account", "today", "the", "with", "and", "for", "since", "hello", "thanks"]

    def rows(n: int) -> tuple[np.ndarray, list[str]]:
        true = np.arange(n) % 3
        return true, [
            " ".join(rng.permutation([*rng.choice(words[int(y)].split(), 2), *rng.choice(common, 6)])) for y in true
        ]

    return _tables("text", folder, rng, rows, (32, 16, 12), ["--text", "message"], lambda text: {"message": text})


def numbers(folder: Path, rng: np.random.Generator) -> Case:
    centers = np.array([[0.0, 0.0], [2.6, 0.4], [1.2, 2.6]])

    def rows(n: int) -> tuple[np.ndarray, list[np.ndarray]]:
        true = np.arange(n) % 3
        return true, list((centers[true] + rng.standard_normal((n, 2)) * 0.8).round(3))

    return _tables("table", folder, rng, rows, (30, 6, 4), [], lambda point: {"amount": point[0], "age": point[1]})


def images(folder: Path, rng: np.random.Generator) -> Case:
    from sklearn.datasets import load_digits

    digits, labels = load_digits(return_X_y=True)
    chosen = [rng.permutation(np.flatnonzero(labels == digit)) for digit in (3, 8, 9)]
    (folder / "images").mkdir()
    used = [0, 0, 0]

    def rows(n: int) -> tuple[np.ndarray, list[str]]:
        true, names = np.arange(n) % 3, []
        for y in true.tolist():
            at = int(chosen[y][used[y]])
            used[y] += 1
            name = f"images/{at}.png"
            Image.fromarray((digits[at].reshape(8, 8) * 15.9).astype(np.uint8)).save(folder / name)
            names.append(name)
        return true, names

    return _tables("image", folder, rng, rows, (30, 6, 4), ["--image", "file"], lambda name: {"file": name})


def _tables(
    kind: str,
    folder: Path,
    rng: np.random.Generator,
    rows: Callable[[int], Any],
    wrong: tuple[int, int, int],
    flags: list[str],
    named: Callable[[Any], dict[str, object]],
) -> Case:
    true, values = rows(4 * sum(wrong))  # a quarter is wrong
    given = wrong_labels(true, rng, wrong)
    test_true, test_values = rows(TEST)
    for name, labels, content in (("rows.csv", given, values), ("test.csv", test_true, test_values)):
        lines = [{**named(value), "topic": CLASSES[y]} for value, y in zip(content, labels.tolist(), strict=True)]
        text = ";".join(lines[0]) + "\r\n" + "".join(";".join(map(str, line.values())) + "\r\n" for line in lines)
        (folder / name).write_bytes(text.encode())
    return Case(kind, folder / "rows.csv", folder / "test.csv", ["--label", "topic", *flags],
                [CLASSES[y] for y in true], [CLASSES[y] for y in given])  # fmt: skip


def fit(case: Case, out: Path, *more: str) -> dict[str, Any]:
    code = main(["fit", str(case.table), *case.flags, "--test", str(case.test), "--out", str(out), *more])
    assert code == 0
    found: dict[str, Any] = json.loads((out / "fit.json").read_text())
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def start(run: Path, *flags: str) -> tuple[subprocess.Popen[str], str]:
    """`pars review` as people start it, and the address it prints."""
    command = [sys.executable, "-m", "pars", "review", str(run), "--no-open", "--top", str(SUSPECTS), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def press(page: Any, key: str) -> None:
    page.keyboard.press(key)


def review_by_keys(page: Any, case: Case) -> dict[int, str]:
    """Give every suspect its true label, one key each; returns the labels by row."""
    decided = {}
    for number in range(SUSPECTS):
        where = wait_for_text(page, "#item .why", f"{number + 1} of ")
        row = int(where.partition("row ")[2].split()[0])
        given, suggested = (page.locator(f"#{name}").text_content() for name in ("given", "suggested"))
        truth = decided[row] = case.true[row]
        if number == SUSPECTS // 2 and SHOTS:
            page.screenshot(path=Path(SHOTS) / f"review-{case.kind}.png")
        if f": {truth} " in given:
            press(page, "k")
        elif f": {truth} " in suggested:
            press(page, "a")
        else:
            names = [text.split()[1] for text in page.locator(".choices button").all_text_contents()]
            press(page, str(names.index(truth) + 1))
    settle(page)
    return decided


@pytest.mark.parametrize("make", [texts, numbers, images])
def test_reviewing_forty_suspects_by_keys_gives_a_better_model(
    make: Callable[[Path, np.random.Generator], Case], tmp_path: Path, browser: Any
) -> None:
    case = make(tmp_path, np.random.default_rng(0))
    before = fit(case, tmp_path / "first")
    table = case.table.read_bytes()
    process, url = start(tmp_path / "first")
    try:
        with watched_page(browser, url) as watched:
            page = watched.page
            assert "?t=" not in page.url
            if page.locator("#grid").count():
                press(page, "v")
            decided = review_by_keys(page, case)
            assert len(decided) == SUSPECTS
            if SHOTS and case.kind == "image":
                press(page, "v")
                page.wait_for_selector("#grid img")
                page.wait_for_timeout(500)
                page.screenshot(path=Path(SHOTS) / "review-grid.png")
            press(page, "i")
            page.wait_for_selector("#sheet")
            if SHOTS and case.kind == "text":
                page.screenshot(path=Path(SHOTS) / "review-sheet.png")
            for _ in range(60):  # to the button, by Tab
                press(page, "Tab")
                if page.evaluate("document.activeElement.id") == "export":
                    break
            press(page, "Enter")
            page.wait_for_selector("#files li:nth-child(4)")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert case.table.read_bytes() == table
    changed = {row: name for row, name in decided.items() if name != case.given[row]}
    expected = table.decode().split("\r\n")
    for row, name in changed.items():
        expected[row + 1] = expected[row + 1].rpartition(";")[0] + f";{name}"
    corrected = tmp_path / "first" / "review" / "corrected.csv"
    assert corrected.read_bytes() == "\r\n".join(expected).encode()
    assert len(changed) >= (20 if case.kind == "text" else 10)
    after = fit(case, tmp_path / "second", "--labels", str(tmp_path / "first" / "review" / "labels.csv"))
    assert after["clean"]["rows"] == before["clean"]["rows"] == TEST
    print(case.kind, len(changed), "changed;", before["clean"]["robust"], "->", after["clean"]["robust"])
    assert after["clean"]["robust"] > before["clean"]["robust"]
    told = after["retraining"]
    assert (told["before"], told["after"]) == (before["clean"]["robust"], after["clean"]["robust"])
    assert (told["judged_by"], told["corrected"], told["confirmed"]) == ("test", len(changed), SUSPECTS - len(changed))
    wrong = [
        sum(label != truth for label, truth in zip(read_columns(path)["topic"], case.true, strict=True))
        for path in (case.table, corrected)
    ]
    assert wrong == [len(case.true) // 4, len(case.true) // 4 - len(changed)]
