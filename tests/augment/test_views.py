"""What all views promise, and how a configuration becomes views."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from pars.augment import (
    CropFlip,
    FeatureDropout,
    Identity,
    Light,
    PadMode,
    Views,
    ViewsConfig,
    build_views,
    slice_params,
)
from pars.errors import UserError
from pars.seeds import generator

IMAGES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]
SHAPES: list[tuple[int, ...]] = [*IMAGES, (64,)]
BANK = np.random.default_rng(1).standard_normal((32, 64), dtype=np.float32)


def views_of(shape: tuple[int, ...], config: ViewsConfig | None = None) -> Views:
    config = config or ViewsConfig(noise=0.1, mix=0.2)
    if len(shape) == 1:
        return build_views(config, image=False, shape=shape, mean=(), std=(), bank=BANK)
    return build_views(config, image=True, shape=shape, mean=(0.4,) * shape[0], std=(0.25,) * shape[0])


def samples(n: int, shape: tuple[int, ...]) -> Tensor:
    rng = np.random.default_rng(0)
    if len(shape) == 1:
        return torch.from_numpy(rng.standard_normal((n, *shape), dtype=np.float32))
    return torch.from_numpy(rng.integers(0, 256, (n, *shape), dtype=np.uint8))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("which", ["weak", "strong"])
@pytest.mark.parametrize("pad_mode", ["zero", "reflect"])
@pytest.mark.parametrize("cuts", [[1] * 37, [18, 19], [5, 32]])
def test_the_same_pixels_however_the_batch_is_cut(
    shape: tuple[int, ...], which: str, pad_mode: PadMode, cuts: list[int]
) -> None:
    views = views_of(shape, ViewsConfig(noise=0.1, mix=0.2, pad_mode=pad_mode))
    view = getattr(views, which)
    x = samples(37, shape)
    params = view.draw(generator(0, "test"), 37, shape)
    whole = views.finish(view.apply(x, params))
    starts = np.cumsum([0, *cuts])
    parts = [views.finish(view.apply(x[a:b], slice_params(params, a, b))) for a, b in pairwise(starts)]
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("which", ["weak", "strong"])
def test_a_view_is_a_function_of_its_address(shape: tuple[int, ...], which: str) -> None:
    view = getattr(views_of(shape), which)
    x = samples(16, shape)

    def at(epoch: int, step: int, stream: str = "test") -> Tensor:
        params = view.draw(generator(3, stream, epoch, step), 16, shape)
        out = view.apply(x, params)
        assert all(value.device.type == "cpu" and len(value) == 16 for value in params.values())
        assert isinstance(out, Tensor)
        return out

    assert torch.equal(at(1, 2), at(1, 2))
    for other in (at(2, 2), at(1, 3), at(1, 2, "other")):
        assert not torch.equal(at(1, 2), other)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("which", ["weak", "strong"])
def test_dtype_and_shape_stay_and_finish_gives_float32(shape: tuple[int, ...], which: str) -> None:
    views = views_of(shape)
    view = getattr(views, which)
    x = samples(8, shape)
    before = x.clone()
    out = view.apply(x, view.draw(generator(0, "test"), 8, shape))
    assert (out.dtype, out.shape) == (x.dtype, x.shape)
    assert torch.equal(x, before)
    assert not torch.equal(out, x)
    finished = views.finish(out)
    assert (finished.dtype, finished.shape) == (torch.float32, x.shape)


def test_finish_normalizes_like_numpy() -> None:
    mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    views = build_views(ViewsConfig(), image=True, shape=(3, 32, 32), mean=mean, std=std)
    x = samples(5, (3, 32, 32))
    expected = (x.numpy() / 255.0 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    np.testing.assert_allclose(views.finish(x).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_features_are_finished_as_they_are() -> None:
    x = samples(4, (64,))
    assert torch.equal(views_of((64,)).finish(x), x)


def test_the_strong_view_of_a_digit_is_changed_yet_recognizable() -> None:
    x = samples(200, (1, 8, 8))
    strong = views_of((1, 8, 8)).strong
    assert isinstance(strong, Light)
    view = replace(strong, crop=CropFlip(pad=0, flip=False))
    out = view.apply(x, view.draw(generator(0, "test"), 200, (1, 8, 8)))
    pair = torch.stack([x.flatten(1).float(), out.flatten(1).float()])
    pair = pair - pair.mean(2, keepdim=True)
    correlation = (pair[0] * pair[1]).sum(1) / (pair[0].norm(dim=1) * pair[1].norm(dim=1))
    assert 0.5 < correlation.median() < 0.99


@pytest.mark.parametrize(("shape", "pad", "flip", "cutout"), [((3, 32, 32), 4, True, 8), ((1, 8, 8), 1, False, 2)])
def test_auto_for_images(shape: tuple[int, ...], pad: int, flip: bool, cutout: int) -> None:
    views = views_of(shape)
    assert views.weak == CropFlip(pad=pad, flip=flip)
    assert isinstance(views.strong, Light)
    assert (views.strong.crop, views.strong.cutout) == (views.weak, cutout)


def test_auto_for_features() -> None:
    views = views_of((64,))
    assert isinstance(views.weak, FeatureDropout)
    assert isinstance(views.strong, FeatureDropout)
    assert (views.weak.dropout, views.weak.noise, views.weak.mix) == (0.1, 0, 0)
    assert (views.strong.dropout, views.strong.noise, views.strong.mix) == (0.4, 0.1, 0.2)


def test_explicit_choices() -> None:
    config = ViewsConfig(weak="none", strong="crop-flip", pad=2, pad_mode="reflect", flip=True)
    views = views_of((1, 28, 28), config)
    assert isinstance(views.weak, Identity)
    assert views.strong == CropFlip(pad=2, flip=True, pad_mode="reflect")


@pytest.mark.parametrize(
    ("config", "shape", "text"),
    [
        (
            ViewsConfig(weak="crop-flip"),
            (64,),
            "views.weak: crop-flip does not fit features; choose from: auto, none, dropout",
        ),
        (ViewsConfig(strong="dropout"), (3, 32, 32), "views.strong: dropout does not fit images"),
        (ViewsConfig(dropout_strong=1.0), (64,), r"views.dropout_strong must be in \[0, 1\), got 1.0"),
        (ViewsConfig(pad=-1), (3, 32, 32), "views.pad must not be negative, got -1"),
        (ViewsConfig(strength=float("nan")), (3, 32, 32), "views.strength"),
        (ViewsConfig(strength=float("inf")), (3, 32, 32), "views.strength must be at most 9, got inf"),
        (ViewsConfig(noise=float("inf")), (64,), "views.noise must be at most 1000, got inf"),
        (ViewsConfig(noise=1e300), (64,), r"views.noise must be at most 1000, got 1e\+300"),
        (
            ViewsConfig(pad=1_000_000),
            (3, 32, 32),
            "views.pad = 1000000 is too large for images of 32×32 .*; at most 32",
        ),
        (ViewsConfig(cutout=10**30), (3, 32, 32), "views.cutout = .* is too large for images of 32×32 .*; at most 64"),
        (ViewsConfig(strong="randaugment", operations=10**9), (3, 32, 32), "views.operations must be at most 100"),
        (ViewsConfig(mix=0.1), (63,), r"rows of shape \[63\] to mix with, got shape \[32, 64\]"),
        (ViewsConfig(mirror=True), (64,), "views.mirror .* but training shows none"),
        (ViewsConfig(mirror=True), (1, 8, 8), "views.mirror .* but training shows none"),
        (ViewsConfig(mirror=True, flip=False), (3, 8, 8), "views.mirror .* but training shows none"),
        (ViewsConfig(mirror=True, weak="none"), (3, 8, 8), "views.mirror .* but training shows none"),
        (ViewsConfig(pad=8, pad_mode="reflect"), (1, 8, 8), "smaller than the shorter side of 8×8 images"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(config: ViewsConfig, shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(UserError, match=text):
        views_of(shape, config)


def test_a_prediction_averages_over_the_image_and_with_mirror_its_mirror_image() -> None:
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 3, 8, 8), dtype=np.uint8))
    (only,) = views_of((3, 8, 8), ViewsConfig()).test_time_views
    plain, mirrored = views_of((3, 8, 8), ViewsConfig(mirror=True, size=6)).test_time_views
    scaled = (x.numpy() / 255 - 0.4) / 0.25
    np.testing.assert_allclose(only(x), scaled, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(plain(x), scaled[:, :, 1:7, 1:7], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mirrored(x), scaled[:, :, 1:7, 6:0:-1], rtol=1e-5, atol=1e-6)


def test_channels_must_match_their_statistics() -> None:
    with pytest.raises(UserError, match="3 channels"):
        build_views(ViewsConfig(), image=True, shape=(3, 32, 32), mean=(0.5,), std=(0.2,))
