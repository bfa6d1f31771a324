"""One network in training: its optimizer, its averaged weights, what it has cost, and how it is saved."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pars.engine import checkpoint as ck
from pars.engine.config import TrainConfig
from pars.engine.networks import choose_trained, network_cost, restart
from pars.engine.optimizer import learning_rate, make_optimizer, momentum, update_flop
from pars.method_api import Network, Stage


@dataclass(frozen=True)
class Curve:
    """Where a stage's learning rate begins and ends, in steps of the run; where its averages begin; the run's steps."""

    first: int
    total: int
    averaged_from: int
    run: int


class Learner:
    """Steps a network, averages its weights, and counts what that cost.

    net: the network as methods see it. cost: its FLOP per row. updating: FLOP of the optimizer so far.
    """

    def __init__(
        self, module: nn.Module, config: TrainConfig, example: Tensor, attached: nn.ModuleDict | None = None
    ) -> None:
        """`example` [2, ...] is a network input, to count FLOP with; `attached` are modules trained beside it."""
        self.net = Network(module.train(), make_average(module), attached)
        # Listed once: walking through the modules at every step takes as long as averaging them.
        self._parameters, self._averaged = tuple(module.parameters()), tuple(self.net.average.parameters())
        self._trainable = [p for p in self._parameters if p.requires_grad]  # a user's network may have frozen parts
        self._run_config = self._config = config
        self.cost = network_cost(module, example)
        self.updating = 0
        self.optimizer = make_optimizer(module, self.net.attached, config)
        self._update_flop = update_flop(module, config.optimizer)

    def enter(self, stage: Stage, *, seed: int | None) -> None:
        """Set up for a stage. With a seed the stage begins: fresh weights and a fresh optimizer where it asks for them.

        Without one, the stage is under way: weights and the state of the optimizer are loaded afterwards.
        """
        changes: dict[str, Any] = dict(stage.train)
        config = replace(self._run_config, **changes) if changes else self._run_config
        if seed is not None and stage.restart != "none":
            restart(self.net.module, stage.restart, seed)
            if stage.restart == "all":
                self.net.average.load_state_dict(self.net.module.state_dict())
        if config != self._config or stage.train or stage.restart != "none":
            self._config = config
            self.optimizer = make_optimizer(self.net.module, self.net.attached, config)
        choose_trained(self.net.module, self._trainable, stage.trains)
        self._update_flop = update_flop(self.net.module, self._config.optimizer)

    def update(self, step: int, curve: Curve) -> None:
        """Apply the gradients of step `step` (from 0) of the run."""
        config, group = self._config, self.optimizer.param_groups[0]
        if config.grad_clip is not None:
            nn.utils.clip_grad_norm_(group["params"], config.grad_clip)
        at = {"step": step - curve.first, "total": curve.total}
        group["lr"], beta = learning_rate(config, **at), momentum(config, **at)
        if config.optimizer == "adam":
            group["betas"] = (beta, 0.999)
        else:
            group["momentum"] = beta
        self.optimizer.step()
        self.updating += self._update_flop
        self.optimizer.zero_grad(set_to_none=True)
        growth = config.ema_growth * curve.run
        decay = ema_decay(step - curve.averaged_from, decay=config.ema, ramp=config.ema_ramp, growth=growth)
        update_average(self._averaged, self._parameters, decay)

    @property
    def flop(self) -> float:
        """FLOP of training so far, evaluation not counted."""
        return self.net.forwards * self.cost.forward + self.net.backwards * self.cost.training + self.updating

    @property
    def work(self) -> list[int]:
        """Rows passed forward only, rows passed forward and back, and FLOP of the optimizer, so far."""
        return [self.net.forwards, self.net.backwards, self.updating]

    def weights(self, index: int) -> dict[str, Tensor]:
        """Averaged and raw weights under the names of a model file; `index` is the network's number."""
        return ck.module_tensors(f"average.{index}.", self.net.average) | ck.module_tensors(
            f"raw.{index}.", self.net.module
        )

    @property
    def is_finite(self) -> bool:
        return all(bool(tensor.isfinite().all()) for tensor in self.weights(0).values())

    def tensors(self, index: int) -> dict[str, Tensor]:
        """Everything that training changes, under the names of a checkpoint."""
        return (
            self.weights(index)
            | ck.module_tensors(f"attached.{index}.", self.net.attached)
            | ck.optimizer_tensors(f"optimizer.{index}.", self.optimizer)
        )

    def load(self, index: int, tensors: Mapping[str, Tensor], work: tuple[int, int, int], where: Path) -> None:
        """Continue from the tensors of a checkpoint; `where` is its file, for messages."""
        ck.load_module(f"average.{index}.", self.net.average, tensors, where)
        ck.load_module(f"raw.{index}.", self.net.module, tensors, where)
        ck.load_module(f"attached.{index}.", self.net.attached, tensors, where)
        ck.load_optimizer(f"optimizer.{index}.", self.optimizer, tensors, where)
        self.net.forwards, self.net.backwards, self.updating = work


def make_average(module: nn.Module) -> nn.Module:
    """A copy of a network for its averaged weights: in evaluation mode, without gradients."""
    average = copy.deepcopy(module).eval()
    return average.requires_grad_(False)


def ema_decay(step: int, *, decay: float, ramp: bool, growth: float = 0.0) -> float:
    """The decay of the average in step `step` (from 0). A ramp lets the average follow the first, fast steps.

    growth: the number of steps over which the decay grows as exp(-5(1-u)²), u from 0 to 1, as in mean teachers.

    >>> [round(ema_decay(step, decay=0.997, ramp=False, growth=40_000), 4) for step in (0, 20_000, 40_000)]
    [0.0067, 0.2856, 0.997]
    """
    if growth:
        decay *= math.exp(-5 * (1 - min(1.0, step / growth)) ** 2)
    return min(decay, (1 + step) / (10 + step)) if ramp else decay


@torch.no_grad()
def update_average(average: tuple[Tensor, ...], weights: tuple[Tensor, ...], decay: float) -> None:
    """θ̄ ← m·θ̄ + (1-m)·θ, parameter by parameter. Buffers (BatchNorm statistics) are left to `calibrate`."""
    torch._foreach_lerp_(list(average), list(weights), 1 - decay)
