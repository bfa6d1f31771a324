"""Resizing and normalization of images before a network, and pixels as features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from pars.encode import encoder
from pars.encode.image_encoders import normalize_images, resize_images
from pars.errors import UserError

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 3, 40, 40), dtype=np.uint8)


def test_shrinking_is_pillows_bicubic() -> None:
    found = resize_images(IMAGES, 16).clamp(0, 255).numpy()
    for ours, image in zip(found, IMAGES, strict=True):
        pillow = Image.fromarray(image.transpose(1, 2, 0)).resize((16, 16), Image.Resampling.BICUBIC)
        assert np.abs(ours.transpose(1, 2, 0) - np.asarray(pillow)).max() <= 1.5  # Pillow rounds after each direction


def test_normalizing_is_its_formula_and_leaves_the_right_size_alone() -> None:
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
    expected = (IMAGES / 255.0 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    np.testing.assert_allclose(normalize_images(IMAGES, 40, mean, std).numpy(), expected, atol=1e-5)


def test_gray_becomes_three_channels_and_opacity_is_dropped() -> None:
    assert torch.equal(resize_images(IMAGES[:, :1], 40), torch.from_numpy(IMAGES[:, :1]).float().expand(-1, 3, -1, -1))
    four = np.concatenate([IMAGES, IMAGES[:, :1]], axis=1)
    assert torch.equal(resize_images(four, 40), torch.from_numpy(IMAGES).float())
    with pytest.raises(UserError, match=r"shape \[3, 2, 40, 40\]"):
        resize_images(IMAGES[:, :2], 40)


def test_pixels_are_themselves_when_small_and_at_most_32_a_side() -> None:
    small = IMAGES[:, :1, :8, :8]
    np.testing.assert_allclose(encoder("pixels").encode(small), small.reshape(3, -1) / 255.0, rtol=1e-6)
    assert encoder("pixels").encode(IMAGES).shape == (3, 3 * 32 * 32)
