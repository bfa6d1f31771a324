"""Crops and cutout, against Pillow and numpy one image at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor

from pars.augment import CenterCrop, CropFlip, Cutout, Identity, PadMode, ResizedCrop, View, ViewsConfig, build_views
from pars.augment.view import Crop
from pars.errors import UserError
from pars.seeds import generator

BILINEAR = Image.Resampling.BILINEAR
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
        image = ImageOps.expand(Image.fromarray(x[i].permute(1, 2, 0).numpy()), 4, 0)
        image = image.crop((left, top, left + 32, top + 32))
        if params["flip"][i]:
            image = ImageOps.mirror(image)
        assert np.array_equal(out[i].permute(1, 2, 0).numpy(), np.asarray(image))


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


@pytest.mark.parametrize("seed", range(25))
def test_a_resized_crop_is_pillows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (height, width), size = rng.integers(1, 80, 2).tolist(), int(rng.integers(1, 60))
    x = rng.integers(0, 256, (4, 3, height, width), dtype=np.uint8)
    if seed % 3 == 0:
        x = np.where(x > 127, 255, 0).astype(np.uint8)
    view = ResizedCrop(size=size)
    params = view.draw(rng, 4, (3, height, width))
    done = view.apply(torch.from_numpy(x), params).numpy()
    for one, out, (top, left, bottom, right), flip in zip(
        x, done, params["box"].tolist(), params["flip"].tolist(), strict=True
    ):
        piece = Image.fromarray(np.ascontiguousarray(one.transpose(1, 2, 0))).crop((left, top, right, bottom))
        in_two = np.asarray(piece.resize((size, bottom - top), BILINEAR).resize((size, size), BILINEAR))
        in_one = np.asarray(piece.resize((size, size), BILINEAR))
        out = out[:, :, ::-1] if flip else out
        np.testing.assert_array_equal(out, in_two.transpose(2, 0, 1))
        # Pillow itself does rows before columns for some sizes, and rounds in between.
        assert np.abs(out.transpose(1, 2, 0).astype(int) - in_one).max() <= 1


def test_boxes_have_the_area_and_shape_asked_for() -> None:
    view = ResizedCrop(size=16, area=(0.2, 0.5))
    box = view.draw(generator(0, "test"), 3000, (3, 200, 200))["box"].double()
    high, wide = box[:, 2] - box[:, 0], box[:, 3] - box[:, 1]
    area, ratio = high * wide / 200**2, wide / high
    assert 0.19 < area.min() < 0.21
    assert 0.49 < area.max() < 0.51
    assert 0.73 < ratio.min() < 0.77
    assert 1.3 < ratio.max() < 1.36
    assert box.min() == 0
    assert box.max() == 200


def test_where_no_box_fits_the_whole_image_is_taken() -> None:
    view = ResizedCrop(size=4, area=(1.0, 1.0), ratio=(3.0, 4.0))
    assert (view.draw(generator(0, "test"), 5, (3, 30, 30))["box"] == torch.tensor([0, 0, 30, 30])).all()


def test_a_piece_of_a_large_image() -> None:
    x = torch.arange(36, dtype=torch.uint8).view(1, 1, 6, 6).repeat(50, 1, 1, 1)
    view = CropFlip(pad=0, flip=False, size=4)
    params = view.draw(generator(0, "test"), 50, (1, 6, 6))
    assert set(params["crop"].flatten().tolist()) == {0, 1, 2}
    out = view.apply(x, params)
    for i, (top, left) in enumerate(params["crop"].tolist()):
        assert torch.equal(out[i], x[i, :, top : top + 4, left : left + 4])
    assert torch.equal(CenterCrop(4).apply(x, {})[0, 0], x[0, 0, 1:5, 1:5])


@pytest.mark.parametrize("weak", ["crop-flip", "resized-crop"])
@pytest.mark.parametrize("strong", ["cutout", "light", "randaugment", "autoaugment", "none"])
def test_all_views_of_a_run_have_the_size_asked_for(weak: str, strong: str) -> None:
    config = ViewsConfig(weak=weak, strong=strong, size=24)  # type: ignore[arg-type]
    views = build_views(config, image=True, shape=(3, 40, 32), mean=(0.5,) * 3, std=(0.25,) * 3)
    x = torch.randint(0, 256, (7, 3, 40, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for view in (views.weak, views.strong):
        out = views.finish(view.apply(x, view.draw(generator(0, "test"), 7, (3, 40, 32))))
        assert out.shape == (7, 3, 24, 24)
    assert views.plain(x).shape == (7, 3, 24, 24)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"size": 41}, "views.size = 41"),
        ({"size": 0}, "views.size = 0"),
        ({"operations": 0}, "views.operations"),
        ({"magnitude": 11}, "views.magnitude"),
        ({"magnitude": 1}, "views.magnitude"),
        ({"cutout": -1}, "views.cutout"),
    ],
)
def test_sizes_that_cannot_be(changes: dict[str, int], word: str) -> None:
    with pytest.raises(UserError, match=word):
        build_views(ViewsConfig(**changes), image=True, shape=(3, 40, 40), mean=(0.5,) * 3, std=(0.25,) * 3)  # type: ignore[arg-type]


def cutout_view(cutout: int | None = None, shape: tuple[int, ...] = (3, 32, 32)) -> View:
    config = ViewsConfig(strong="cutout", cutout=cutout)
    return build_views(config, image=True, shape=shape, mean=(0.2, 0.4, 0.6)[: shape[0]], std=(0.25,) * shape[0]).strong


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


def test_its_square_is_a_quarter_of_the_side_by_default() -> None:
    views = [cutout_view(), cutout_view(8), cutout_view(shape=(1, 28, 28)), cutout_view(3)]
    assert [view.side for view in views if isinstance(view, Cutout)] == [8, 8, 7, 3]


def test_the_crop_is_drawn_as_in_the_weak_view() -> None:
    """So that switching between strong views moves no pixel of the crop."""
    params = cutout_view().draw(generator(0, "test"), 9, (3, 32, 32))
    weak = CropFlip(pad=4).draw(generator(0, "test"), 9, (3, 32, 32))
    assert torch.equal(params["crop"], weak["crop"])
    assert torch.equal(params["flip"], weak["flip"])
