"""What a view is: parameters drawn on the CPU for the whole global batch, applied to any part of it on any device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Params = dict[str, "Tensor"]  # each [n, ...], on the CPU when drawn; row i belongs to sample i
PICK = "pick"
"""The parameter that says which of a row's stored views to begin with (augment/cached.py)."""


class View(Protocol):
    """A random change of a batch that leaves the class of each row alone.

    `draw` reads nothing but the generator and one sample's shape; `apply` treats every row by itself. So cutting both
    the batch and its parameters into parts gives the same pixels as applying them at once.
    """

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        """Return the parameters of n samples of this shape."""
        ...

    def apply(self, x: Tensor, params: Params) -> Tensor:
        """Change each row by its parameters: uint8 images to uint8 images, float32 features to float32 features."""
        ...


class Crop(View, Protocol):
    """A view that other views can begin with: it says what shape it leaves them."""

    def shape_after(self, shape: tuple[int, ...]) -> tuple[int, ...]: ...


class Finish(Protocol):
    """Turns stored or changed samples into what a network reads."""

    def __call__(self, x: Tensor) -> Tensor: ...


class Identity:
    """The view that changes nothing."""

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        return {}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        return x

    def shape_after(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


TestTimeView = Callable[["Tensor"], "Tensor"]
"""Turns stored samples into network inputs at prediction time."""


@dataclass(frozen=True, eq=False)
class Views:
    """The weak and the strong view of one kind of data, and the last step before the network.

    Training reads `finish(weak.apply(x, params))`, evaluation `plain(x)`, and
    prediction averages over all `test_time_views` (test-time augmentation).
    """

    weak: View
    strong: View
    finish: Finish
    center: View = field(default_factory=Identity)  # without parameters: what of a sample is evaluated
    mirror: bool = False  # a prediction is the mean over an image and its mirror image

    def plain(self, x: Tensor) -> Tensor:
        """What the network reads when it is asked, not trained."""
        return self.finish(self.center.apply(x, {}))

    def mirrored(self, x: Tensor) -> Tensor:
        """The same of images [n, C, H, W], left and right exchanged."""
        return self.plain(x).flip(3)

    @property
    def test_time_views(self) -> tuple[TestTimeView, ...]:
        """Test-time augmentation: the prediction is the mean over these views of a sample."""
        return (self.plain, self.mirrored) if self.mirror else (self.plain,)


def rows(params: Params, start: int, stop: int) -> Params:
    """The parameters of samples start..stop-1, for the process or micro-batch that holds them."""
    return {name: value[start:stop] for name, value in params.items()}


def to_device(params: Params, like: Tensor) -> Params:
    """The parameters where the samples are; nothing happens where they already are."""
    return {name: value.to(like.device, non_blocking=True) for name, value in params.items()}


LARGE = 112 * 112  # pixels
"""From this size on, and on a CPU, pictures are changed one by one: a batch of them does not fit the caches, so that
every operation would fetch it from memory anew, and whole lines are copied where small ones have pixels gathered."""


def one_by_one(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.shape[2] * x.shape[3] >= LARGE
