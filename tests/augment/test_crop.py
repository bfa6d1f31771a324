"""Crop and flip, against Pillow and numpy one image at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor

from pars.augment import CropFlip
from pars.augment.crop import PadMode
from pars.seeds import generator

SHAPES = [(3, 32, 32), (1, 28, 28), (1, 8, 8), (3, 9, 14), (3, 112, 120)]


def images(n: int, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", ["zero", "reflect"])
@pytest.mark.parametrize("pad", [0, 1, 4])
def test_equals_a_loop_over_images(shape: tuple[int, int, int], mode: PadMode, pad: int) -> None:
    x = images(50, shape)
    view = CropFlip(pad=pad, pad_mode=mode)
    params = view.draw(generator(0, "test"), len(x), shape)
    out = view.apply(x, params)
    assert out.dtype == torch.uint8
    for i in range(len(x)):
        edges = ((0, 0), (pad, pad), (pad, pad))
        padded = np.pad(x[i].numpy(), edges, mode="constant" if mode == "zero" else "reflect")
        top, left = params["crop"][i].tolist()
        expected = padded[:, top : top + shape[1], left : left + shape[2]]
        if params["flip"][i]:
            expected = expected[:, :, ::-1]
        assert np.array_equal(out[i].numpy(), expected)


def test_equals_pillow() -> None:
    x = images(20, (3, 32, 32))
    view = CropFlip(pad=4)
    params = view.draw(generator(1, "test"), len(x), (3, 32, 32))
    out = view.apply(x, params)
    for i in range(len(x)):
        top, left = params["crop"][i].tolist()
        picture = ImageOps.expand(Image.fromarray(x[i].permute(1, 2, 0).numpy()), 4, 0)
        picture = picture.crop((left, top, left + 32, top + 32))
        if params["flip"][i]:
            picture = ImageOps.mirror(picture)
        assert np.array_equal(out[i].permute(1, 2, 0).numpy(), np.asarray(picture))


def test_every_place_and_both_directions_are_equally_likely() -> None:
    params = CropFlip(pad=2).draw(generator(0, "test"), 50_000, (3, 32, 32))
    places = torch.bincount(params["crop"][:, 0] * 5 + params["crop"][:, 1], minlength=25)
    assert len(places) == 25
    assert (places / 2000 - 1).abs().max() < 0.12  # five standard deviations
    assert abs(params["flip"].double().mean().item() - 0.5) < 0.012


def test_without_flip_only_the_flip_changes() -> None:
    with_flip = CropFlip(pad=2).draw(generator(0, "test"), 100, (1, 8, 8))
    without = CropFlip(pad=2, flip=False).draw(generator(0, "test"), 100, (1, 8, 8))
    assert torch.equal(with_flip["crop"], without["crop"])
    assert with_flip["flip"].any()
    assert not without["flip"].any()
