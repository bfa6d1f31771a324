"""Views of feature vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pars.augment import FeatureDropout, keep_mask
from pars.seeds import generator


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
    keep = keep_mask(generator(0, "test"), (2000, 64), 0.4).astype(float) - 0.6
    for lag in (1, 2, 3, 4):
        assert abs((keep[:, lag:] * keep[:, :-lag]).mean()) < 5 * 0.24 / np.sqrt(keep.size - 2000 * lag)


def test_a_mask_of_any_size_has_its_shape() -> None:
    for size in range(1, 10):
        assert keep_mask(generator(0, "test"), (1, size), 0.5).shape == (1, size)


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
