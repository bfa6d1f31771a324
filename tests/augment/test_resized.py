"""Random-resized crops against Pillow; pieces smaller than the image."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from pars.augment import CenterCrop, CropFlip, ResizedCrop, ViewsConfig, build
from pars.errors import UserError
from pars.seeds import generator

BILINEAR = Image.Resampling.BILINEAR


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


def test_where_no_box_fits_the_whole_picture_is_taken() -> None:
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
    views = build(config, image=True, shape=(3, 40, 32), mean=(0.5,) * 3, std=(0.25,) * 3)
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
        build(ViewsConfig(**changes), image=True, shape=(3, 40, 40), mean=(0.5,) * 3, std=(0.25,) * 3)  # type: ignore[arg-type]
