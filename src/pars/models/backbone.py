"""The interface of a network: features, and a linear head on top of them."""

from __future__ import annotations

from torch import Tensor, nn

from pars.errors import UserError


class Backbone(nn.Module):
    """`forward(x) = head(features(x))`; a subclass sets `head` and writes `features`.

    Shapes: x [B, *input_shape] -> features [B, d] -> logits [B, K]; K is `head.out_features`.
    Nearest-neighbor votes, prototypes and exports use `features`.
    """

    head: nn.Linear

    def features(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def fit_statistics(self, inputs: Tensor) -> None:
        """Set buffers that are measured, not trained, from training inputs [n, *input_shape] as `forward` gets them.

        A run calls this before training, on the networks that it builds; by default it does nothing. The buffers must
        be in `state_dict`, so that a run is loaded without its data, and must survive `reset_parameters` of the layers,
        because a method may start again with fresh weights.
        """

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


def image_shape(name: str, input_shape: tuple[int, ...], smallest: int) -> tuple[int, int, int]:
    """Return (C, H, W); a UserError if a convolutional network cannot read such inputs."""
    if len(input_shape) != 3:
        raise UserError(f"model {name} needs images [C, H, W], but an input has shape {list(input_shape)}; use mlp")
    channels, height, width = input_shape
    if min(height, width) < smallest:
        raise UserError(
            f"model {name} needs images of at least {smallest}×{smallest} pixels, got {height}×{width}; use mlp instead"
        )
    return channels, height, width
