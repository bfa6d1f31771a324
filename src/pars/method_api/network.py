"""A network as a method sees it: one joint forward over several views, and the averaged weights as a teacher."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from pars.errors import UserError
from pars.lazy import nn, torch

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


class Apply(Protocol):
    """How a function of rows [B, ...] is applied to them: here, or by several processes, a part of the rows each.

    The function returns a tensor, or several, with a value for each row.
    """

    def __call__(self, function: Callable[[Tensor], T], rows: Tensor, /) -> T: ...


apply_here: Apply = operator.call


class Network:
    """The weights being trained (`module`), their moving average (`average`), and a count of the work done.

    `forwards` and `backwards` count rows, so that the engine can turn them into FLOP.
    """

    def __init__(
        self,
        module: nn.Module,
        average: nn.Module,
        attached: nn.ModuleDict | None = None,
        apply: Apply = apply_here,
    ) -> None:
        self.module = module
        self.apply = apply
        self.average = average
        self.attached = nn.ModuleDict() if attached is None else attached  # what the method asked for beside it
        self.forwards = 0  # rows passed without a gradient
        self.backwards = 0  # rows passed forward and back

    def __call__(self, view: Tensor) -> Tensor:
        """Logits [B, K] of one view, in training mode."""
        return self.together(view)[0]

    def together(self, *views: Tensor) -> tuple[Tensor, ...]:
        """Logits of several views from one concatenated training-mode forward (BatchNorm sees them as one batch)."""
        joined = views[0] if len(views) == 1 else torch.cat(views)
        self.backwards += len(joined)
        logits: Tensor = self.apply(self.module, joined)
        return torch.split(logits, [len(view) for view in views])

    def with_features(self, *views: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Features [B, d] and logits [B, K] of several views from one concatenated training-mode forward."""
        joined = views[0] if len(views) == 1 else torch.cat(views)
        self.backwards += len(joined)
        sizes = [len(view) for view in views]

        def forward(rows: Tensor) -> tuple[Tensor, Tensor]:
            found = features_of(self.module, rows)
            return found, head_of(self.module)(found)

        features, logits = self.apply(forward, joined)
        return torch.split(features, sizes), torch.split(logits, sizes)

    def predict_features(self, view: Tensor) -> Tensor:
        """Features of the current weights, training mode, no gradient, running averages untouched."""
        self.forwards += len(view)
        with torch.no_grad(), batch_statistics(self.module):
            return self.apply(lambda rows: features_of(self.module, rows), view)

    def evaluate(self, view: Tensor) -> Tensor:
        """Logits of the current weights in evaluation mode, no gradient."""
        self.forwards += len(view)
        was_training = self.module.training
        self.module.eval()
        try:
            with torch.no_grad():
                logits: Tensor = self.apply(self.module, view)
                return logits
        finally:
            self.module.train(was_training)

    def predict(self, view: Tensor) -> Tensor:
        """Logits of the current weights, training mode, no gradient, running averages untouched."""
        self.forwards += len(view)
        with torch.no_grad(), batch_statistics(self.module):
            logits: Tensor = self.apply(self.module, view)
            return logits

    def teacher(self, view: Tensor) -> Tensor:
        """Logits of the averaged weights, without dropout, BatchNorm by the statistics of this batch.

        Averaged weights have activations of their own: the running statistics of the weights that are being trained
        do not fit them (docs/method.md has what that costs).
        """
        self.forwards += len(view)
        with torch.no_grad(), batch_statistics(self.average):
            logits: Tensor = self.apply(self.average, view)
            return logits


def features_of(module: nn.Module, view: Tensor) -> Tensor:
    """Features [B, d] of a network that has them, as those of pars.models do."""
    head_of(module)
    out: Tensor = module.features(view)  # type: ignore[operator]
    return out


def head_of(module: nn.Module) -> nn.Linear:
    """The last layer of a network that is `head(features(x))`."""
    head = getattr(module, "head", None)
    if not isinstance(head, nn.Linear) or not callable(getattr(module, "features", None)):
        raise UserError(
            f"{type(module).__name__} cannot be trained by this method: it needs a network with a method `features` "
            "and a linear layer `head`, whose logits are head(features(x)), as those of pars.models are"
        )
    return head


@contextmanager
def batch_statistics(module: nn.Module) -> Iterator[None]:
    """BatchNorm normalizes by its batch inside, whatever the mode, and does not move its running averages."""
    kind = nn.modules.batchnorm._BatchNorm
    norms = [m for m in module.modules() if isinstance(m, kind) and m.track_running_stats]
    modes = [norm.training for norm in norms]
    for norm in norms:
        # With track_running_stats off, a training-mode BatchNorm uses batch statistics and leaves its buffers alone.
        norm.track_running_stats, norm.training = False, True
    try:
        yield
    finally:
        for norm, mode in zip(norms, modes, strict=True):
            norm.track_running_stats, norm.training = True, mode
