"""The strong view that only paints a square: against the weak view and a loop over pixels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from pars.augment import CropFlip, Cutout, View, ViewsConfig, build
from pars.augment.view import Crop, Identity
from pars.seeds import generator


def images(n: int, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8))


def view_of(cutout: int | None = None, shape: tuple[int, ...] = (3, 32, 32)) -> View:
    config = ViewsConfig(strong="cutout", cutout=cutout)
    return build(config, image=True, shape=shape, mean=(0.2, 0.4, 0.6)[: shape[0]], std=(0.25,) * shape[0]).strong


@pytest.mark.parametrize("side", [0, 5, 8])
@pytest.mark.parametrize("crop", [CropFlip(pad=4), Identity()])
def test_it_is_the_weak_view_with_a_square_of_the_mean_color(crop: Crop, side: int) -> None:
    view = Cutout(crop=crop, mean=(0.2, 0.4, 0.6), side=side)
    x = images(20, (3, 16, 18))
    before = x.clone()
    params = view.draw(generator(0, "test"), 20, (3, 16, 18))
    out = view.apply(x, params)
    assert torch.equal(x, before)  # the samples themselves are not painted on
    expected = crop.apply(x, params).clone()
    for i, (top, left, bottom, right) in enumerate(params["cutout"].tolist()):
        assert (bottom - top, right - left) == (side, side)
        for row in range(max(top, 0), min(bottom, 16)):
            for column in range(max(left, 0), min(right, 18)):
                expected[i, :, row, column] = torch.tensor([51, 102, 153])
    assert torch.equal(out, expected)


def test_its_square_is_a_quarter_of_the_side_unless_told() -> None:
    views = [view_of(), view_of(8), view_of(shape=(1, 28, 28)), view_of(3)]
    assert [view.side for view in views if isinstance(view, Cutout)] == [8, 8, 7, 3]


def test_the_crop_is_drawn_as_in_the_weak_view() -> None:
    """So that switching between strong views moves no pixel of the crop."""
    params = view_of().draw(generator(0, "test"), 9, (3, 32, 32))
    weak = CropFlip(pad=4).draw(generator(0, "test"), 9, (3, 32, 32))
    assert torch.equal(params["crop"], weak["crop"])
    assert torch.equal(params["flip"], weak["flip"])
