"""Weak and strong views of texts: words left out, neighbors exchanged."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pars import seeds

DROP = {"weak": 0.1, "strong": 0.25}
SWAP = {"weak": 0.0, "strong": 0.15}
FEW_WORDS = 2  # a text of fewer is changed letter by letter: some languages put no blanks between words

ViewKind = Literal["weak", "strong"]


def text_view(text: str, kind: ViewKind, rng: np.random.Generator) -> str:
    """The text with some words left out (at least one stays) and, in the strong view, some exchanged with the next.

    >>> text_view("how do I locate my card", "strong", np.random.default_rng(1))
    'how do locate card my'
    """
    words = text.split()
    between = " "
    if len(words) < FEW_WORDS:
        words, between = list(text.strip()), ""
    keep = rng.random(len(words)) >= DROP[kind]
    if len(words) and not keep.any():
        keep[rng.integers(len(words))] = True
    kept = [word for word, stays in zip(words, keep, strict=True) if stays]
    swap = rng.random(len(words)) < SWAP[kind]  # as many draws whatever was left out
    at = 0
    while at + 1 < len(kept):
        if swap[at]:
            kept[at], kept[at + 1] = kept[at + 1], kept[at]
            at += 1  # a word moves by one place at most
        at += 1
    return between.join(kept)


def text_views(texts: list[str], kind: ViewKind, copy: int, first_row: int, seed: int) -> list[str]:
    """View number `copy` of texts that are rows first_row, first_row + 1, …: a function of (seed, kind, copy, row)."""
    stream = f"encode/{kind}/{copy}"
    return [text_view(text, kind, seeds.generator(seed, stream, step=first_row + at)) for at, text in enumerate(texts)]
