"""What is done to a network besides training it: checks before a run, cost in FLOP, fresh weights, extra modules."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from pars import seeds
from pars.errors import UserError, one_line
from pars.method_api import Method, head_of

PFLOP = 1e15


def check_network(module: object, example: Tensor, n_classes: int, smallest_batch: int, where: str) -> None:
    """Raise a UserError unless the network returns finite float logits [2, K] with a gradient for two rows.

    example: [2, ...] network inputs. smallest_batch: rows of the run's smallest batch; a network that cannot train on
    one row is refused if that is 1. where: what to call the network in messages. Only a copy is run.
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
        _check_single_row(probe, example)


def _check_single_row(probe: nn.Module, example: Tensor) -> None:
    try:
        with torch.no_grad():
            probe(example[:1])
    except ValueError as error:  # BatchNorm's
        raise UserError(
            f"a batch would have one row, and the network cannot train on one ({one_line(error)}); "
            "choose another train.batch_size: 2 or more, and one that leaves no single row"
        ) from error


@dataclass(frozen=True)
class NetworkCost:
    """FLOP of a network: per row of a forward pass, per row of a training pass (forward and backward), and per update.

    An update is one step of the optimizer; only Muon's matrix products count, the rest is a thousandth of a step.
    """

    forward: float
    training: float
    update: float = 0.0


def network_cost(module: nn.Module, example: Tensor, update: float = 0.0) -> NetworkCost:
    """FLOP per row of a network, counted by torch's FlopCounterMode on a copy.

    example: network inputs [B, ...]; B >= 2 if the network has BatchNorm. update: passed on to the result.

    >>> network_cost(nn.Linear(3, 2), torch.zeros(2, 3))     # 2 · 3 · 2; the gradient of the weights costs as much
    NetworkCost(forward=12.0, training=24.0, update=0.0)
    """
    probe = copy.deepcopy(module).train()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        probe(example)
    forward = counter.get_total_flops()
    with FlopCounterMode(display=False) as counter:
        probe(example).sum().backward()
    return NetworkCost(forward / len(example), counter.get_total_flops() / len(example), update)


def fits(flop: float, budget: float) -> bool:
    """Whether so many FLOP are within a budget in PFLOP; sums in another order may differ in their last digits.

    >>> fits(3e14, 0.3), fits(3.01e14, 0.3)
    (True, False)
    """
    return flop <= budget * PFLOP * (1 + 1e-9)


def restart(module: nn.Module, part: str, seed: int) -> None:
    """Reset the weights of all layers ("all") or of the head ("head"), as torch's layers do, from a seed."""
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


def attach(method: Method, module: nn.Module, example: Tensor, n_classes: int, seed: int) -> nn.ModuleDict:
    """The modules that a method trains beside a network, with weights from a seed of their own."""
    if type(method).attachments is Method.attachments:
        return nn.ModuleDict()
    n_features = head_of(module).in_features
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeds.torch_seed(seed, "attachments"))
        return nn.ModuleDict(dict(method.attachments(n_features, n_classes))).to(example.device)
