"""The frozen first layer, against patches cut out by hand in float64 and numpy's own eigenvectors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from pars.models.whitening import EPS, Whitening, patch_covariance, whitening_filters

Array = npt.NDArray[np.float64]


def pictures(n: int, channels: int, height: int, width: int, seed: int = 0) -> Tensor:
    """Images whose neighbors are alike, as in pictures: noise summed up along both sides, channels mixed."""
    rng = np.random.default_rng(seed)
    smooth = rng.standard_normal((n, channels, height + 3, width + 3))
    near = [smooth[:, :, i : i + height, j : j + width] for i in range(4) for j in range(4)]
    mixed = np.einsum("cd,ndhw->nchw", rng.standard_normal((channels, channels)), np.sum(near, axis=0))
    return torch.from_numpy((mixed / mixed.std() + 0.1).astype(np.float32))


def patches_by_hand(images: Tensor) -> Array:
    """Every 2×2 patch as a row (channel, row, column)."""
    x = images.double().numpy()
    cut = [
        x[image, :, row : row + 2, column : column + 2].reshape(-1)
        for image in range(x.shape[0])
        for row in range(x.shape[2] - 1)
        for column in range(x.shape[3] - 1)
    ]
    return np.array(cut)


@pytest.mark.parametrize("shape", [(40, 3, 9, 7), (300, 1, 8, 8)])
def test_the_covariance_is_that_of_all_patches(shape: tuple[int, int, int, int]) -> None:
    images = pictures(*shape)
    expected = np.cov(patches_by_hand(images), rowvar=False, bias=True)
    assert_allclose(patch_covariance(images, batch=64).numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("channels", [1, 3])
def test_whitened_patches_have_the_identity_as_covariance_up_to_eps(channels: int) -> None:
    images = pictures(60, channels, 10, 12)
    layer = Whitening(channels)
    layer.fit(images)
    size = 4 * channels
    out = layer(images).detach().double().numpy()
    assert out.shape == (60, 2 * size, 9, 11)
    whitened = out[:, :size].transpose(0, 2, 3, 1).reshape(-1, size)
    values = np.linalg.eigvalsh(np.cov(patches_by_hand(images), rowvar=False, bias=True))[::-1]
    expected = np.diag(values / (values + EPS))
    assert_allclose(np.cov(whitened, rowvar=False, bias=True), expected, atol=2e-4)
    assert_allclose(out[:, size:], -out[:, :size], atol=1e-5)


def test_filters_are_numpys_eigenvectors_up_to_sign() -> None:
    images = pictures(50, 3, 8, 8)
    values, vectors = np.linalg.eigh(np.cov(patches_by_hand(images), rowvar=False, bias=True))
    expected = (vectors / np.sqrt(values + EPS)).T[::-1]
    found = whitening_filters(patch_covariance(images)).numpy()
    same_side = np.sign((found * expected).sum(axis=1, keepdims=True))
    assert_allclose(found, same_side * expected, rtol=1e-6, atol=1e-9)


def test_signs_and_order_do_not_depend_on_what_lapack_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    covariance = patch_covariance(pictures(50, 3, 8, 8))
    expected = whitening_filters(covariance)
    plain = torch.linalg.eigh

    def other_lapack(matrix: Tensor) -> tuple[Tensor, Tensor]:
        values, vectors = plain(matrix)
        return values, vectors * torch.tensor([1.0, -1.0] * 6)

    monkeypatch.setattr(torch.linalg, "eigh", other_lapack)
    assert torch.equal(whitening_filters(covariance), expected)


def test_equally_large_entries_leave_the_sign_where_it_is() -> None:
    """Of (1, -1) and (1, -1 - 1e-12) the largest entry is another one, the filter must not be."""
    filters = [whitening_filters(torch.tensor([[2.0, -1.0 - d], [-1.0 - d, 2.0 + d]]).double()) for d in (-1e-9, 1e-9)]
    torch.testing.assert_close(filters[0], filters[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("images", [torch.zeros(4, 3, 8, 8), torch.rand(6, 1, 8, 8).expand(-1, 3, -1, -1)])
def test_images_without_variance_in_some_direction_give_finite_filters(images: Tensor) -> None:
    layer = Whitening(3)
    layer.fit(images)
    assert layer.weight.isfinite().all()
    assert layer.weight.abs().max() <= 1.001 / EPS**0.5


def test_only_the_bias_is_a_parameter_and_the_filters_are_saved() -> None:
    layer = Whitening(3)
    layer.fit(pictures(20, 3, 8, 8))
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    again = Whitening(3)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again.weight, layer.weight)


def test_beginning_anew_keeps_the_filters() -> None:
    layer = Whitening(1)
    layer.fit(pictures(20, 1, 8, 8))
    before = layer.weight.clone()
    torch.nn.init.ones_(layer.bias)
    layer.reset_parameters()
    assert torch.equal(layer.weight, before)
    assert not layer.bias.any()


def test_with_one_sign_it_has_half_of_the_filters() -> None:
    layers = [Whitening(3), Whitening(3, signs="one")]
    for layer in layers:
        layer.fit(pictures(20, 3, 8, 8))
    assert torch.equal(layers[1].weight, layers[0].weight[:12])
    assert layers[1].bias.shape == (12,)


def test_unfitted_it_passes_the_pixels_on() -> None:
    x = torch.randn(2, 1, 3, 3)
    out = Whitening(1)(x)
    assert torch.equal(out[:, 0], x[:, 0, :2, :2])
    assert torch.equal(out[:, 7], -x[:, 0, 1:, 1:])
