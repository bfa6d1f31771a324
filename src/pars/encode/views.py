"""Views of raw texts and images, made before encoding and cached beside the features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pars import augment, seeds
from pars.augment import Params, View, ViewsConfig
from pars.encode.encoder import Images, Rows
from pars.lazy import torch

ViewKind = Literal["weak", "strong"]

DROP_RATE = {"weak": 0.1, "strong": 0.25}
SWAP_RATE = {"weak": 0.0, "strong": 0.15}


@dataclass(frozen=True, kw_only=True)
class CachedViewsConfig:
    """Views to encode and cache: `count` weak and `count` strong ones of every training row."""

    count: int = 0
    seed: int = 0
    config: ViewsConfig = field(default_factory=ViewsConfig)  # of images

    @property
    def copies(self) -> list[tuple[ViewKind, int]]:
        """Kind and number of each view, in the order of the cache: weak, then strong."""
        return [(kind, copy) for kind in ("weak", "strong") for copy in range(self.count)]


def default_cached_views(count: int, seed: int) -> CachedViewsConfig:
    """Return the views that `pars encode --views COUNT` makes: RandAugment is the strong view of images."""
    return CachedViewsConfig(count=count, seed=seed, config=ViewsConfig(strong="randaugment"))


def make_view(
    rows: Rows, kind: ViewKind, copy: int, first_row: int, *, seed: int, config: ViewsConfig | None = None
) -> Rows:
    """Return view number `copy` of rows first_row, first_row + 1, …

    A view depends on (seed, kind, copy, row), not on the batch.
    """
    if not isinstance(rows, np.ndarray):
        return text_views(list(rows), kind, copy, first_row, seed)
    channels = rows.shape[1]
    views = augment.build_views(
        config or ViewsConfig(), image=True, shape=tuple(rows.shape[1:]), mean=(0.5,) * channels, std=(0.25,) * channels
    )
    view = views.weak if kind == "weak" else views.strong
    params = _draw_by_row(view, rows, _stream(kind, copy), first_row, seed)
    return np.ascontiguousarray(view.apply(torch.from_numpy(np.ascontiguousarray(rows)), params).numpy())


def text_views(texts: list[str], kind: ViewKind, copy: int, first_row: int, seed: int) -> list[str]:
    """Return view number `copy` of texts that are rows first_row, first_row + 1, …"""
    stream = _stream(kind, copy)
    return [text_view(text, kind, seeds.generator(seed, stream, step=first_row + at)) for at, text in enumerate(texts)]


def text_view(text: str, kind: ViewKind, rng: np.random.Generator) -> str:
    """Return the text without some of its words (at least one stays); a strong view also swaps some neighbors.

    A text of one word is changed letter by letter, because some languages do not separate words by spaces.

    >>> text_view("how do I locate my card", "strong", np.random.default_rng(1))
    'how do locate card my'
    """
    words, separator = text.split(), " "
    if len(words) < 2:
        words, separator = list(text.strip()), ""
    keep = rng.random(len(words)) >= DROP_RATE[kind]
    if len(words) and not keep.any():
        keep[rng.integers(len(words))] = True
    left = [word for word, stays in zip(words, keep, strict=True) if stays]
    swap = rng.random(len(words)) < SWAP_RATE[kind]  # the number of draws does not depend on the dropped words
    at = 0
    while at + 1 < len(left):
        if swap[at]:
            left[at], left[at + 1] = left[at + 1], left[at]
            at += 1  # a word moves by one place at most
        at += 1
    return separator.join(left)


def _draw_by_row(view: View, images: Images, stream: str, first_row: int, seed: int) -> Params:
    """Draw the parameters of each image from a generator of its own."""
    shape = tuple(images.shape[1:])
    each = [view.draw(seeds.generator(seed, stream, step=first_row + at), 1, shape) for at in range(len(images))]
    return {name: torch.cat([params[name] for params in each]) for name in each[0]}


def _stream(kind: ViewKind, copy: int) -> str:
    return f"encode/{kind}/{copy}"
