"""What each of two processes does for test_processes.py: python two_processes.py RANK FOLDER. Results go to FOLDER."""

from __future__ import annotations

import sys
import traceback
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, distributed, nn

from engine.helpers import make_trainer, toy
from pars.engine import Processes, TrainConfig, Trainer
from pars.errors import UserError
from pars.methods import REGISTRY, by_name
from pars.models.synchronized_batch_norm import synchronize_batch_norm

CONFIG = TrainConfig(epochs=6, batch_size=17, lr=0.05, ema=0.9, dynamics_every=2)  # parts of 9 and 8 rows
HELD = np.arange(60) % 6 == 0
LOSSES = [name for name, entry in REGISTRY.items() if entry.file == "robust_losses.py"]
METHODS = [name for name in REGISTRY if not by_name(name).single_process and name not in LOSSES[1:]]  # one loss


def trained(name: str, processes: Processes | None = None) -> Trainer:
    trainer = make_trainer(
        by_name(name), data=toy(unlabeled=9), config=CONFIG, held_out=HELD, plain_views=True, processes=processes
    )
    trainer.run()
    return trainer


def outcome(trainer: Trainer) -> dict[str, Tensor]:
    """Weights, averages and state after the run, and the losses of each epoch."""
    found = {name: tensor.clone() for name, tensor in trainer.tensors().items() if not name.startswith("meter.")}
    for line in trainer.history:
        for name, value in line["losses"].items():
            found[f"loss.{line['epoch']}.{name}"] = torch.tensor(value)
    return found


def batch_norm(processes: Processes) -> dict[str, Tensor]:
    """Outputs, gradients and statistics of a BatchNorm over rows that two processes hold, 5 and 4 of them."""
    torch.manual_seed(0)
    x = torch.randn(9, 3, 2, 2)
    layer = synchronize_batch_norm(nn.BatchNorm2d(3))
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
    processes = Processes(rank, 2)
    results: dict[str, object] = {"batch norm": batch_norm(processes)}
    results["text"] = processes.broadcast("of the first, ä" if rank == 0 else "")
    results["flags"] = [processes.any(flag) for flag in (False, rank == 1)]
    try:
        processes.in_first(lambda: (_ for _ in ()).throw(UserError("not here")))
    except UserError as error:
        results["error"] = str(error)
    for name in METHODS:
        results[name] = outcome(trained(name, processes))
    torch.save(results, folder / f"{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), Path(sys.argv[2]))
    except BaseException:
        traceback.print_exc()
        raise
