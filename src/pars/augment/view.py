"""The interface of a view, and the steps from samples to network inputs.

A view is a random augmentation in two steps: `draw` makes the parameters of a whole batch on the CPU, `apply` uses
them on any part of the batch, on any device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pars.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

Params = dict[str, "Tensor"]
"""Parameters of a view by name, each [n, ...] and drawn on the CPU; row i belongs to sample i."""
TestTimeView = Callable[["Tensor"], "Tensor"]
"""Turns stored samples into network inputs at prediction time."""

_LARGE = 112 * 112  # pixels


class View(Protocol):
    """A random augmentation that does not change the class of a sample.

    `draw` depends on the generator and the shape of one sample only; `apply` treats every sample by itself. So a batch
    may be split, together with its parameters, without changing a pixel.
    """

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        """Return the parameters of n samples of this shape."""
        ...

    def apply(self, x: Tensor, params: Params) -> Tensor:
        """Return the augmented batch: uint8 images for uint8 images, float32 features for float32 features."""
        ...


class Crop(View, Protocol):
    """A view that strong views can start from: they need to know the shape of its output."""

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one output for an input of this shape."""
        ...


class Finish(Protocol):
    """Turns stored or augmented samples into network inputs."""

    def __call__(self, x: Tensor) -> Tensor: ...


class Identity:
    """The view that returns its input."""

    def draw(self, rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Params:
        return {}

    def apply(self, x: Tensor, params: Params) -> Tensor:
        return x

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


@dataclass(frozen=True)
class Normalize:
    """uint8 images to float32, (x/255 - mean) / std per channel. The network chooses the memory format.

    Shapes: [n, C, H, W] -> [n, C, H, W].

    >>> Normalize(mean=(0.5,), std=(0.25,))(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
    tensor([[[[-2.,  2.]]]])
    """

    mean: tuple[float, ...]  # per channel, for pixels in 0..1
    std: tuple[float, ...]

    def __call__(self, x: Tensor) -> Tensor:
        scale = torch.tensor([1 / (255 * s) for s in self.std], device=x.device)[:, None, None]
        shift = torch.tensor([-m / s for m, s in zip(self.mean, self.std, strict=True)], device=x.device)[:, None, None]
        out = torch.empty(x.shape, device=x.device)
        for part, pixels in zip(out, x, strict=True) if loop_over_images(x) else ((out, x),):
            part.copy_(pixels).mul_(scale).add_(shift)
        return out


@dataclass(frozen=True)
class AsFloat:
    """Feature vectors to float32. They are normalized before training (`data.standardize`)."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.to(torch.float32)


@dataclass(frozen=True, eq=False)
class Views:
    """The weak and the strong view of one kind of data, and the last step before the network.

    Training reads `finish(weak.apply(x, params))`, evaluation `plain(x)`, and
    prediction averages over all `test_time_views` (test-time augmentation).
    """

    weak: View
    strong: View
    finish: Finish
    center: View = field(default_factory=Identity)  # the part of a sample that is evaluated; has no parameters
    mirror: bool = False  # predictions average over an image and its mirror image

    def plain(self, x: Tensor) -> Tensor:
        """Return the network inputs of samples without augmentation."""
        return self.finish(self.center.apply(x, {}))

    def mirrored(self, x: Tensor) -> Tensor:
        """Return the network inputs of images [n, C, H, W], flipped left-right."""
        return self.plain(x).flip(3)

    @property
    def test_time_views(self) -> tuple[TestTimeView, ...]:
        """The views of a sample over which a prediction is averaged."""
        return (self.plain, self.mirrored) if self.mirror else (self.plain,)


def slice_params(params: Params, start: int, stop: int) -> Params:
    """Return the parameters of samples start..stop-1, for the process or micro-batch that holds them."""
    return {name: value[start:stop] for name, value in params.items()}


def to_device(params: Params, like: Tensor) -> Params:
    """Return the parameters on the device of a tensor."""
    return {name: value.to(like.device, non_blocking=True) for name, value in params.items()}


def loop_over_images(x: Tensor) -> bool:
    """Whether to process a batch [n, C, H, W] image by image, which is faster for large images on a CPU.

    A batch of them does not fit into the caches, so every batched operation would read it from memory again. Large
    images also have rows long enough to copy as a whole, where small ones have single pixels gathered.
    """
    return x.device.type == "cpu" and x.shape[2] * x.shape[3] >= _LARGE
