"""A finished run as a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from pars import augment, data, models
from pars.data import Inputs
from pars.engine import DeviceName, predict_proba, resolve_device
from pars.engine.checkpoint import load_module, load_tensors
from pars.engine.trainer import as_tensor
from pars.errors import UserError
from pars.run.train import open_run


@dataclass(frozen=True, eq=False)
class Classifier:
    """The averaged networks of a run, its classes and its way of reading inputs."""

    networks: tuple[nn.Module, ...]
    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    views: augment.Views
    device: str

    def predict_proba(self, inputs: Inputs, where: str = "inputs") -> Tensor:
        """Probabilities [n, K], the mean over networks."""
        if inputs.shape[1:] != self.input_shape:
            raise UserError(
                f"{where}: rows have shape {list(inputs.shape[1:])}, the run expects {list(self.input_shape)}"
            )
        rows = inputs if len(self.input_shape) == 3 else data.standardise(inputs, self.mean, self.std)
        return predict_proba(self.networks, as_tensor(rows), self.views.plain, self.device)


def load_run(path: Path, *, networks: Sequence[nn.Module] | None = None, device: DeviceName = "auto") -> Classifier:
    """Read a finished run. `networks` are needed where the run trained modules that no configuration names."""
    folder, config = open_run(path)
    if not folder.model.exists():
        raise UserError(f"{path} is not finished: {folder.model} is missing; `pars resume {path}` completes it")
    tensors, note = load_tensors(folder.model)
    shape, classes = tuple(note["input_shape"]), tuple(note["classes"])
    if networks is None:
        networks = [models.build(config.model, shape, len(classes), seed=0) for _ in range(note["networks"])]
    if len(networks) != note["networks"]:
        raise UserError(f"{folder.model} holds {note['networks']} network(s), {len(networks)} were given")
    where = resolve_device(device)
    for index, network in enumerate(networks):
        load_module(f"average.{index}.", network, tensors, folder.model)
        network.to(where).eval()
    # Only the plain reading of inputs is needed, so the views are those that ask for nothing.
    image, mean, std = len(shape) == 3, tuple(note["mean"]), tuple(note["std"])
    plain = augment.ViewsConfig(weak="none", strong="none")
    views = augment.build(plain, image=image, shape=shape, mean=mean if image else (), std=std if image else ())
    return Classifier(tuple(networks), classes, shape, mean, std, views, where)
