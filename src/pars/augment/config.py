"""The choice of views by name: `ViewsConfig`, what it builds, and what a view did to one image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pars import seeds
from pars.augment.crop import CenterCrop, CropFlip, Cutout, PadMode, ResizedCrop
from pars.augment.features import CachedView, FeatureDropout
from pars.augment.light import Light
from pars.augment.operations import OPERATIONS
from pars.augment.pillow_ops import LARGEST_SIDE
from pars.augment.policies import AutoAugment, Flavor, Policy, RandAugment
from pars.augment.tokens import TokenDropout
from pars.augment.view import AsFloat, Crop, Identity, Normalize, Params, View, Views
from pars.errors import UserError
from pars.lazy import torch

Weak = Literal["auto", "none", "crop-flip", "resized-crop", "dropout", "cached"]
Strong = Literal[
    "auto", "none", "crop-flip", "resized-crop", "cutout", "light", "randaugment", "autoaugment", "dropout", "cached"
]

_IMAGE_VIEWS = ("crop-flip", "resized-crop", "cutout", "light", "randaugment", "autoaugment")
_FEATURE_VIEWS = ("dropout", "cached")
# Larger values destroy the row: at strength 10 an image may be scaled to nothing.
_LARGEST = {"strength": 9, "noise": 1000, "operations": 100}
_WITHOUT_AMOUNT = ("autocontrast", "equalize", "invert")


@dataclass(frozen=True, kw_only=True)
class ViewsConfig:
    """The weak and the strong view."""

    weak: Weak = "auto"
    """auto: crop-flip for images; dropout for texts that a network reads; for features cached if the data has cached
    views (`pars encode`), else dropout."""
    strong: Strong = "auto"
    """auto: light for images; for features as above. The strong views of images start from the weak one."""
    size: int | None = None
    """Images: side of the crop that the network sees; by default the whole image. Evaluation uses the central crop."""
    pad: int | None = None
    """Images: pixels of padding around the random crop; by default an eighth of the shorter side."""
    pad_mode: PadMode = "zero"
    """Images: padding with zeros (black) or by reflection."""
    flip: bool | None = None
    """Images: random left-right flips; by default for color images only, because a flipped digit is not a digit."""
    mirror: bool = False
    """Images trained with flips: average predictions over an image and its mirror image, at twice the cost."""
    strength: float = 1.0
    """light: scales rotation, shear, scale, shift, color and cutout; 0 is the weak view."""
    cutout: int | None = None
    """Side of the cutout square in pixels. By default a quarter of the shorter side (cutout, light) or a half
    (randaugment; uniform: at most a half; fixed: none)."""
    operations: int = 2
    """randaugment: operations per image; the paper uses 2 for CIFAR and 4 for Clothing1M."""
    magnitude: int = 10
    """randaugment, out of 10: fixmatch: levels are below it; fixed: the level itself."""
    flavor: Flavor = "fixmatch"
    """randaugment: how levels are drawn: fixmatch, uniform (TorchSSL, AugDesc) or fixed (the RandAugment paper)."""
    policy: Policy = "cifar10"
    """autoaugment: the learned policy."""
    dropout_weak: float = 0.1
    """dropout, cached: fraction of the features set to 0, or of a text's tokens left out, in the weak view."""
    dropout_strong: float = 0.4
    """dropout, cached: fraction of the features set to 0, or of a text's tokens left out, in the strong view."""
    noise: float = 0.0
    """dropout, cached, strong view only: Gaussian noise, in units of each feature's standard deviation."""
    mix: float = 0.0
    """dropout, cached, strong view only: largest weight of another row mixed in."""


def build_views(
    config: ViewsConfig,
    *,
    image: bool,
    shape: tuple[int, ...],
    mean: Sequence[float],
    std: Sequence[float],
    bank: npt.NDArray[np.float32] | None = None,
    cached: int = 0,
    text: bool = False,
) -> Views:
    """Return the views for samples of this shape; a UserError if the configuration does not fit them.

    image: True for images [C, H, W], False for features [d]. text: True for token numbers [T].
    mean, std: images: per channel, for pixels in 0..1. Features: std [d] scales the noise; empty: noise is not scaled.
    bank: features: rows [m, d] to mix with; needed if `mix` is not 0.
    cached: features: number of cached views of each row, the first half of them weak.

    >>> views = build_views(ViewsConfig(), image=True, shape=(1, 8, 8), mean=(0.3,), std=(0.4,))
    >>> views.weak
    CropFlip(pad=1, flip=False, pad_mode='zero', size=None)
    """
    _check_config(config, image)
    if text:
        return _text_views(config)
    if image:
        _check_images(config, shape, mean, std)
    if config.mirror and not (image and config.weak != "none" and _flips(config, shape)):
        raise UserError(
            "views.mirror averages predictions over mirror images, but training shows none: it needs color images or "
            "views.flip = true, and a views.weak other than none; --views.no-mirror switches it off"
        )
    if image:
        return Views(
            weak=_crop(config, config.weak, shape),
            strong=_strong_view(config, shape, tuple(mean)),
            finish=Normalize(tuple(mean), tuple(std)),
            center=Identity() if config.size is None else CenterCrop(config.size),
            mirror=config.mirror,
        )
    return _feature_views(config, shape, std, bank, cached)


def _text_views(config: ViewsConfig) -> Views:
    for key in ("noise", "mix"):
        if getattr(config, key):
            raise UserError(
                f"views.{key} is {getattr(config, key)}, but tokens of a text are not numbers to compute with"
            )
    views: list[View] = []
    for key, name, dropout in (
        ("weak", config.weak, config.dropout_weak),
        ("strong", config.strong, config.dropout_strong),
    ):
        if name == "cached":
            raise UserError(
                f"views.{key}: cached does not fit a network that reads texts; choose auto, none or dropout"
            )
        views.append(Identity() if name == "none" else TokenDropout(dropout))
    return Views(weak=views[0], strong=views[1], finish=AsFloat())


def _feature_views(
    config: ViewsConfig,
    shape: tuple[int, ...],
    std: Sequence[float],
    bank: npt.NDArray[np.float32] | None,
    cached: int,
) -> Views:
    if len(std) not in (0, *shape[:1]):
        raise UserError(f"std has {len(std)} values for features of shape {list(shape)}")
    if config.mix > 0 and (bank is None or bank.shape[1:] != shape or not len(bank)):
        got = "none" if bank is None else f"shape {list(bank.shape)}"
        raise UserError(f"views.mix = {config.mix} needs a bank of rows of shape {list(shape)} to mix with, got {got}")
    for key, name in (("weak", config.weak), ("strong", config.strong)):
        if name == "cached" and not cached:
            raise UserError(
                f"views.{key} is cached, but the data has no cached views; `pars encode --views N` makes them"
            )
    feature_std = np.asarray(std, dtype=np.float32) if len(std) else None
    weak = FeatureDropout(dropout=config.dropout_weak, feature_std=feature_std)
    strong = FeatureDropout(
        dropout=config.dropout_strong, noise=config.noise, mix=config.mix, feature_std=feature_std, bank=bank
    )
    half = cached // 2
    views: list[View] = []
    for name, dropout, first in ((config.weak, weak, 0), (config.strong, strong, half)):
        if name == "none":
            views.append(Identity())
        else:
            views.append(CachedView(first, half, dropout) if name == "cached" or (name == "auto" and half) else dropout)
    return Views(weak=views[0], strong=views[1], finish=AsFloat())


def _flips(config: ViewsConfig, shape: tuple[int, ...]) -> bool:
    """Whether images of this shape are flipped at random."""
    return shape[0] > 1 if config.flip is None else config.flip


def _crop(config: ViewsConfig, name: str, shape: tuple[int, ...]) -> Crop:
    flip = _flips(config, shape)
    if name == "none":
        return Identity() if config.size is None else CenterCrop(config.size)
    if name == "resized-crop":
        return ResizedCrop(size=config.size or min(shape[1:]), flip=flip)
    # A crop smaller than the image has enough positions without padding.
    pad = (min(shape[1:]) // 8 if config.size is None else 0) if config.pad is None else config.pad
    return CropFlip(pad=pad, flip=flip, pad_mode=config.pad_mode, size=config.size)


def _strong_view(config: ViewsConfig, shape: tuple[int, ...], mean: tuple[float, ...]) -> View:
    side = config.size or min(shape[1:])
    base = _crop(config, config.weak, shape)
    match config.strong:
        case "cutout":
            return Cutout(crop=base, mean=mean, side=side // 4 if config.cutout is None else config.cutout)
        case "auto" | "light":
            cutout = side // 4 if config.cutout is None else config.cutout
            return Light(crop=base, mean=mean, strength=config.strength, cutout=cutout, pad_mode=config.pad_mode)
        case "randaugment":
            cutout = (0 if config.flavor == "fixed" else side // 2) if config.cutout is None else config.cutout
            return RandAugment(
                crop=base, n=config.operations, magnitude=config.magnitude, flavor=config.flavor, cutout=cutout
            )
        case "autoaugment":
            return AutoAugment(crop=base, policy=config.policy)
        case name:
            return _crop(config, name, shape)


def _check_config(config: ViewsConfig, image: bool) -> None:
    for key, name in (("weak", config.weak), ("strong", config.strong)):
        if name in (_FEATURE_VIEWS if image else _IMAGE_VIEWS):
            kind, fitting = ("images", _IMAGE_VIEWS) if image else ("features", _FEATURE_VIEWS)
            raise UserError(f"views.{key}: {name} does not fit {kind}; choose from: auto, none, {', '.join(fitting)}")
    for key in ("dropout_weak", "dropout_strong"):
        if not 0 <= getattr(config, key) < 1:
            raise UserError(f"views.{key} must be in [0, 1), got {getattr(config, key)}")
    for key in ("pad", "cutout", "strength", "noise"):
        value = getattr(config, key)
        if value is not None and not value >= 0:
            raise UserError(f"views.{key} must not be negative, got {value}")
    for key, most in _LARGEST.items():
        if getattr(config, key) > most:
            raise UserError(f"views.{key} must be at most {most}, got {getattr(config, key)}")
    if not 0 <= config.mix <= 1:
        raise UserError(f"views.mix must be in [0, 1], got {config.mix}")


def _check_images(config: ViewsConfig, shape: tuple[int, ...], mean: Sequence[float], std: Sequence[float]) -> None:
    if len(shape) != 3 or 0 in shape:
        raise UserError(f"an image must have shape [C, H, W] without zeros, got {list(shape)}")
    size = f"{shape[1]}×{shape[2]}"
    if config.strong in ("randaugment", "autoaugment"):
        if shape[0] not in (1, 3):
            raise UserError(
                f"views.strong: {config.strong} needs images of 1 or 3 channels, these have {shape[0]}; use light"
            )
        if max(shape[1:]) > LARGEST_SIDE:
            raise UserError(
                f"views.strong: {config.strong} needs images of at most {LARGEST_SIDE} pixels per side, these have "
                f"{size}; use light, or smaller images"
            )
    if len(mean) != shape[0] or len(std) != shape[0] or not all(s > 0 for s in std):
        raise UserError(
            f"{shape[0]} channels need one mean and one positive std each, got {list(mean)} and {list(std)}"
        )
    if config.size is not None and not 1 <= config.size <= min(shape[1:]):
        raise UserError(f"views.size = {config.size} does not fit images of {size} pixels")
    for key, most in (("pad", min(shape[1:])), ("cutout", 2 * max(shape[1:]))):
        if (getattr(config, key) or 0) > most:
            raise UserError(
                f"views.{key} = {getattr(config, key)} is too large for images of {size} pixels; at most {most}"
            )
    if config.operations < 1:
        raise UserError(f"views.operations must be at least 1, got {config.operations}")
    lowest = 2 if config.flavor == "fixmatch" else 0
    if not lowest <= config.magnitude <= 10:
        raise UserError(f"views.magnitude must be in {lowest}..10 for {config.flavor}, got {config.magnitude}")
    if config.pad_mode == "reflect" and config.pad is not None and config.pad >= min(shape[1:]):
        raise UserError(
            f"views.pad = {config.pad} with pad_mode reflect must be smaller than the shorter side of {size} images"
        )


def example_views(
    config: ViewsConfig, images: npt.NDArray[np.uint8], *, copies: int, seed: int
) -> list[tuple[str, npt.NDArray[np.uint8], list[list[str]]]]:
    """Weak, then strong views of some images [n, C, H, W], for people: a name, the pixels, a caption of each image."""
    channels = images.shape[1]
    views = build_views(
        config, image=True, shape=tuple(images.shape[1:]), mean=(0.5,) * channels, std=(0.25,) * channels
    )
    x, found = torch.from_numpy(np.array(images, order="C")), []
    for name, view in (("weak", views.weak), ("strong", views.strong)):
        for copy in range(copies):
            params = view.draw(seeds.generator(seed, f"preview/{name}/{copy}"), len(x), tuple(x.shape[1:]))
            captions = [caption(params, row) for row in range(len(x))]
            found.append((f"{name} {copy + 1}", view.apply(x, params).numpy(), captions))
    return found


def caption(params: Params, row: int) -> list[str]:
    """Describe what a view did to one image: one line per change, in order.

    params: from `draw`. row: position of the image in the batch.

    >>> from pars.augment.operations import operation_params
    >>> caption(operation_params(np.array([[7, 5]]), np.array([[-12.0, 0.0]]), (3, 8, 8)), 0)
    ['rotate -12']
    """
    lines = []
    if "crop" in params:
        lines.append("crop at {}, {}".format(*params["crop"][row].tolist()))
    if "box" in params:
        top, left, bottom, right = params["box"][row].tolist()
        lines.append(f"box {bottom - top}×{right - left} at {top}, {left}")
    if "flip" in params and params["flip"][row]:
        lines.append("flip")
    if "affine" in params:
        lines.append("affine, color")
    if "op" in params:
        drawn = zip(params["op"][row].tolist(), params["amount"][row].tolist(), strict=True)
        lines += [_describe_operation(OPERATIONS[op], amount) for op, amount in drawn if OPERATIONS[op] != "identity"]
    if "cutout" in params:
        top, _, bottom, _ = params["cutout"][row].tolist()
        lines += [f"cutout {bottom - top}"] if bottom > top else []
    return lines


def _describe_operation(name: str, amount: float) -> str:
    return name if name in _WITHOUT_AMOUNT else f"{name} {amount:.3g}"
