"""A network is tried before a run begins: what it cannot do is said then, not after an hour."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from pars.errors import UserError


def check_network(module: object, example: Tensor, n_classes: int, smallest_batch: int, where: str) -> None:
    """Refuse a network whose answer to two rows is not a finite float tensor [2, K] with a gradient.

    Only a copy is run, in training mode; then once more on a single row, if the run has a batch of one.
    """
    if not isinstance(module, nn.Module):
        raise UserError(f"{where} is a {type(module).__name__}, expected a torch.nn.Module")
    if any(nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
        raise UserError(f"{where} has lazy layers without weights yet: pass some rows through it first")
    try:
        probe = copy.deepcopy(module).to(example.device).train()
        logits = probe(example)
    except Exception as error:  # whatever a user's own code raises
        raise UserError(
            f"{where} cannot read rows of shape {list(example.shape[1:])}: {type(error).__name__}: {one_line(error)}"
        ) from error
    if not isinstance(logits, Tensor):
        raise UserError(f"{where} returns a {type(logits).__name__}, expected a tensor of logits [2, {n_classes}]")
    if logits.shape != (2, n_classes) or not logits.is_floating_point():
        got = f"{list(logits.shape)} of {logits.dtype}"
        raise UserError(f"{where} returns {got} for two rows, expected float logits [2, {n_classes}]: one per class")
    if not logits.isfinite().all():
        raise UserError(f"{where} returns logits that are not finite, before any training")
    if not logits.requires_grad:
        raise UserError(f"{where} has nothing to train: its logits need no gradient; are its weights frozen?")
    if smallest_batch == 1:
        check_single_row(probe, example)


def check_single_row(probe: nn.Module, example: Tensor) -> None:
    try:
        with torch.no_grad():
            probe(example[:1])
    except ValueError as error:  # BatchNorm's
        raise UserError(
            f"a batch would have one row, and the network cannot train on one ({one_line(error)}); "
            "choose another train.batch_size: 2 or more, and one that leaves no single row"
        ) from error


def one_line(error: BaseException, length: int = 300) -> str:
    """The message of an error without its line breaks, cut to a length that can be read."""
    text = " ".join(str(error).split())
    return text if len(text) <= length else text[:length] + " …"
