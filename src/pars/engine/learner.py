"""One network of a run: checked, its FLOP counted, trained by an optimizer, averaged, saved."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import flop_counter
from torch.utils.flop_counter import FlopCounterMode

from pars import seeds
from pars.engine import checkpoint as ck
from pars.engine.config import TrainConfig
from pars.engine.optimizer import learning_rate, make_optimizer, update_flop
from pars.engine.processes import Processes
from pars.errors import UserError, one_line
from pars.method_api import Apply, Method, Network, Stage, apply_here, head_of

PFLOP = 1e15


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
        self,
        module: nn.Module,
        config: TrainConfig,
        example: Tensor,
        attached: nn.ModuleDict | None = None,
        processes: Processes | None = None,
    ) -> None:
        """`example` [2, ...] is a network input, to count FLOP with; `attached` are modules trained beside it."""
        self.cost, self._processes = network_cost(module, example), processes or Processes()
        apply: Apply = apply_here
        if self._processes.size > 1:
            module, apply = self._processes.synchronized(module), self._processes.apply
        average = copy.deepcopy(module).eval().requires_grad_(False)
        self.net = Network(module.train(), average, attached, apply)
        # Listed once: walking through the modules at every step takes as long as averaging them.
        self._parameters, self._averaged = tuple(module.parameters()), tuple(self.net.average.parameters())
        self._trainable = [p for p in self._parameters if p.requires_grad]  # a user's network may have frozen parts
        self._run_config = self._config = config
        self.updating = 0
        self.optimizer = make_optimizer(module, self.net.attached, config)
        self._update_flop = update_flop(module, config.optimizer)

    def enter(self, stage: Stage, *, seed: int | None) -> None:
        """Set up for a stage. With a seed the stage begins: fresh weights and a fresh optimizer where it asks for them.

        Without one, the stage is under way: weights and the state of the optimizer are loaded afterwards.
        """
        module, changes = self.net.module, dict[str, Any](stage.train)
        config = replace(self._run_config, **changes) if changes else self._run_config
        if seed is not None and stage.restart != "none":
            restart(module, stage.restart, seed)
            if stage.restart == "all":
                self.net.average.load_state_dict(module.state_dict())
        if config != self._config or stage.train or stage.restart != "none":
            self._config = config
            self.optimizer = make_optimizer(module, self.net.attached, config)
        head = set() if stage.trains == "all" else set(head_of(module).parameters())
        for weight in self._trainable:
            weight.requires_grad_(stage.trains == "all" or (weight in head) == (stage.trains == "head"))
        self._update_flop = update_flop(module, self._config.optimizer)

    def update(self, step: int, curve: Curve) -> None:
        """Apply the gradients of step `step` (from 0) of the run, and average the weights: θ̄ ← m·θ̄ + (1-m)·θ.

        Buffers (BatchNorm statistics) are not averaged: `Evaluator.calibrate` measures them.
        """
        if self._processes.size > 1:
            self._processes.add_gradients(self._trainable)  # those of attached modules are of the whole batch already
        config, groups = self._config, self.optimizer.param_groups
        if config.grad_clip is not None:
            weights = groups[0]["params"] if len(groups) == 1 else [p for group in groups for p in group["params"]]
            nn.utils.clip_grad_norm_(weights, config.grad_clip)
        groups[0]["lr"] = learning_rate(config, step=step - curve.first, total=curve.total)
        if config.backbone_lr is not None:
            slow = replace(config, lr=config.backbone_lr)
            groups[1]["lr"] = learning_rate(slow, step=step - curve.first, total=curve.total)
        beta, share = config.momentum, (step - curve.first) / max(1, curve.total)
        if config.late_momentum is not None and config.schedule == "late-linear" and share >= config.decay_from:
            beta = config.late_momentum
        for group in groups:
            if config.optimizer == "adam":
                group["betas"] = (beta, 0.999)
            else:
                group["momentum"] = beta
        self.optimizer.step()
        self.updating += self._update_flop
        self.optimizer.zero_grad(set_to_none=True)
        decay, since = config.ema, step - curve.averaged_from
        if config.ema_growth:  # as in mean teachers
            decay *= math.exp(-5 * (1 - min(1.0, since / (config.ema_growth * curve.run))) ** 2)
        if config.ema_ramp:  # lets the average follow the first, fast steps
            decay = min(decay, (1 + since) / (10 + since))
        with torch.no_grad():
            torch._foreach_lerp_(self._averaged, self._parameters, 1 - decay)

    def weights(self, index: int) -> dict[str, Tensor]:
        """Averaged and raw weights under the names of a model file; `index` is the network's number."""
        average, raw = self.net.average.state_dict(), self.net.module.state_dict()
        weights = {f"average.{index}.{name}": tensor for name, tensor in average.items()}
        return weights | {f"raw.{index}.{name}": tensor for name, tensor in raw.items()}

    def tensors(self, index: int) -> dict[str, Tensor]:
        """Everything that training changes, under the names of a checkpoint."""
        attached = {f"attached.{index}.{name}": t for name, t in self.net.attached.state_dict().items()}
        optimizer = {
            f"optimizer.{index}.{number}.{name}": value
            for number, state in self.optimizer.state_dict()["state"].items()
            for name, value in state.items()
            if isinstance(value, Tensor)
        }
        return self.weights(index) | attached | optimizer

    def load(self, index: int, tensors: Mapping[str, Tensor], work: tuple[int, int, int], where: Path) -> None:
        """Continue from the tensors of a checkpoint; `where` is its file, for messages."""
        ck.load_module(f"average.{index}.", self.net.average, tensors, where)
        ck.load_module(f"raw.{index}.", self.net.module, tensors, where)
        ck.load_module(f"attached.{index}.", self.net.attached, tensors, where)
        ck.load_optimizer(f"optimizer.{index}.", self.optimizer, tensors, where)
        self.net.forwards, self.net.backwards, self.updating = work


def restart(module: nn.Module, part: str, seed: int) -> None:
    """Reset the weights of all layers ("all") or of the head ("head"), as torch's layers do, from a seed."""
    if part == "all" and callable(own := getattr(module, "restart", None)):  # a pre-trained one knows where it began
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            own()
        return
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


def attach(method: Method, module: nn.Module, example: Tensor, n_classes: int, seed: int) -> nn.ModuleDict:
    """The modules that a method trains beside a network, with weights from a seed of their own."""
    if type(method).attachments is Method.attachments:
        return nn.ModuleDict()
    n_features = head_of(module).in_features
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeds.torch_seed(seed, "attachments"))
        return nn.ModuleDict(dict(method.attachments(n_features, n_classes))).to(example.device)


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
    with _counted_flop() as counter, torch.no_grad():
        probe(example)
    forward = counter.get_total_flops()
    with _counted_flop() as counter:
        probe(example).sum().backward()
    return NetworkCost(forward / len(example), counter.get_total_flops() / len(example), update)


@contextmanager
def _counted_flop() -> Iterator[FlopCounterMode]:
    """torch's counter, without the wrapper that imports torch's compiler: seconds of a first fit."""
    mode: Any = flop_counter._FlopCounterMode
    wrapped = mode.__torch_dispatch__
    mode.__torch_dispatch__ = inspect.unwrap(wrapped)
    try:
        with FlopCounterMode(display=False) as counter:
            yield counter
    finally:
        mode.__torch_dispatch__ = wrapped


def fits(flop: float, budget: float) -> bool:
    """Whether so many FLOP are within a budget in PFLOP; sums in another order may differ in their last digits.

    >>> fits(3e14, 0.3), fits(3.01e14, 0.3)
    (True, False)
    """
    return flop <= budget * PFLOP * (1 + 1e-9)
