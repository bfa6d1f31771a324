"""Which views, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
import numpy.typing as npt

from pars.augment.crop import CropFlip, PadMode
from pars.augment.dropout import FeatureDropout
from pars.augment.finish import AsFloat, Normalise
from pars.augment.light import Light
from pars.augment.view import Identity, View, Views
from pars.errors import UserError

IMAGE_VIEWS = ("crop-flip", "light")
FEATURE_VIEWS = ("dropout",)

Name = Literal["none", "crop-flip", "light", "dropout"]


@dataclass(frozen=True, kw_only=True)
class ViewsConfig:
    """The weak and the strong view."""

    weak: Literal["auto", "none", "crop-flip", "dropout"] = "auto"
    """auto: crop-flip for images, dropout for features."""
    strong: Literal["auto", "none", "crop-flip", "light", "dropout"] = "auto"
    """auto: light for images, dropout for features."""
    pad: int | None = None
    """Images: pixels of padding around the random crop; by default an eighth of the shorter side."""
    pad_mode: PadMode = "zero"
    """Images: what lies outside: black, or the image mirrored."""
    flip: bool | None = None
    """Images: mirror left-right; by default colour images only, for a mirrored digit is no digit."""
    strength: float = 1.0
    """light: scales rotation, shear, scale, shift, colour and cutout; 0 is the weak view."""
    cutout: int | None = None
    """light: side of the square painted over, in pixels; by default a quarter of the shorter side."""
    dropout_weak: float = 0.1
    """dropout: share of the features set to 0 in the weak view."""
    dropout_strong: float = 0.4
    """dropout: share of the features set to 0 in the strong view."""
    noise: float = 0.0
    """dropout, strong view only: Gaussian noise, in units of each feature's standard deviation."""
    mix: float = 0.0
    """dropout, strong view only: greatest weight of another row mixed in."""


def build(
    config: ViewsConfig,
    *,
    image: bool,
    shape: tuple[int, ...],
    mean: Sequence[float],
    std: Sequence[float],
    bank: npt.NDArray[np.float32] | None = None,
) -> Views:
    """Return the views for samples of this shape.

    mean, std: images: per channel, in units of 0..1. Features: std per feature scales the noise; empty = plain noise.
    bank: features: some rows [m, d] to mix with; needed if `mix` is not 0.

    >>> views = build(ViewsConfig(), image=True, shape=(1, 8, 8), mean=(0.3,), std=(0.4,))
    >>> views.weak
    CropFlip(pad=1, flip=False, pad_mode='zero')
    """
    _check(config, image, shape, mean, std, bank)
    finish = Normalise(tuple(mean), tuple(std)) if image else AsFloat()

    def view(name: Name, dropout: float, noise: float = 0.0, mix: float = 0.0) -> View:
        match name:
            case "none":
                return Identity()
            case "crop-flip":
                return _crop_flip(config, shape)
            case "light":
                cutout = min(shape[1:]) // 4 if config.cutout is None else config.cutout
                return Light(crop=_crop_flip(config, shape), mean=tuple(mean), strength=config.strength, cutout=cutout)
            case "dropout":
                feature_std = np.asarray(std, dtype=np.float32) if len(std) else None
                return FeatureDropout(dropout=dropout, noise=noise, mix=mix, feature_std=feature_std, bank=bank)
            case _:
                assert_never(name)

    weak: Name = config.weak if config.weak != "auto" else "crop-flip" if image else "dropout"
    strong: Name = config.strong if config.strong != "auto" else "light" if image else "dropout"
    return Views(
        weak=view(weak, config.dropout_weak),
        strong=view(strong, config.dropout_strong, config.noise, config.mix),
        finish=finish,
    )


def _crop_flip(config: ViewsConfig, shape: tuple[int, ...]) -> CropFlip:
    pad = min(shape[1:]) // 8 if config.pad is None else config.pad
    flip = shape[0] > 1 if config.flip is None else config.flip
    return CropFlip(pad=pad, flip=flip, pad_mode=config.pad_mode)


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
    if len(shape) != 3:
        raise UserError(f"an image has shape [C, H, W], got {list(shape)}")
    if len(mean) != shape[0] or len(std) != shape[0] or not all(s > 0 for s in std):
        raise UserError(f"{shape[0]} channels need as many means and positive stds, got {list(mean)} and {list(std)}")
    if config.pad_mode == "reflect" and config.pad is not None and config.pad >= min(shape[1:]):
        raise UserError(f"views.pad = {config.pad} mirrors more than an image of {shape[1]}×{shape[2]} pixels has")
