"""A finished run as a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from pars import augment, models
from pars.data import Inputs
from pars.engine import DeviceName, predict_proba, resolve_device
from pars.engine.checkpoint import load_module, load_tensors
from pars.errors import UserError
from pars.run.train import open_run


@dataclass(frozen=True, eq=False)
class Classifier:
    """The averaged networks of a run, its classes and its way of reading inputs."""

    networks: tuple[nn.Module, ...]
    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    views: augment.Views
    device: str

    def predict_proba(self, inputs: Inputs, where: str = "inputs") -> Tensor:
        """Probabilities [n, K], the mean over networks."""
        if inputs.shape[1:] != self.input_shape:
            raise UserError(
                f"{where}: rows have shape {list(inputs.shape[1:])}, the run expects {list(self.input_shape)}"
            )
        rows = torch.from_numpy(inputs)
        each = [predict_proba(network, rows, self.views.finish, self.device) for network in self.networks]
        return torch.stack(each).mean(dim=0)


def load_run(path: Path, *, networks: Sequence[nn.Module] | None = None, device: DeviceName = "auto") -> Classifier:
    """Read a finished run. `networks` are needed where the run trained modules that no configuration names."""
    folder, config = open_run(path)
    if not folder.model.exists():
        raise UserError(f"{path} is not finished: {folder.model} is missing; `pars resume {path}` completes it")
    tensors, note = load_tensors(folder.model)
    shape, classes = tuple(note["input_shape"]), tuple(note["classes"])
    if networks is None:
        networks = [models.build(config.model, shape, len(classes), seed=0) for _ in range(note["networks"])]
    where = resolve_device(device)
    for index, network in enumerate(networks):
        load_module(f"average.{index}.", network, tensors, folder.model)
        network.to(where).eval()
    views = augment.build(config.views, image=len(shape) == 3, shape=shape, mean=note["mean"], std=note["std"])
    return Classifier(tuple(networks), classes, shape, views, where)
