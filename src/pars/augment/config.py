"""Which views, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pars.augment.autoaugment import AutoAugment, Policy
from pars.augment.cached import Cached
from pars.augment.crop import CenterCrop, CropFlip, PadMode
from pars.augment.cutout import Cutout
from pars.augment.dropout import FeatureDropout
from pars.augment.finish import AsFloat, Normalize
from pars.augment.geometry import LARGEST_SIDE
from pars.augment.light import Light
from pars.augment.randaugment import Flavor, RandAugment
from pars.augment.resized import ResizedCrop
from pars.augment.view import Crop, Identity, View, Views
from pars.errors import UserError

IMAGE_VIEWS = ("crop-flip", "resized-crop", "cutout", "light", "randaugment", "autoaugment")
FEATURE_VIEWS = ("dropout", "cached")
# Beyond, nothing of a row is left: at strength 10 an image may be scaled to nothing.
LARGEST = {"strength": 9, "noise": 1000, "operations": 100}

Weak = Literal["auto", "none", "crop-flip", "resized-crop", "dropout", "cached"]
Strong = Literal[
    "auto", "none", "crop-flip", "resized-crop", "cutout", "light", "randaugment", "autoaugment", "dropout", "cached"
]


@dataclass(frozen=True, kw_only=True)
class ViewsConfig:
    """The weak and the strong view."""

    weak: Weak = "auto"
    """auto: crop-flip for images, for features cached where the data has views (`pars encode`), else dropout."""
    strong: Strong = "auto"
    """auto: light for images, for features as above. The strong views of images begin with the weak one."""
    size: int | None = None
    """Images: side of the piece that the network sees; by default the whole image. Evaluated is the middle piece."""
    pad: int | None = None
    """Images: pixels of padding around the random crop; by default an eighth of the shorter side."""
    pad_mode: PadMode = "zero"
    """Images: what lies outside: black, or the image mirrored."""
    flip: bool | None = None
    """Images: mirror left-right; by default color images only, for a mirrored digit is no digit."""
    mirror: bool = False
    """Images that training mirrors: predict by the mean over an image and its mirror image, at twice the cost."""
    strength: float = 1.0
    """light: scales rotation, shear, scale, shift, color and cutout; 0 is the weak view."""
    cutout: int | None = None
    """Side of the square painted over, in pixels. By default: cutout and light, a quarter of the shorter side;
    randaugment, a half (uniform: at most a half; fixed: none)."""
    operations: int = 2
    """randaugment: operations done to an image; 2 for CIFAR, 4 for Clothing1M in the paper."""
    magnitude: int = 10
    """randaugment: fixmatch: levels are below it; fixed: the level itself; of 10."""
    flavor: Flavor = "fixmatch"
    """randaugment: how levels are drawn: fixmatch, uniform (TorchSSL, AugDesc) or fixed (RandAugment's own n, m)."""
    policy: Policy = "cifar10"
    """autoaugment: which learned policy."""
    dropout_weak: float = 0.1
    """dropout, cached: share of the features set to 0 in the weak view."""
    dropout_strong: float = 0.4
    """dropout, cached: share of the features set to 0 in the strong view."""
    noise: float = 0.0
    """dropout, cached, strong view only: Gaussian noise, in units of each feature's standard deviation."""
    mix: float = 0.0
    """dropout, cached, strong view only: greatest weight of another row mixed in."""


def build(
    config: ViewsConfig,
    *,
    image: bool,
    shape: tuple[int, ...],
    mean: Sequence[float],
    std: Sequence[float],
    bank: npt.NDArray[np.float32] | None = None,
    cached: int = 0,
) -> Views:
    """Return the views for samples of this shape.

    mean, std: images: per channel, in units of 0..1. Features: std per feature scales the noise; empty = plain noise.
    bank: features: some rows [m, d] to mix with; needed if `mix` is not 0.
    cached: features: how many views of each row are stored, half of them weak.

    >>> views = build(ViewsConfig(), image=True, shape=(1, 8, 8), mean=(0.3,), std=(0.4,))
    >>> views.weak
    CropFlip(pad=1, flip=False, pad_mode='zero', size=None)
    """
    _check(config, image, shape, mean, std, bank)
    if config.mirror and not (image and config.weak != "none" and flips(config, shape)):
        raise UserError(
            "views.mirror predicts by mirror images too, but training shows none: it is for color images, or where "
            "views.flip is true, and not where views.weak is none; --views.no-mirror switches it off"
        )
    if not image:
        check_cached(config, cached)
        feature_std = np.asarray(std, dtype=np.float32) if len(std) else None
        weak_dropout = FeatureDropout(dropout=config.dropout_weak, feature_std=feature_std)
        strong_dropout = FeatureDropout(
            dropout=config.dropout_strong, noise=config.noise, mix=config.mix, feature_std=feature_std, bank=bank
        )
        return Views(
            weak=_feature_view(config.weak, weak_dropout, 0, cached // 2),
            strong=_feature_view(config.strong, strong_dropout, cached // 2, cached // 2),
            finish=AsFloat(),
        )
    return Views(
        weak=_weak(config, config.weak, shape),
        strong=_strong(config, shape, tuple(mean)),
        finish=Normalize(tuple(mean), tuple(std)),
        center=Identity() if config.size is None else CenterCrop(config.size),
        mirror=config.mirror,
    )


def _feature_view(name: str, dropout: FeatureDropout, first: int, count: int) -> View:
    if name == "none":
        return Identity()
    return Cached(first, count, dropout) if name == "cached" or (name == "auto" and count) else dropout


def check_cached(config: ViewsConfig, cached: int) -> None:
    for key, name in (("weak", config.weak), ("strong", config.strong)):
        if name == "cached" and not cached:
            raise UserError(
                f"views.{key} is cached, but the data has no views stored with it; `pars encode --views N` makes them"
            )


def flips(config: ViewsConfig, shape: tuple[int, ...]) -> bool:
    """Whether crops of images of this shape are mirrored at random."""
    return shape[0] > 1 if config.flip is None else config.flip


def _weak(config: ViewsConfig, name: str, shape: tuple[int, ...]) -> Crop:
    flip = flips(config, shape)
    if name == "none":
        return Identity() if config.size is None else CenterCrop(config.size)
    if name == "resized-crop":
        return ResizedCrop(size=config.size or min(shape[1:]), flip=flip)
    # A piece smaller than the image has places enough without padding.
    pad = (min(shape[1:]) // 8 if config.size is None else 0) if config.pad is None else config.pad
    return CropFlip(pad=pad, flip=flip, pad_mode=config.pad_mode, size=config.size)


def _strong(config: ViewsConfig, shape: tuple[int, ...], mean: tuple[float, ...]) -> View:
    side = config.size or min(shape[1:])
    base = _weak(config, config.weak, shape)
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
            return _weak(config, name, shape)


def _check(
    config: ViewsConfig,
    image: bool,
    shape: tuple[int, ...],
    mean: Sequence[float],
    std: Sequence[float],
    bank: npt.NDArray[np.float32] | None,
) -> None:
    for key, name in (("weak", config.weak), ("strong", config.strong)):
        if name in (FEATURE_VIEWS if image else IMAGE_VIEWS):
            kind, right = ("images", IMAGE_VIEWS) if image else ("features", FEATURE_VIEWS)
            raise UserError(f"views.{key}: {name} does not fit {kind}; auto, none or {', '.join(right)} would")
    for key in ("dropout_weak", "dropout_strong"):
        if not 0 <= getattr(config, key) < 1:
            raise UserError(f"views.{key} must be in [0, 1), got {getattr(config, key)}")
    for key in ("pad", "cutout", "strength", "noise"):
        value = getattr(config, key)
        if value is not None and not value >= 0:
            raise UserError(f"views.{key} must not be negative, got {value}")
    for key, most in LARGEST.items():
        if getattr(config, key) > most:
            raise UserError(f"views.{key} must be at most {most}, got {getattr(config, key)}")
    if not 0 <= config.mix <= 1:
        raise UserError(f"views.mix must be in [0, 1], got {config.mix}")
    if not image:
        if len(std) not in (0, *shape[:1]):
            raise UserError(f"std has {len(std)} values for features of shape {list(shape)}")
        if config.mix > 0 and (bank is None or bank.shape[1:] != shape or not len(bank)):
            got = "none" if bank is None else f"shape {list(bank.shape)}"
            raise UserError(
                f"views.mix = {config.mix} needs a bank of rows of shape {list(shape)} to mix with, got {got}"
            )
        return
    if len(shape) != 3 or 0 in shape:
        raise UserError(f"an image has shape [C, H, W], none of them 0, got {list(shape)}")
    if config.strong in ("randaugment", "autoaugment"):
        if shape[0] not in (1, 3):
            raise UserError(
                f"views.strong: {config.strong} knows gray images and those of three colors, these have {shape[0]} "
                "channels; light would do"
            )
        if max(shape[1:]) > LARGEST_SIDE:
            raise UserError(
                f"views.strong: {config.strong} moves images of up to {LARGEST_SIDE} pixels a side, these have "
                f"{shape[1]}×{shape[2]}; light would do, or smaller images"
            )
    if len(mean) != shape[0] or len(std) != shape[0] or not all(s > 0 for s in std):
        raise UserError(f"{shape[0]} channels need as many means and positive stds, got {list(mean)} and {list(std)}")
    if config.size is not None and not 1 <= config.size <= min(shape[1:]):
        raise UserError(f"views.size = {config.size} does not fit images of {shape[1]}×{shape[2]} pixels")
    for key, most in (("pad", min(shape[1:])), ("cutout", 2 * max(shape[1:]))):
        if (getattr(config, key) or 0) > most:
            raise UserError(
                f"views.{key} = {getattr(config, key)} is more than images of {shape[1]}×{shape[2]} pixels can show; "
                f"at most {most}"
            )
    if config.operations < 1:
        raise UserError(f"views.operations must be at least 1, got {config.operations}")
    lowest = 2 if config.flavor == "fixmatch" else 0
    if not lowest <= config.magnitude <= 10:
        raise UserError(f"views.magnitude must be in {lowest}..10 for {config.flavor}, got {config.magnitude}")
    if config.pad_mode == "reflect" and config.pad is not None and config.pad >= min(shape[1:]):
        raise UserError(f"views.pad = {config.pad} mirrors more than an image of {shape[1]}×{shape[2]} pixels has")
