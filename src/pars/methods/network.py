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
        with batch_statistics(self.module):
            logits: Tensor = self.module(view)
        return logits

    @torch.no_grad()
    def teacher(self, view: Tensor) -> Tensor:
        """Logits of the averaged weights, without dropout, BatchNorm by the statistics of this batch.

        Averaged weights have activations of their own: the running statistics of the weights that are being trained
        do not fit them (docs/method.md has what that costs).
        """
        self.forwards += len(view)
        with batch_statistics(self.average):
            logits: Tensor = self.average(view)
        return logits


@contextmanager
def batch_statistics(module: nn.Module) -> Iterator[None]:
    """BatchNorm normalises by its batch inside, whatever the mode, and does not move its running averages."""
    norms = [m for m in module.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    modes = [norm.training for norm in norms]
    for norm in norms:
        # With track_running_stats off, a training-mode BatchNorm uses batch statistics and leaves its buffers alone.
        norm.track_running_stats, norm.training = False, True
    try:
        yield
    finally:
        for norm, mode in zip(norms, modes, strict=True):
            norm.track_running_stats, norm.training = True, mode
