"""What each of two processes does for test_processes.py: python two_processes.py RANK FOLDER. Results go to FOLDER."""

from __future__ import annotations

import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from engine.helpers import make_trainer, toy
from pars.engine import Processes, TrainConfig
from pars.engine.exchange import Collectives, Exchange, SharedMemory
from pars.errors import UserError
from pars.methods import REGISTRY, by_name
from pars.models.synchronized_batch_norm import synchronize_batch_norm

CONFIG = TrainConfig(epochs=7, batch_size=17, lr=0.05, ema=0.9, dynamics_every=2)  # 21 steps, parts of 9 and 8 rows
HELD = np.arange(60) % 6 == 0
LOSSES = [name for name, entry in REGISTRY.items() if entry.file == "robust_losses.py"]
METHODS = [name for name in REGISTRY if name not in LOSSES[1:]]  # one loss
BY_GLOO = ("pars", "dividemix")


def outcome(name: str, processes: Processes | None = None) -> dict[str, Tensor]:
    """What a run ends with: weights, averages and state; the losses of each epoch; gradients of its first steps."""
    trainer = make_trainer(
        by_name(name), data=toy(unlabeled=9), config=CONFIG, held_out=HELD, plain_views=True, processes=processes
    )
    gradients: list[Tensor] = []

    def keep(optimizer: torch.optim.Optimizer, *_: object) -> None:
        parts = [p.grad.flatten() for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        gradients.append(torch.cat(parts))

    hook = register_optimizer_step_pre_hook(keep)
    try:
        trainer.run()
    finally:
        hook.remove()
    found = {name: tensor.clone() for name, tensor in trainer.tensors().items() if not name.startswith("meter.")}
    for line in trainer.history:
        for name, value in line["losses"].items():
            found[f"loss.{line['epoch']}.{name}"] = torch.tensor(value)
    return found | {f"gradient.{step}": gradient for step, gradient in enumerate(gradients)}


def exchanges(exchange: Exchange, rank: int) -> dict[str, Tensor]:
    """Sums and stacks of tensors of several kinds and sizes, some larger than what is passed in one turn."""
    found = {}
    for n in (1, 7, 5000, 700_001):
        own = torch.arange(n, dtype=torch.float32) * (rank + 0.5)
        found[f"stacked.{n}"] = exchange.gather(own.view(n, 1))
        exchange.add(own)
        found[f"sum.{n}"] = own
    found["flags"] = exchange.gather(torch.tensor([rank == 0, True]))
    found["doubles"] = exchange.gather(torch.tensor([[1 / 3 + rank]], dtype=torch.float64))
    found["none"] = exchange.gather(torch.zeros(0, 3))
    return found


def batch_norm(processes: Processes) -> dict[str, Tensor]:
    """Outputs, gradients and statistics of a BatchNorm over rows that two processes hold, 5 and 4 of them."""
    torch.manual_seed(0)
    x = torch.randn(9, 3, 2, 2)
    layer = synchronize_batch_norm(nn.BatchNorm2d(3), processes.exchange.gather)
    own = x[:5] if processes.rank == 0 else x[5:]
    own = own.clone().requires_grad_()
    out = layer(own)
    (out * out.detach().cos()).sum().backward()
    found = {"out": out.detach(), "by_input": own.grad, "mean": layer.running_mean, "var": layer.running_var}
    found |= {"weight": layer.weight.grad, "bias": layer.bias.grad}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    os.environ["LOCAL_WORLD_SIZE"] = "2"  # as torchrun says it
    shared = SharedMemory.join(rank, 2)
    processes = Processes(rank, 2, exchange=shared or Collectives())
    results: dict[str, object] = {"batch norm": batch_norm(processes)}
    results["text"] = processes.broadcast("of the first, ä" if rank == 0 else "")
    results["flags"] = [processes.any(flag) for flag in (False, rank == 1)]
    try:
        processes.in_first(lambda: (_ for _ in ()).throw(UserError("not here")))
    except UserError as error:
        results["error"] = str(error)
    results["shared"] = shared is not None
    results["exchanged"] = [exchanges(each, rank) for each in (Collectives(), processes.exchange)]
    for name in METHODS:
        results[name] = outcome(name, processes)
    for name in BY_GLOO:
        results[f"{name} by gloo"] = outcome(name, Processes(rank, 2))
    if rank == 0:
        try:
            for _ in range(2):  # the other has ended by the second
                processes.any(False)
        except UserError as error:
            results["alone"] = str(error)
    else:
        processes.any(False)
    torch.save(results, folder / f"{rank}.pt")


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), Path(sys.argv[2]))
    except BaseException:
        traceback.print_exc()
        raise
