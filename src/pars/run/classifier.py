"""A trained classifier: from a trainer, or from the folder of a finished run."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pars import augment, data, models
from pars.data import Inputs
from pars.engine import DeviceName, as_tensor, load_module, load_tensors, predict_proba, resolve_device
from pars.errors import UserError
from pars.method_api import features_of
from pars.run import inputs as run_inputs
from pars.run.inputs import open_run
from pars.run.training_data import load_training_data
from pars.run_files import check_files

BATCH = {1: 256, 3: 32}  # rows of a batch: feature vectors, images
FEATURE_BATCH = 512


@dataclass(frozen=True, eq=False)
class Classifier:
    """Averaged networks with their classes and the statistics that standardize their inputs."""

    networks: tuple[nn.Module, ...]
    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    mean: tuple[float, ...]  # of each feature, or of each channel in units of 0..1
    std: tuple[float, ...]
    views: augment.Views
    device: str

    def on(self, device: DeviceName) -> Classifier:
        """The same classifier on another device."""
        where = resolve_device(device)
        if where == self.device:
            return self
        return replace(self, networks=tuple(copy.deepcopy(n).to(where) for n in self.networks), device=where)

    def predict_proba(self, inputs: Inputs | npt.NDArray[np.float64], where: str = "inputs") -> Tensor:
        """Probabilities [n, K], the mean over networks; with views.mirror also over an image and its mirror image.

        inputs: images uint8 [n, C, H, W] or features [n, d], not standardized. A UserError names the rows as `where`.
        """
        if inputs.shape[1:] != self.input_shape:
            raise UserError(
                f"{where}: rows have shape {list(inputs.shape[1:])}, those of training had {list(self.input_shape)}"
            )
        if not len(inputs):
            raise UserError(f"{where}: no rows, expected at least one")
        is_image = len(self.input_shape) == 3
        rows: Inputs = inputs if is_image else data.standardize(inputs, self.mean, self.std, where)  # type: ignore[assignment]
        size, parts = BATCH[len(self.input_shape)], []
        for start in range(0, len(rows), size):
            part = as_tensor(np.asarray(rows[start : start + size]))  # rows on disk are read here
            # Padded to a fixed size: sums of another shape differ in their last bits, and the prediction of a row must
            # not depend on the rows beside it.
            padded = torch.cat([part, part[-1:].expand(size - len(part), *part.shape[1:])])
            found = predict_proba(self.networks, padded, self.views.test_time_views, self.device)
            parts.append(found[: len(part)])
        probabilities = torch.cat(parts)
        bad = np.flatnonzero(~probabilities.isfinite().all(dim=1).numpy())
        if bad.size:
            raise UserError(
                f"{where}: the network's output for row {bad[0]} is not finite; are its values far from the training "
                "rows?"
            )
        return probabilities


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
    n_networks, shape, classes, mean, std = _checked_note(note, folder.model)
    check_files(folder.path, folder.model.name, folder.inputs.name)
    if networks is None:
        # Who asks a trained network need not have the compiler that it was trained with; the answers are the same.
        # Weights are in the run.
        model = replace(config.model, convolution="direct", weights="none")
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


def _checked_note(
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


def training_inputs(path: str | Path, *, download: bool = True) -> Inputs:
    """The inputs of a run's training rows: pixels, or standardized features; those it was trained on, by checksum.

    download: whether a published data set that is not there may be fetched.
    """
    folder, config = open_run(path)
    recorded, given = run_inputs.read(folder)
    if given["dataset"] or given["networks"]:
        raise UserError(f"{path}: its data or network was given from Python; pass features to pars.audit.audit_run")
    training = load_training_data(
        replace(config, data=replace(config.data, download=download and config.data.download))
    )
    run_inputs.check_same(folder, recorded, training.data_record, training.noise, training.data.name)
    return training.data.train.inputs


def row_features(path: str | Path) -> npt.NDArray[Any]:
    """Features [n, d] of a run's training rows: its inputs, or for images the averaged network's last hidden layer."""
    rows = training_inputs(path)
    if rows.dtype == np.float32:
        return rows
    classifier = load_run(path)
    with torch.no_grad():
        parts = [
            features_of(classifier.networks[0], classifier.views.plain(part.to(classifier.device))).cpu().numpy()
            for start in range(0, len(rows), FEATURE_BATCH)
            for part in [as_tensor(np.asarray(rows[start : start + FEATURE_BATCH]))]
        ]
    return np.concatenate(parts)
