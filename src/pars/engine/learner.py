"""One network with its optimiser and its average: what one optimisation step changes, and how it is saved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn, optim

from pars.engine import checkpoint as ck
from pars.engine.config import TrainConfig
from pars.engine.ema import decay_at, make_average, update_average
from pars.engine.flops import row_cost
from pars.engine.schedule import learning_rate
from pars.methods import Network


class Learner:
    """Steps a network, averages it, and counts what that cost."""

    def __init__(self, module: nn.Module, config: TrainConfig, example: Tensor) -> None:
        self.net = Network(module.train(), make_average(module))
        self.config = config
        self.cost = row_cost(module, example)
        self.optimiser = optim.SGD(
            module.parameters(),
            lr=config.lr,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            nesterov=config.nesterov,
            foreach=True,
        )

    def update(self, step: int, total: int) -> None:
        """Apply the gradients of step `step` (from 0) of `total`."""
        module = self.net.module
        if self.config.grad_clip is not None:
            nn.utils.clip_grad_norm_(module.parameters(), self.config.grad_clip)
        self.optimiser.param_groups[0]["lr"] = learning_rate(
            self.config.schedule, peak=self.config.lr, step=step, total=total
        )
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        update_average(self.net.average, module, decay_at(step, decay=self.config.ema, ramp=self.config.ema_ramp))

    @property
    def flop(self) -> float:
        """Floating-point operations of training so far, evaluation not counted."""
        return self.net.forwards * self.cost.forward + self.net.backwards * self.cost.training

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
        return self.weights(index) | ck.optimiser_tensors(f"optimiser.{index}.", self.optimiser)

    def load(self, index: int, tensors: Mapping[str, Tensor], where: Path) -> None:
        ck.load_module(f"average.{index}.", self.net.average, tensors, where)
        ck.load_module(f"raw.{index}.", self.net.module, tensors, where)
        ck.load_optimiser(f"optimiser.{index}.", self.optimiser, tensors, where)
