"""The fast CNN against its layers written out by hand; its whitening against numpy's eigenvectors in float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose
from torch import Tensor, nn

from pars.engine import network_cost
from pars.models import FastCNN, ModelConfig, build_model
from pars.models.fast_cnn import WHITENING_EPS, Signs, Whitening, patch_covariance, whitening_filters

Array = npt.NDArray[np.float64]


def by_hand(w: dict[str, Tensor], x: Tensor, *, pools: int = 3) -> Tensor:
    """The whole network from its named weights, in evaluation mode, in float64."""
    w = {name: tensor.double() for name, tensor in w.items()}
    x = F.gelu(F.conv2d(x.double(), w["whitening.weight"], w["whitening.bias"]))
    layer = 1
    for block in range(3):
        for depth in range(2):
            x = F.conv2d(x, w[f"blocks.{layer}.weight"], padding=1)
            layer += 1
            if depth == 0 and block < pools:
                x = F.max_pool2d(x, 2)
                layer += 1
            mean, var = w[f"blocks.{layer}.running_mean"], w[f"blocks.{layer}.running_var"]
            x = F.gelu(F.batch_norm(x, mean, var, w[f"blocks.{layer}.weight"], w[f"blocks.{layer}.bias"]))
            layer += 2
    return x.flatten(2).max(dim=2).values @ w["head.weight"].T / 9


@pytest.mark.parametrize(("shape", "pools"), [((3, 32, 32), 3), ((1, 28, 28), 3), ((3, 16, 20), 2), ((1, 8, 8), 1)])
def test_it_is_what_it_says(shape: tuple[int, int, int], pools: int) -> None:
    net = build_model(ModelConfig(name="fast_cnn", width=8), shape, 7, seed=0)
    x = torch.randn(16, *shape)
    net.fit_statistics(x)
    net(x)  # moves BatchNorm's statistics away from 0 and 1
    net.eval()
    torch.testing.assert_close(net(x).double(), by_hand(net.state_dict(), x, pools=pools), rtol=1e-4, atol=1e-5)


def multiply_adds(w: int, filters: int) -> float:
    """Of a 32×32 color image: positions × inputs × outputs, layer by layer."""
    whitening, head = 31**2 * 12 * filters, 4 * w * 10
    first = 31**2 * 9 * filters * w + 15**2 * 9 * w * w
    second = 15**2 * 9 * w * 4 * w + 7**2 * 9 * (4 * w) ** 2
    third = (7**2 + 3**2) * 9 * (4 * w) ** 2
    return whitening + first + second + third + head


@pytest.mark.parametrize(
    ("width", "signs", "mflop"), [(32, "both", 66.1), (64, "both", 236.3), (32, "one", 59.2), (64, "one", 222.7)]
)
def test_its_cost_is_that_of_its_convolutions(width: int, signs: Signs, mflop: float) -> None:
    net = build_model(ModelConfig(name="fast_cnn", width=width, whitening=signs), (3, 32, 32), 10, seed=0)
    cost = network_cost(net, torch.zeros(2, 3, 32, 32))
    filters = {"both": 24, "one": 12}[signs]
    assert cost.forward == 2 * multiply_adds(width, filters)
    assert cost.forward / 1e6 == pytest.approx(mflop, abs=0.1)
    # Frozen filters have no gradient, nor has the input.
    assert cost.training == 3 * cost.forward - 2 * 2 * 31**2 * 12 * filters


def test_widths_are_w_4w_4w_and_32_is_the_default() -> None:
    net = build_model(ModelConfig(name="fast_cnn"), (3, 32, 32), 10, seed=0)
    assert isinstance(net, FastCNN)
    assert [m.out_channels for m in net.modules() if isinstance(m, nn.Conv2d)] == [32, 32, 128, 128, 128, 128]
    assert net.head.bias is None


def test_logits_are_scaled_as_asked() -> None:
    torch.manual_seed(0)
    net = FastCNN((3, 8, 8), 5, width=4, logit_scale=0.5).eval()
    x = torch.randn(3, 3, 8, 8)
    torch.testing.assert_close(net(x), 0.5 * net.features(x) @ net.head.weight.T)


def test_preparing_changes_the_whitening_only_and_keeps_its_layout() -> None:
    net = build_model(ModelConfig(name="fast_cnn", width=4), (3, 16, 16), 10, seed=0)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net.fit_statistics(torch.randn(50, 3, 16, 16).cumsum(dim=3))
    changed = [name for name, tensor in net.state_dict().items() if not torch.equal(tensor, before[name])]
    assert changed == ["whitening.weight"]
    assert net.whitening.weight.is_contiguous(memory_format=torch.channels_last)  # type: ignore[operator, union-attr]


def smooth_images(n: int, channels: int, height: int, width: int, seed: int = 0) -> Tensor:
    """Images whose neighbors are alike, as in photographs: noise summed up along both sides, channels mixed."""
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
    images = smooth_images(*shape)
    expected = np.cov(patches_by_hand(images), rowvar=False, bias=True)
    assert_allclose(patch_covariance(images, batch=64).numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("channels", [1, 3])
def test_whitened_patches_have_the_identity_as_covariance_up_to_eps(channels: int) -> None:
    images = smooth_images(60, channels, 10, 12)
    layer = Whitening(channels)
    layer.fit(images)
    size = 4 * channels
    out = layer(images).detach().double().numpy()
    assert out.shape == (60, 2 * size, 9, 11)
    whitened = out[:, :size].transpose(0, 2, 3, 1).reshape(-1, size)
    values = np.linalg.eigvalsh(np.cov(patches_by_hand(images), rowvar=False, bias=True))[::-1]
    expected = np.diag(values / (values + WHITENING_EPS))
    assert_allclose(np.cov(whitened, rowvar=False, bias=True), expected, atol=2e-4)
    assert_allclose(out[:, size:], -out[:, :size], atol=1e-5)


def test_filters_are_numpys_eigenvectors_up_to_sign() -> None:
    images = smooth_images(50, 3, 8, 8)
    values, vectors = np.linalg.eigh(np.cov(patches_by_hand(images), rowvar=False, bias=True))
    expected = (vectors / np.sqrt(values + WHITENING_EPS)).T[::-1]
    found = whitening_filters(patch_covariance(images)).numpy()
    same_side = np.sign((found * expected).sum(axis=1, keepdims=True))
    assert_allclose(found, same_side * expected, rtol=1e-6, atol=1e-9)


def test_signs_and_order_do_not_depend_on_what_lapack_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    covariance = patch_covariance(smooth_images(50, 3, 8, 8))
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
    assert layer.weight.abs().max() <= 1.001 / WHITENING_EPS**0.5


def test_only_the_bias_is_a_parameter_and_the_filters_are_saved() -> None:
    layer = Whitening(3)
    layer.fit(smooth_images(20, 3, 8, 8))
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    again = Whitening(3)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again.weight, layer.weight)


def test_beginning_anew_keeps_the_filters() -> None:
    layer = Whitening(1)
    layer.fit(smooth_images(20, 1, 8, 8))
    before = layer.weight.clone()
    torch.nn.init.ones_(layer.bias)
    layer.reset_parameters()
    assert torch.equal(layer.weight, before)
    assert not layer.bias.any()


def test_with_one_sign_it_has_half_of_the_filters() -> None:
    layers = [Whitening(3), Whitening(3, signs="one")]
    for layer in layers:
        layer.fit(smooth_images(20, 3, 8, 8))
    assert torch.equal(layers[1].weight, layers[0].weight[:12])
    assert layers[1].bias.shape == (12,)


def test_unfitted_it_passes_the_pixels_on() -> None:
    x = torch.randn(2, 1, 3, 3)
    out = Whitening(1)(x)
    assert torch.equal(out[:, 0], x[:, 0, :2, :2])
    assert torch.equal(out[:, 7], -x[:, 0, 1:, 1:])
