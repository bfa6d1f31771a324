"""The light strong view: affine map, color and cutout, each against something written differently."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from pars.augment import CropFlip, Light, affine, affine_params, cut_out
from pars.seeds import generator

Sampling = Literal["bilinear", "nearest"]
STILL = Light(
    crop=CropFlip(pad=0, flip=False), mean=(0.5,), cutout=0,
    rotate=0, shear=0, scale=0, translate=0, brightness=0, contrast=0, color=0,
)  # fmt: skip


def images(n: int, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8))


def theta(
    size: tuple[int, int], *, angle: float = 0, shear: float = 0, scale: float = 1, right: float = 0, down: float = 0
) -> Tensor:
    def one(value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([value])

    return affine_params(
        angle=one(angle), shear=one(shear), scale=one(scale), right=one(right), down=one(down), size=size
    )


@pytest.mark.parametrize("sampling", ["bilinear", "nearest"])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (1, 8, 8), (2, 9, 14)])
def test_affine_without_amounts_is_the_identity(shape: tuple[int, int, int], sampling: Sampling) -> None:
    x = images(1, shape).float()
    out = affine(x, theta(shape[1:]), sampling=sampling)
    torch.testing.assert_close(out, x, rtol=0, atol=1e-2)
    assert torch.equal(out.round(), x)


@pytest.mark.parametrize("sampling", ["bilinear", "nearest"])
@pytest.mark.parametrize("quarters", [1, 2, 3])
@pytest.mark.parametrize("size", [7, 8, 32])
def test_quarter_turns_are_those_of_numpy(size: int, quarters: int, sampling: Sampling) -> None:
    x = images(1, (3, size, size)).float()
    out = affine(x, theta((size, size), angle=quarters * np.pi / 2), sampling=sampling, pad_mode="reflect")
    expected = np.rot90(x.numpy(), quarters, axes=(2, 3)).copy()
    torch.testing.assert_close(out, torch.from_numpy(expected), rtol=0, atol=1e-2)


@pytest.mark.parametrize(("right", "down"), [(3, 0), (0, 2), (-4, 1)])
def test_whole_translations_are_shifts(right: int, down: int) -> None:
    x = images(1, (2, 9, 14)).float()
    out = affine(x, theta((9, 14), right=right, down=down))
    expected = torch.zeros_like(x)
    for row in range(9):
        for column in range(14):
            if 0 <= row - down < 9 and 0 <= column - right < 14:
                expected[:, :, row, column] = x[:, :, row - down, column - right]
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-2)


def test_any_map_equals_bilinear_interpolation_by_hand() -> None:
    height, width, angle, shear, scale, right, down = 11, 16, 0.4, 0.2, 1.3, 1.5, -0.7
    x = images(1, (1, height, width)).double()[0, 0].numpy()
    out = affine(
        torch.from_numpy(x).float()[None, None],
        theta((height, width), angle=angle, shear=shear, scale=scale, right=right, down=down),
    )[0, 0].numpy()
    # Where an input pixel goes: scaled, sheared along x, turned counter-clockwise (y points down), moved.
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    forward = turn @ np.array([[1, shear], [0, 1]]) * scale
    center = np.array([(width - 1) / 2, (height - 1) / 2])
    padded = np.pad(x, 1)
    for row in range(height):
        for column in range(width):
            px, py = np.linalg.solve(forward, np.array([column, row]) - center - [right, down]) + center
            px, py = np.clip(px, -1, width), np.clip(py, -1, height)
            left, top = min(int(np.floor(px)), width - 1), min(int(np.floor(py)), height - 1)
            u, v = px - left, py - top
            corner = padded[top + 1 : top + 3, left + 1 : left + 3]
            expected = np.array([1 - v, v]) @ corner @ np.array([1 - u, u])
            assert abs(out[row, column] - expected) < 2e-2


@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_without_ranges_nothing_changes(strength: float) -> None:
    x = images(16, (1, 28, 28))
    view = replace(STILL, strength=strength)
    assert torch.equal(view.apply(x, view.draw(generator(0, "test"), 16, (1, 28, 28))), x)


def test_strength_zero_is_the_weak_view() -> None:
    x = images(64, (3, 32, 32))
    crop = CropFlip(pad=4)
    view = Light(crop=crop, mean=(0.5,) * 3, strength=0)
    out = view.apply(x, view.draw(generator(0, "test"), 64, (3, 32, 32)))
    assert torch.equal(out, crop.apply(x, crop.draw(generator(0, "test"), 64, (3, 32, 32))))


def test_parameters_of_strength_zero_would_change_nothing_either() -> None:
    x = images(64, (3, 32, 32))
    view = Light(crop=CropFlip(pad=0, flip=False), mean=(0.5,) * 3, strength=0)
    params = view.draw(generator(0, "test"), 64, (3, 32, 32))
    assert torch.equal(replace(view, strength=1).apply(x, params), x)


def test_ranges_grow_with_strength() -> None:
    def spread(strength: float) -> list[float]:
        view = Light(crop=CropFlip(pad=4), mean=(0.4,) * 3, strength=strength)
        params = view.draw(generator(0, "test"), 500, (3, 32, 32))
        return [params[key].double().std(dim=0).max().item() for key in ("affine", "gain", "bias")]

    assert all(half < whole < double for half, whole, double in zip(spread(0.5), spread(1), spread(2), strict=True))


def test_cutout_covers_its_square_with_the_mean() -> None:
    x = torch.zeros(500, 1, 32, 32, dtype=torch.uint8)
    view = replace(STILL, cutout=8)
    out = view.apply(x, view.draw(generator(0, "test"), 500, (1, 32, 32)))
    area = (out == 128).sum((1, 2, 3))
    assert set(out.flatten().tolist()) == {0, 128}
    assert area.max() == 64
    assert area.min() >= 16  # the center is inside, so a corner has at least a quarter
    side = np.mean([min(c + 4, 32) - max(c - 4, 0) for c in range(32)])  # what the border leaves of 8, center at c
    assert abs(area.double().mean().item() - side**2) < 3.5  # four standard errors


def test_cut_out_equals_slicing() -> None:
    x = images(3, (2, 6, 7))
    box = torch.tensor([[1, 2, 3, 5], [-2, -1, 2, 3], [0, 0, 0, 0]])
    out = cut_out(x.clone(), box, torch.tensor([9, 8], dtype=torch.uint8))
    expected = x.clone()
    for channel, fill in enumerate((9, 8)):
        expected[0, channel, 1:3, 2:5] = fill
        expected[1, channel, 0:2, 0:3] = fill
    assert torch.equal(out, expected)


def test_brightness_and_contrast() -> None:
    x = images(40, (1, 8, 8))
    bright = replace(STILL, brightness=0.2)
    params = bright.draw(generator(0, "test"), 40, (1, 8, 8))
    shift = params["bias"].double().numpy()[:, :, None, None]
    assert np.abs(shift).max() <= 51
    expected = np.floor(np.clip(x.numpy() + shift + 0.5, 0, 255))
    assert np.abs(bright.apply(x, params).numpy() - expected).max() <= 1
    contrast = replace(STILL, contrast=0.5)
    gray = torch.full((40, 1, 8, 8), 128, dtype=torch.uint8)  # the fixed point, 127.5, rounded
    assert (contrast.apply(gray, contrast.draw(generator(0, "test"), 40, (1, 8, 8))).int() - 128).abs().max() <= 1


def test_color_moves_channels_apart_only_where_there_are_several() -> None:
    for channels in (1, 3):
        view = replace(STILL, color=0.3, mean=(0.5,) * channels)
        gain = view.draw(generator(0, "test"), 50, (channels, 8, 8))["gain"]
        assert ((gain - 1).abs().max() > 0.1) == (channels > 1)
