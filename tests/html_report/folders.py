"""Folders to report on, and a reader of pages that knows nothing about how they are made."""

from __future__ import annotations

import csv
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from cli.helpers import pars

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)> & {{ 7 * 7 }} {% raw %} \u202eevil'
CLASSES = ("</style><script>1</script>", "\"><svg onload='alert(1)'>", "=1+1")
WORDS = ("card stolen blocked pin", "parcel late courier box", "password login email reset")
VOID = {"meta", "link", "img", "br"}


class Reader(HTMLParser):
    """The elements, attributes and text of a page; elements that are not closed are an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []  # tag, name, value
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):  # type: ignore[union-attr]
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.get_starttag_text() is not None and self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


def write_texts(path: Path) -> Path:
    """90 rows of three classes with hostile names, ids and texts; a fifth of the labels wrong."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "body", "<b>topic</b>"])
        for row in range(90):
            given = int(rng.integers(3)) if rng.random() < 0.3 else row % 3
            body = " ".join(rng.choice(WORDS[row % 3].split(), 4))
            writer.writerow([f"<i>{row}</i>", f"{body} {HOSTILE}", CLASSES[given]])
    return path


def write_columns(path: Path) -> Path:
    """90 rows of two classes with a hostile category and a hostile column name."""
    rng = np.random.default_rng(1)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "<img src=x onerror=alert(2)>", "y"])
        for row in range(90):
            sick = row % 2
            given = 1 - sick if rng.random() < 0.15 else sick
            writer.writerow([round(50 + 20 * sick + 3 * rng.standard_normal(), 1), HOSTILE if sick else "b", given])
    return path


def fit_texts(folder: Path, *flags: str) -> Path:
    """A fit of `write_texts`."""
    table = write_texts(folder / "texts.csv")
    columns = ("--label", "<b>topic</b>", "--text", "body", "--id", "id")
    assert pars("fit", table, *columns, "--out", folder / "texts", *flags) == 0
    return folder / "texts"
