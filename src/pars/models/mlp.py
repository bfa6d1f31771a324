"""Networks for feature vectors, table rows and flattened small images."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor, nn

from pars.models.backbone import Backbone
from pars.models.onednn import OneDNNLinear


class MLP(Backbone):
    """Linear-(BN)-ReLU-(dropout) for each hidden size, then linear. Without hidden sizes it is a linear model.

    Shapes: [B, *input_shape] (flattened) -> features [B, hidden[-1]] -> logits [B, K].

    >>> import torch
    >>> net = MLP((1280,), n_classes=10, hidden=(256,))
    >>> net.features(torch.zeros(2, 1280)).shape, net(torch.zeros(2, 1280)).shape
    (torch.Size([2, 256]), torch.Size([2, 10]))
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        n_classes: int,
        *,
        hidden: tuple[int, ...] = (256,),
        batch_norm: bool = False,
        dropout: float = 0.0,
        matmul: Literal["torch", "onednn"] = "torch",
    ) -> None:
        """`matmul` is of the hidden layers: by torch's BLAS or by oneDNN (`OneDNNLinear`)."""
        super().__init__()
        linear, layers = OneDNNLinear if matmul == "onednn" else nn.Linear, list[nn.Module]()
        d_in = math.prod(input_shape)
        for d_out in hidden:
            layers.append(linear(d_in, d_out, bias=not batch_norm))
            if batch_norm:
                layers.append(nn.BatchNorm1d(d_out))
            layers.append(nn.ReLU())
            if dropout > 0:
                layers.append(nn.Dropout(dropout))
            d_in = d_out
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(d_in, n_classes)

    def features(self, x: Tensor) -> Tensor:
        out: Tensor = self.body(x.flatten(1))
        return out


class Linear(MLP):
    """Multinomial logistic regression: the features are the flattened input.

    >>> import torch
    >>> Linear((1, 8, 8), n_classes=10)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    def __init__(self, input_shape: tuple[int, ...], n_classes: int) -> None:
        super().__init__(input_shape, n_classes, hidden=())
