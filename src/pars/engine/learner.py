"""One network with its optimizer and its average: what one optimization step changes, and how it is saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn, optim

from pars import seeds
from pars.engine import checkpoint as ck
from pars.engine.config import TrainConfig
from pars.engine.ema import decay_at, make_average, update_average
from pars.engine.flops import network_cost
from pars.engine.fresh import choose_trained, restart
from pars.engine.muon import Muon, hidden_weights, update_flop
from pars.engine.schedule import learning_rate, momentum
from pars.method_api import Method, Network, RowParameter, Stage, State, head_of


@dataclass(frozen=True)
class Curve:
    """Where a stage's learning rate begins and ends, in steps of the run; and where its averages begin."""

    first: int
    total: int
    averaged_from: int


class Learner:
    """Steps a network, averages it, and counts what that cost."""

    def __init__(
        self, module: nn.Module, config: TrainConfig, example: Tensor, attached: nn.ModuleDict | None = None
    ) -> None:
        self.net = Network(module.train(), make_average(module), attached)
        # Listed once: walking through the modules at every step takes as long as averaging them.
        self.parameters, self.averaged = tuple(module.parameters()), tuple(self.net.average.parameters())
        self.trainable = [p for p in self.parameters if p.requires_grad]  # a user's network may have frozen parts
        self.run_config = self.config = config
        self.cost = network_cost(module, example)
        self.updating = 0  # FLOP of the optimizer so far
        self.optimizer, self.update_cost = self._optimizer(), update_flop(module, config.optimizer)

    def _optimizer(self) -> optim.Optimizer:
        c, parameters = self.config, [*self.parameters, *self.net.attached.parameters()]
        if c.optimizer == "adam":
            return optim.Adam(parameters, lr=c.lr, betas=(c.momentum, 0.999), weight_decay=c.weight_decay, foreach=True)
        if c.optimizer == "muon":
            return Muon(
                parameters,
                hidden_weights(self.net.module),
                lr=c.lr,
                momentum=c.momentum,
                weight_decay=c.weight_decay,
                nesterov=c.nesterov,
            )
        return optim.SGD(
            parameters,
            lr=c.lr,
            momentum=c.momentum,
            weight_decay=c.weight_decay,
            nesterov=c.nesterov,
            foreach=True,
        )

    def enter(self, stage: Stage, *, seed: int | None) -> None:
        """Be as this stage needs it; with a seed, as it begins it: fresh weights and a fresh optimizer where due."""
        changes: dict[str, Any] = dict(stage.train)
        config = replace(self.run_config, **changes) if changes else self.run_config
        if seed is not None and stage.restart != "none":
            restart(self.net.module, stage.restart, seed)
            if stage.restart == "all":
                self.net.average.load_state_dict(self.net.module.state_dict())
        if config != self.config or stage.train or stage.restart != "none":
            self.config = config
            self.optimizer = self._optimizer()
        choose_trained(self.net.module, self.trainable, stage.trains)
        self.update_cost = update_flop(self.net.module, self.config.optimizer)

    def update(self, step: int, curve: Curve) -> None:
        """Apply the gradients of step `step` (from 0) of the run."""
        group = self.optimizer.param_groups[0]
        if self.config.grad_clip is not None:
            nn.utils.clip_grad_norm_(group["params"], self.config.grad_clip)
        at = {"step": step - curve.first, "total": curve.total}
        group["lr"], beta = learning_rate(self.config, **at), momentum(self.config, **at)
        if self.config.optimizer == "adam":
            group["betas"] = (beta, 0.999)
        else:
            group["momentum"] = beta
        self.optimizer.step()
        self.updating += self.update_cost
        self.optimizer.zero_grad(set_to_none=True)
        decay = decay_at(step - curve.averaged_from, decay=self.config.ema, ramp=self.config.ema_ramp)
        update_average(self.averaged, self.parameters, decay)

    @property
    def flop(self) -> float:
        """Floating-point operations of training so far, evaluation not counted."""
        return self.net.forwards * self.cost.forward + self.net.backwards * self.cost.training + self.updating

    @property
    def work(self) -> list[int]:
        """Rows passed forward only, rows passed forward and back, and FLOP of the optimizer, so far."""
        return [self.net.forwards, self.net.backwards, self.updating]

    def weights(self, index: int) -> dict[str, Tensor]:
        """Averaged and raw weights under the names of a model file."""
        return ck.module_tensors(f"average.{index}.", self.net.average) | ck.module_tensors(
            f"raw.{index}.", self.net.module
        )

    @property
    def is_finite(self) -> bool:
        return all(bool(tensor.isfinite().all()) for tensor in self.weights(0).values())

    def tensors(self, index: int) -> dict[str, Tensor]:
        """Everything that training changes."""
        return (
            self.weights(index)
            | ck.module_tensors(f"attached.{index}.", self.net.attached)
            | ck.optimizer_tensors(f"optimizer.{index}.", self.optimizer)
        )

    def load(self, index: int, tensors: Mapping[str, Tensor], work: tuple[int, int, int], where: Path) -> None:
        ck.load_module(f"average.{index}.", self.net.average, tensors, where)
        ck.load_module(f"raw.{index}.", self.net.module, tensors, where)
        ck.load_module(f"attached.{index}.", self.net.attached, tensors, where)
        ck.load_optimizer(f"optimizer.{index}.", self.optimizer, tensors, where)
        self.net.forwards, self.net.backwards, self.updating = work


@torch.no_grad()
def learn_rows(state: State, learned: Iterable[RowParameter]) -> None:
    """Move the values per row that a step learned, by plain gradient descent."""
    for parameter in learned:
        if parameter.values.grad is not None:
            state[parameter.name].index_add_(0, parameter.rows, -parameter.lr * parameter.values.grad)


def attach(method: Method, module: nn.Module, example: Tensor, n_classes: int, seed: int) -> nn.ModuleDict:
    """The modules that a method trains beside a network, with weights of a seed of their own."""
    if type(method).attachments is Method.attachments:
        return nn.ModuleDict()
    n_features = head_of(module).in_features
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeds.torch_seed(seed, "attachments"))
        return nn.ModuleDict(dict(method.attachments(n_features, n_classes))).to(example.device)
