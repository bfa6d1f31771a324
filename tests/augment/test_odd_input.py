"""Images at the edge of what an image is: one pixel, no rows, strips, many channels, more padding than image."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pillow_operations import from_pillow, operate, to_pillow
from torch import Tensor

from pars.augment import CropFlip, PadMode, ViewsConfig, build_views, caption
from pars.augment.config import Strong, Weak
from pars.augment.operations import GEOMETRIC, INDEX, apply_operations, fixmatch_amounts, operation_params
from pars.augment.pillow_ops import LARGEST_SIDE
from pars.errors import UserError
from pars.seeds import generator

WEAK: list[Weak] = ["crop-flip", "resized-crop", "none"]
STRONG: list[Strong] = ["cutout", "light", "randaugment", "autoaugment"]


def images(n: int, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8))


@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 1, 1), (3, 1, 150), (1, 150, 1), (3, 2, 7000), (3, 120, 120)])
@pytest.mark.parametrize("weak", WEAK)
@pytest.mark.parametrize("strong", STRONG)
def test_any_number_of_images_of_any_size_has_views(shape: tuple[int, ...], weak: Weak, strong: Strong) -> None:
    config = ViewsConfig(weak=weak, strong=strong, pad_mode="reflect", operations=4)
    views = build_views(config, image=True, shape=shape, mean=(0.5,) * shape[0], std=(0.25,) * shape[0])
    for n in (0, 1, 4):
        x = images(n, shape)
        for view in (views.weak, views.strong):
            params = view.draw(generator(0, "test"), n, shape)
            out = views.finish(view.apply(x, params))
            assert len(out) == n
            assert out.isfinite().all()
            assert all(isinstance(line, str) for i in range(n) for line in caption(params, i))


@pytest.mark.parametrize("side", [12, 120])  # as a batch; image by image
@pytest.mark.parametrize("mode", ["zero", "reflect"])
@pytest.mark.parametrize(("pad", "size"), [(11, None), (6, None), (5, None), (11, 3), (7, 10)])
def test_padding_may_be_larger_than_what_is_cut_out(side: int, mode: PadMode, pad: int, size: int | None) -> None:
    scale = side // 12
    pad, size = pad * scale, size and size * scale
    view = CropFlip(pad=pad, pad_mode=mode, size=size)
    x = images(30, (3, side, side))
    params = view.draw(generator(0, "test"), len(x), (3, side, side))
    out = view.apply(x, params).numpy()
    edges = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    padded = np.pad(x.numpy(), edges, mode="constant" if mode == "zero" else "reflect")
    for i, ((top, left), flip) in enumerate(zip(params["crop"].tolist(), params["flip"].tolist(), strict=True)):
        wanted = padded[i, :, top : top + (size or side), left : left + (size or side)]
        np.testing.assert_array_equal(out[i], wanted[:, :, ::-1] if flip else wanted)


@pytest.mark.parametrize("shape", [(1, 2, LARGEST_SIDE), (1, LARGEST_SIDE, 2)])
def test_the_longest_strips_are_moved_as_pillow_moves_them(shape: tuple[int, ...]) -> None:
    x = images(1, shape)
    for name in GEOMETRIC:
        for level in (0.1, 1.0):
            op = np.array([[INDEX[name]]])
            amount = fixmatch_amounts(op, np.array([[level]]), np.array([[-1.0]]), shape, translate=0.3)
            wanted = from_pillow(operate(to_pillow(x[0].numpy()), name, float(amount[0, 0])))
            np.testing.assert_array_equal(apply_operations(x, operation_params(op, amount, shape))[0].numpy(), wanted)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((4, 32, 32), "autoaugment needs images of 1 or 3 channels, these have 4; use light"),
        ((2, 32, 32), "these have 2; use light"),
        ((3, 2, LARGEST_SIDE + 1), "at most 16384 pixels per side, these have 2×16385"),
        ((3, 0, 8), r"without zeros, got \[3, 0, 8\]"),
        ((32, 32), r"an image must have shape \[C, H, W\]"),
    ],
)
def test_what_the_operations_are_not_defined_for_is_refused(shape: tuple[int, ...], text: str) -> None:
    channels = shape[0]
    with pytest.raises(UserError, match=text):
        build_views(
            ViewsConfig(strong="autoaugment"), image=True, shape=shape, mean=(0.5,) * channels, std=(1.0,) * channels
        )


def test_four_channels_have_the_light_view() -> None:
    views = build_views(ViewsConfig(), image=True, shape=(4, 9, 9), mean=(0.5,) * 4, std=(0.25,) * 4)
    x = images(3, (4, 9, 9))
    assert views.strong.apply(x, views.strong.draw(generator(0, "test"), 3, (4, 9, 9))).shape == x.shape
