"""One pass over rows with a network in evaluation mode."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pars.augment import TestTimeView

BATCH = 512


@torch.no_grad()
def predict_proba(modules: Sequence[nn.Module], inputs: Tensor, looks: Sequence[TestTimeView], device: str) -> Tensor:
    """Class probabilities [n, K], the mean over the networks and over the looks that each takes at a row.

    float32, on the CPU. The networks' mode is left as it was.
    """
    return torch.stack([_one(module, inputs, look, device) for module in modules for look in looks]).mean(dim=0)


def _one(module: nn.Module, inputs: Tensor, look: TestTimeView, device: str) -> Tensor:
    was_training = module.training
    module.eval()
    try:
        parts = [
            module(look(inputs[start : start + BATCH].to(device))).float().softmax(dim=1).cpu()
            for start in range(0, len(inputs), BATCH)
        ]
    finally:
        module.train(was_training)
    return torch.cat(parts)


def accuracy(probabilities: Tensor, labels: Tensor) -> float:
    """Per cent of rows whose most probable class is the label; rows labeled -1 do not count."""
    labeled = labels >= 0
    return 100 * float((probabilities.argmax(dim=1) == labels)[labeled].double().mean())
