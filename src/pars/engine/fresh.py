"""Fresh weights for a network that has been trained: a stage may begin anew."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from pars.errors import UserError
from pars.method_api import head_of


def restart(module: nn.Module, part: str, seed: int) -> None:
    """Draw the weights of all layers, or of the head, anew: as torch's layers draw them, from a seed of its own."""
    whole = module if part == "all" else head_of(module)
    layers = [layer for layer in whole.modules() if next(layer.parameters(recurse=False), None) is not None]
    if stuck := [type(layer).__name__ for layer in layers if not callable(getattr(layer, "reset_parameters", None))]:
        raise UserError(
            f"{type(module).__name__} cannot be trained by this method, which begins anew: its layer {stuck[0]} has "
            "no reset_parameters()"
        )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        for layer in layers:
            layer.reset_parameters()  # type: ignore[operator]


def choose_trained(module: nn.Module, weights: Sequence[nn.Parameter], part: str) -> None:
    """Of these weights, let all, or only those of the head or of the body, be trained."""
    head = set() if part == "all" else set(head_of(module).parameters())
    for weight in weights:
        weight.requires_grad_(part == "all" or (weight in head) == (part == "head"))
