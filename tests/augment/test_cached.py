"""Views that were stored beside the features."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pars.augment import Cached, FeatureDropout, Identity, ViewsConfig, build, rows, source
from pars.errors import UserError
from pars.seeds import generator

D, N = 5, 3  # features; views of each kind


def stored(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Row r is r throughout, its view v is r + v / 10."""
    inputs = torch.arange(n, dtype=torch.float32)[:, None].expand(n, D).contiguous()
    cached = inputs[:, None] + torch.arange(1, 2 * N + 1)[:, None] / 10
    return inputs, cached


def seen(config: ViewsConfig, which: str, n: int = 400) -> torch.Tensor:
    views = build(config, image=False, shape=(D,), mean=(), std=(), cached=2 * N)
    inputs, cached = stored(n)
    view = getattr(views, which)
    params = view.draw(generator(0, "test"), n, (D,))
    return views.finish(view.apply(source(inputs, cached, torch.arange(n), params), params))


@pytest.mark.parametrize(("which", "tenths"), [("weak", {1, 2, 3}), ("strong", {4, 5, 6})])
def test_each_row_is_one_of_its_own_stored_views_of_the_right_kind(which: str, tenths: set[int]) -> None:
    out = seen(ViewsConfig(weak="cached", strong="cached", dropout_weak=0, dropout_strong=0), which)
    offset = (out - torch.arange(400)[:, None]) * 10
    assert (offset - offset[:, :1]).abs().max() < 1e-3  # a view is picked whole
    found = offset[:, 0].round().int()
    assert set(found.tolist()) == tenths
    counts = torch.bincount(found)[min(tenths) :]
    assert counts.min() > 400 / 3 - 5 * np.sqrt(400 * 2 / 9)  # each about equally often


def test_dropout_comes_on_top() -> None:
    out = seen(ViewsConfig(dropout_weak=0.5), "weak")  # auto: the data has stored views
    assert 0.45 < (out[1:] == 0).float().mean() < 0.55
    np.testing.assert_allclose((out[399] / 2)[out[399] > 0], 399.2, atol=0.11)


@pytest.mark.parametrize("cuts", [[1] * 12, [5, 7]])
def test_the_same_features_however_the_batch_is_cut(cuts: list[int]) -> None:
    inputs, cached = stored(12)
    view = Cached(0, N, FeatureDropout(dropout=0.3))
    params = view.draw(generator(1, "test"), 12, (D,))
    whole = view.apply(source(inputs, cached, torch.arange(12), params), params)
    parts, start = [], 0
    for length in cuts:
        part = rows(params, start, start + length)
        parts.append(view.apply(source(inputs, cached, torch.arange(start, start + length), part), part))
        start += length
    assert torch.equal(torch.cat(parts), whole)


def test_a_view_without_a_pick_reads_the_rows_themselves() -> None:
    inputs, cached = stored(7)
    order = torch.tensor([3, 1])
    assert torch.equal(source(inputs, cached, order, {}), inputs[order])


def test_stored_views_are_used_when_there_are_some_unless_told_otherwise() -> None:
    def made(config: ViewsConfig, cached: int) -> tuple[type, type]:
        views = build(config, image=False, shape=(D,), mean=(), std=(), cached=cached)
        return type(views.weak), type(views.strong)

    assert made(ViewsConfig(), 4) == (Cached, Cached)
    assert made(ViewsConfig(), 0) == (FeatureDropout, FeatureDropout)
    assert made(ViewsConfig(weak="dropout", strong="none"), 4) == (FeatureDropout, Identity)
    with pytest.raises(UserError, match=r"views\.strong is cached, but the data has no views"):
        made(ViewsConfig(strong="cached"), 0)
    with pytest.raises(UserError, match="cached does not fit images"):
        build(ViewsConfig(weak="cached"), image=True, shape=(3, 8, 8), mean=(0.5,) * 3, std=(0.5,) * 3)
