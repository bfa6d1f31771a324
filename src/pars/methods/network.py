"""A network as a method sees it: one joint forward over several views, and the averaged weights as a teacher."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class Network:
    """The weights being trained (`module`), their moving average (`average`), and a count of the work done.

    `forwards` and `backwards` count rows, so that the engine can turn them into FLOP.
    """

    def __init__(self, module: nn.Module, average: nn.Module) -> None:
        self.module = module
        self.average = average
        self.forwards = 0  # rows passed without a gradient
        self.backwards = 0  # rows passed forward and back

    def __call__(self, view: Tensor) -> Tensor:
        """Logits [B, K] of one view, in training mode."""
        return self.together(view)[0]

    def together(self, *views: Tensor) -> tuple[Tensor, ...]:
        """Logits of several views from one concatenated training-mode forward (BatchNorm sees them as one batch)."""
        joined = views[0] if len(views) == 1 else torch.cat(views)
        self.backwards += len(joined)
        logits: Tensor = self.module(joined)
        return torch.split(logits, [len(view) for view in views])

    @torch.no_grad()
    def predict(self, view: Tensor) -> Tensor:
        """Logits of the current weights, training mode, no gradient, running averages untouched."""
        self.forwards += len(view)
        with frozen_statistics(self.module):
            logits: Tensor = self.module(view)
        return logits

    @torch.no_grad()
    def teacher(self, view: Tensor) -> Tensor:
        """Logits of the averaged weights in evaluation mode."""
        self.forwards += len(view)
        logits: Tensor = self.average(view)
        return logits


@contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """BatchNorm still normalises by its batch inside, but does not move its running averages."""
    norms = [m for m in module.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    for norm in norms:
        norm.track_running_stats = False
    # With track_running_stats off, a training-mode BatchNorm uses batch statistics and leaves its buffers alone.
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True
