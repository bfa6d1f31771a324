"""A finished run as a classifier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from pars import augment, data, models
from pars.data import Inputs
from pars.engine import DeviceName, as_tensor, load_module, load_tensors, predict_proba, resolve_device
from pars.errors import UserError
from pars.run import inputs as run_inputs
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
        """Probabilities [n, K], the mean over networks; with views.mirror also over an image and its mirror image."""
        if inputs.shape[1:] != self.input_shape:
            raise UserError(
                f"{where}: rows have shape {list(inputs.shape[1:])}, the run expects {list(self.input_shape)}"
            )
        if not len(inputs):
            raise UserError(f"{where}: no rows, expected at least one")
        rows = inputs if len(self.input_shape) == 3 else self._standardized(inputs, where)
        probabilities = predict_proba(self.networks, as_tensor(rows), self.views.test_time_views, self.device)
        if (row := first_wrong(probabilities.isfinite().numpy())) is not None:
            raise UserError(
                f"{where}: the network has no finite answer to row {row}; are its values far from those of training?"
            )
        return probabilities

    def _standardized(self, inputs: Inputs, where: str) -> Inputs:
        with np.errstate(over="ignore"):  # what overflows is named
            rows = data.standardize(inputs, self.mean, self.std)
        if (row := first_wrong(np.isfinite(rows))) is not None:
            raise UserError(f"{where}: row {row} has a value that is not finite once it is standardized as in training")
        return rows


def first_wrong(right: npt.NDArray[np.bool_]) -> int | None:
    """The first row that is not right throughout."""
    wrong = np.flatnonzero(~right.all(axis=1))
    return int(wrong[0]) if wrong.size else None


def load_run(
    path: str | Path, *, networks: Sequence[nn.Module] | None = None, device: DeviceName = "auto"
) -> Classifier:
    """Read a finished run. `networks` are needed where the run trained modules that no configuration names."""
    folder, config = open_run(path)
    if not folder.model.exists():
        raise UserError(f"{path} is not finished: {folder.model} is missing; `pars resume {path}` completes it")
    if folder.inputs.exists():
        run_inputs.check_given(folder, run_inputs.read(folder)[1], networks=networks)
    tensors, note = load_tensors(folder.model)
    n_networks, shape, classes, mean, std = checked_note(note, folder.model)
    if networks is None:
        # Who asks a trained network need not have the compiler that it was trained with; the answers are the same.
        model = replace(config.model, convolution="direct")
        networks = [models.build_model(model, shape, len(classes), seed=0) for _ in range(n_networks)]
    if len(networks) != n_networks:
        raise UserError(f"{folder.model} holds {n_networks} network(s), {len(networks)} were given")
    where = resolve_device(device)
    for index, network in enumerate(networks):
        load_module(f"average.{index}.", network, tensors, folder.model)
        network.to(where).eval()
    # Only how predictions look at inputs is needed, so the views are those that ask for no more.
    image = len(shape) == 3
    plain = augment.ViewsConfig(weak="none", strong="none", size=config.views.size)
    views = augment.build_views(plain, image=image, shape=shape, mean=mean if image else (), std=std if image else ())
    views = replace(views, mirror=image and config.views.mirror)
    return Classifier(tuple(networks), classes, shape, mean, std, views, where)


def checked_note(
    note: dict[str, Any], where: Path
) -> tuple[int, tuple[int, ...], tuple[str, ...], tuple[float, ...], tuple[float, ...]]:
    """Networks, input shape, classes, mean and std of a model file's note; a UserError where it was tampered with."""

    def values(key: str, *kinds: type) -> tuple[Any, ...]:
        found = note.get(key)
        if not isinstance(found, list) or not found or not all(type(value) in kinds for value in found):
            raise UserError(f"{where} is damaged: {key} is {found!r}, expected a list of {kinds[-1].__name__}")
        return tuple(found)

    networks, shape, classes = note.get("networks"), values("input_shape", int), values("classes", str)
    if type(networks) is not int or not 1 <= networks <= 100:
        raise UserError(f"{where} is damaged: networks is {networks!r}, expected a whole number of them")
    if len(shape) not in (1, 3) or min(shape) < 1:
        raise UserError(f"{where} is damaged: input_shape is {list(shape)}, expected [C, H, W] or [d]")
    mean, std = values("mean", int, float), values("std", int, float)
    if not len(mean) == len(std) == shape[0] or not all(map(math.isfinite, mean)) or not all(s > 0 for s in std):
        raise UserError(f"{where} is damaged: mean and std are not {shape[0]} finite numbers, the latter above 0")
    return networks, shape, classes, mean, std
