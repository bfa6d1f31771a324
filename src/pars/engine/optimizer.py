"""The optimizers of a run and their schedule: the learning rate over the steps, and Muon."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn, optim

from pars.engine.config import TrainConfig
from pars.method_api import head_of

# A quintic whose iteration drives singular values from (0, 1] towards 1, quickly rather than exactly (Jordan 2024).
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 3  # as for CIFAR in airbench; the values then lie between 0.3 and 1.2 or so, but for the smallest


def make_optimizer(module: nn.Module, attached: nn.Module, config: TrainConfig) -> optim.Optimizer:
    """The optimizer that a configuration names, for the weights of a network and of what is attached to it."""
    parameters: list[Any] = [*module.parameters(), *attached.parameters()]
    if config.backbone_lr is not None:  # two groups, head and attached modules first
        head = set(head_of(module).parameters())
        fast = [*head_of(module).parameters(), *attached.parameters()]
        slow = [weight for weight in module.parameters() if weight not in head]
        parameters = [{"params": fast}, {"params": slow, "lr": config.backbone_lr}]
    shared: dict[str, Any] = {"lr": config.lr, "weight_decay": config.weight_decay}
    if config.optimizer == "adam":
        return optim.Adam(parameters, betas=(config.momentum, 0.999), foreach=True, **shared)
    shared |= {"momentum": config.momentum, "nesterov": config.nesterov}
    if config.optimizer == "muon":
        return Muon(parameters, hidden_weights(module), **shared)
    return SGD(parameters, **shared)


class _Plain(optim.Optimizer):
    """Methods of torch's optimizers without the wrapper that imports torch's compiler, seconds of a first fit."""

    def _patch_step_function(self) -> None:
        """Torch would wrap `step`, to name it for its profiler and to call hooks: a tenth of a small step."""
        self._zero_grad_profile_name = type(self).__name__

    add_param_group, zero_grad, state_dict, load_state_dict = (
        inspect.unwrap(method)
        for method in (
            optim.Optimizer.add_param_group,
            optim.Optimizer.zero_grad,
            optim.Optimizer.state_dict,
            optim.Optimizer.load_state_dict,
        )
    )


class SGD(_Plain):
    """torch's SGD with momentum, bit for bit, over all weights at once. Its `step` has no wrapper either."""

    def __init__(
        self, parameters: Iterable[Any], *, lr: float, momentum: float, weight_decay: float, nesterov: bool
    ) -> None:
        settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
        super().__init__(parameters, settings)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Apply the gradients; parameters without one stay as they are."""
        assert closure is None, "the loss is computed once a step"
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            moves: Any = [weight.grad for weight in weights]
            if group["weight_decay"]:
                torch._foreach_add_(moves, weights, alpha=group["weight_decay"])  # in place: gradients end here
            if group["momentum"]:
                states = [self.state[weight] for weight in weights]
                known = [(state, move) for state, move in zip(states, moves, strict=True) if state]
                if known:
                    velocities = [state["momentum_buffer"] for state, _ in known]
                    torch._foreach_mul_(velocities, group["momentum"])
                    torch._foreach_add_(velocities, [move for _, move in known])
                for state, move in zip(states, moves, strict=True):
                    if not state:
                        state["momentum_buffer"] = move.clone()
                velocities = [state["momentum_buffer"] for state in states]
                if group["nesterov"]:
                    torch._foreach_add_(moves, velocities, alpha=group["momentum"])
                else:
                    moves = velocities
            torch._foreach_add_(weights, moves, alpha=-group["lr"])


def learning_rate(config: TrainConfig, *, step: int, total: int) -> float:
    """The learning rate of step `step` of `total`.

    "cosine-7-16" is η·cos(7πt/16T), as FixMatch and PARS use it: it ends at 0.195 η, not at 0.

    >>> round(learning_rate(TrainConfig(lr=0.03), step=100, total=100), 5)
    0.00585
    >>> config = TrainConfig(lr=1.0, schedule="steps", milestones=(0.5, 0.8))
    >>> [round(learning_rate(config, step=t, total=10), 6) for t in (4, 5, 9)]
    [1.0, 0.1, 0.01]
    """
    t, peak, lowest = step / max(1, total), config.lr, config.floor * config.lr
    match config.schedule:
        case "cosine-7-16":
            return peak * math.cos(7 * math.pi * t / 16)
        case "cosine":
            return lowest + (peak - lowest) * (1 + math.cos(math.pi * t)) / 2
        case "warm-restarts":
            return lowest + (peak - lowest) * (1 + math.cos(math.pi * (t * config.cycles % 1))) / 2
        case "steps":
            return peak * config.gamma ** sum(t >= milestone for milestone in config.milestones)
        case "late-linear":
            return peak if t < config.decay_from else peak * (1 - t) / (1 - config.decay_from)
        case "constant":
            return peak


class Muon(_Plain):
    """Muon (Jordan et al. 2024): momentum whose steps are made orthogonal.

    For `hidden` weights: orthogonal steps on weights of fixed size. For all others: SGD with momentum.

    A hidden weight, as a matrix [out, in·k·k], is scaled to the norm √out, and moves by `lr` times the nearest
    orthogonal matrix to its momentum: by that part of its size, however large or small the gradient is. A robust loss
    has small gradients as long as nothing is learned; that does not slow these weights down. Their scale is fixed
    because a normalization after them takes it out again; weight decay is for the others.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        hidden: Iterable[Tensor],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        nesterov: bool,
    ) -> None:
        self.hidden = frozenset(hidden)
        settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
        super().__init__(parameters, settings)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Apply the gradients; parameters without one stay as they are."""
        assert closure is None, "the loss is computed once a step"
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, group)

    def _move(self, weight: nn.Parameter, group: dict[str, Any]) -> None:
        is_hidden = weight in self.hidden
        assert weight.grad is not None
        gradient = weight.grad if is_hidden else weight.grad.add(weight, alpha=group["weight_decay"])
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        velocity = state["momentum_buffer"].mul_(group["momentum"]).add_(gradient)
        direction = gradient.add(velocity, alpha=group["momentum"]) if group["nesterov"] else velocity
        if is_hidden:
            weight.mul_(len(weight) ** 0.5 / weight.norm().clamp_min(1e-7))
            direction = orthogonal(direction)
        weight.add_(direction, alpha=-group["lr"])


def hidden_weights(module: nn.Module) -> list[Tensor]:
    """The weights of convolutions and linear layers, but for the last one's: that makes logits, whose scale matters."""
    layers = [m for m in module.modules() if isinstance(m, (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear))]
    return [layer.weight for layer in layers[:-1]]


def orthogonal(gradient: Tensor) -> Tensor:
    """About U·Vᵀ of a gradient U·S·Vᵀ, by Newton-Schulz iteration; [out, ...] is taken as a matrix [out, rest]."""
    matrix = gradient.reshape(len(gradient), -1)
    wide: Tensor = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / wide.norm().clamp_min(1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        square = wide @ wide.T
        wide = a * wide + (b * square + c * square @ square) @ wide
    return (wide if matrix.shape[0] <= matrix.shape[1] else wide.T).reshape(gradient.shape)


def update_flop(module: nn.Module, optimizer: str) -> int:
    """Floating-point operations that an optimizer needs for one step, but for a few per weight."""
    if optimizer != "muon":
        return 0
    return sum(orthogonal_flop(weight.shape) for weight in hidden_weights(module) if weight.requires_grad)


def orthogonal_flop(shape: torch.Size) -> int:
    """Of the three products of matrices in each iteration."""
    short, long = sorted((shape[0], math.prod(shape[1:])))
    return ITERATIONS * (4 * short * short * long + 2 * short**3)
