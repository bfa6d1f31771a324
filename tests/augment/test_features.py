"""Views of feature vectors: dropout, noise, mixing, and cached views."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pars.augment import (
    CachedView,
    FeatureDropout,
    Identity,
    ViewsConfig,
    build_views,
    gather_rows,
    slice_params,
)
from pars.errors import UserError
from pars.seeds import generator

D, N = 5, 3  # features; cached views of each kind


@pytest.mark.parametrize("p", [0.1, 0.4])
def test_dropout_keeps_the_mean_and_has_the_variance_of_its_definition(p: float) -> None:
    view = FeatureDropout(dropout=p)
    x = torch.ones(1000, 400)
    out = view.apply(x, view.draw(generator(0, "test"), 1000, (400,))).double()
    tolerance = 5 * np.sqrt(p / (1 - p) / out.numel())
    assert abs(out.mean().item() - 1) < tolerance
    assert abs(out.var().item() - p / (1 - p)) < 0.01
    assert abs((out == 0).double().mean().item() - p) < tolerance
    kept = out[out > 0]
    assert kept.min() == kept.max()
    assert abs(kept[0].item() - 1 / (1 - p)) < 1e-4


def test_dropped_values_are_independent_between_neighbors() -> None:
    keep = FeatureDropout(dropout=0.4).draw(generator(0, "test"), 2000, (64,))["keep"].numpy() - 0.6
    for lag in (1, 2, 3, 4):
        assert abs((keep[:, lag:] * keep[:, :-lag]).mean()) < 5 * 0.24 / np.sqrt(keep.size - 2000 * lag)


def test_a_mask_of_any_size_has_its_shape() -> None:
    for size in range(1, 10):
        assert FeatureDropout(dropout=0.5).draw(generator(0, "test"), 1, (size,))["keep"].shape == (1, size)


def test_noise_is_in_units_of_each_feature() -> None:
    std = np.array([1, 10, 0], dtype=np.float32)
    view = FeatureDropout(dropout=0, noise=0.5, feature_std=std)
    x = torch.zeros(20_000, 3)
    out = view.apply(x, view.draw(generator(0, "test"), len(x), (3,)))
    torch.testing.assert_close(out.std(0), torch.tensor([0.5, 5, 0]), rtol=0.03, atol=0)
    plain = FeatureDropout(dropout=0, noise=0.5)
    assert abs(plain.apply(x, plain.draw(generator(0, "test"), len(x), (3,))).std().item() - 0.5) < 0.01


def test_mixing_goes_a_part_of_the_way_to_a_row_of_the_bank() -> None:
    bank = np.eye(4, dtype=np.float32)
    view = FeatureDropout(dropout=0, mix=0.3, bank=bank)
    x = torch.full((500, 4), 2.0)
    params = view.draw(generator(0, "test"), len(x), (4,))
    out = view.apply(x, params)
    weight = params["weight"].numpy()[:, None]
    np.testing.assert_allclose(out.numpy(), (1 - weight) * 2 + weight * params["partner"].numpy(), rtol=1e-5)
    assert 0.25 < weight.max() <= 0.3
    assert set(params["partner"].argmax(1).tolist()) == {0, 1, 2, 3}


def test_nothing_to_do_is_the_identity_and_the_input_is_never_changed() -> None:
    x = torch.randn(10, 6)
    before = x.clone()
    still = FeatureDropout(dropout=0)
    assert torch.equal(still.apply(x, still.draw(generator(0, "test"), 10, (6,))), x)
    view = FeatureDropout(dropout=0.4, noise=0.1, mix=0.2, bank=np.ones((3, 6), dtype=np.float32))
    view.apply(x, view.draw(generator(0, "test"), 10, (6,)))
    assert torch.equal(x, before)


def stored(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Row r is r throughout, its view v is r + v / 10."""
    inputs = torch.arange(n, dtype=torch.float32)[:, None].expand(n, D).contiguous()
    cached = inputs[:, None] + torch.arange(1, 2 * N + 1)[:, None] / 10
    return inputs, cached


def seen(config: ViewsConfig, which: str, n: int = 400) -> torch.Tensor:
    views = build_views(config, image=False, shape=(D,), mean=(), std=(), cached=2 * N)
    inputs, cached = stored(n)
    view = getattr(views, which)
    params = view.draw(generator(0, "test"), n, (D,))
    return views.finish(view.apply(gather_rows(inputs, cached, torch.arange(n), params), params))


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
    view = CachedView(0, N, FeatureDropout(dropout=0.3))
    params = view.draw(generator(1, "test"), 12, (D,))
    whole = view.apply(gather_rows(inputs, cached, torch.arange(12), params), params)
    parts, start = [], 0
    for length in cuts:
        part = slice_params(params, start, start + length)
        parts.append(view.apply(gather_rows(inputs, cached, torch.arange(start, start + length), part), part))
        start += length
    assert torch.equal(torch.cat(parts), whole)


def test_a_view_without_a_pick_reads_the_rows_themselves() -> None:
    inputs, cached = stored(7)
    order = torch.tensor([3, 1])
    assert torch.equal(gather_rows(inputs, cached, order, {}), inputs[order])


def test_stored_views_are_used_when_there_are_some_unless_configured_otherwise() -> None:
    def made(config: ViewsConfig, cached: int) -> tuple[type, type]:
        views = build_views(config, image=False, shape=(D,), mean=(), std=(), cached=cached)
        return type(views.weak), type(views.strong)

    assert made(ViewsConfig(), 4) == (CachedView, CachedView)
    assert made(ViewsConfig(), 0) == (FeatureDropout, FeatureDropout)
    assert made(ViewsConfig(weak="dropout", strong="none"), 4) == (FeatureDropout, Identity)
    with pytest.raises(UserError, match=r"views\.strong is cached, but the data has no cached views"):
        made(ViewsConfig(strong="cached"), 0)
    with pytest.raises(UserError, match="cached does not fit images"):
        build_views(ViewsConfig(weak="cached"), image=True, shape=(3, 8, 8), mean=(0.5,) * 3, std=(0.5,) * 3)
