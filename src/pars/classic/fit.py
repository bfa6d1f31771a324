"""Fit a classifier that is not a network to a data set; store it in a folder and read it back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import save_file
from torch import Tensor

from pars import data
from pars.classic.catalog import CLASSIC, FILE
from pars.classic.logistic_regression import LinearModel, LogisticRegression
from pars.classic.model import ClassicModel, ClassicSettings
from pars.classic.wann import WANN, NeighborVotes
from pars.data import Dataset, Split
from pars.errors import UserError
from pars.files import read_arrays, remove_halves, write_atomically

_MODELS: dict[str, type[ClassicModel]] = {"wann": NeighborVotes, "logistic-regression": LinearModel}


@dataclass(frozen=True, eq=False)
class ClassicClassifier:
    """A fitted model with its classes and the statistics that standardize its inputs; predicts as a network does."""

    model: ClassicModel
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (len(self.mean),)

    def on(self, device: str) -> ClassicClassifier:
        """Itself: it is on the CPU wherever it is asked for."""
        return self

    def predict_proba(self, inputs: npt.NDArray[Any], where: str = "inputs") -> Tensor:
        """Probabilities [n, K], float32, of features [n, d] that are not standardized."""
        if inputs.shape[1:] != self.input_shape:
            raise UserError(
                f"{where}: rows have shape {list(inputs.shape[1:])}, those of training had {list(self.input_shape)}"
            )
        if not len(inputs):
            raise UserError(f"{where}: no rows, expected at least one")
        x = data.standardize(inputs, self.mean, self.std, where)
        return torch.from_numpy(self.model.predict_proba(x).astype(np.float32))


@dataclass(frozen=True, eq=False)
class ClassicFit:
    """A fitted classifier, and its probabilities of every training row.

    A row that was fitted has out-of-fold probabilities; others, held out or unlabeled, have the classifier's own.
    """

    name: str
    settings: ClassicSettings
    classifier: ClassicClassifier
    probabilities: npt.NDArray[np.float32]  # [n, K]
    given: npt.NDArray[np.int64]  # [n] labels, -1 = unlabeled
    held_out: npt.NDArray[np.bool_]  # [n]

    def evidence(self) -> dict[str, npt.NDArray[Any]]:
        """What `audit.from_dynamics` reads."""
        return {"late": self.probabilities, "given": self.given, "held_out": self.held_out}


def fit_classic(
    name: str,
    dataset: Dataset,
    *,
    params: Mapping[str, Any] | None = None,
    seed: int = 0,
    held_out: npt.NDArray[np.bool_] | None = None,
) -> ClassicFit:
    """Fit the classifier of that name to the labeled rows that are not held out. `params`: its hyper-parameters."""
    if dataset.train.is_image:
        raise UserError(
            f"{name} needs feature vectors, but the rows are images: an encoder makes features of them "
            "(encoder=..., pars fit --encoder, pars encode)"
        )
    settings = _settings(name, params or {})
    dataset = data.standardized(dataset)
    mean, std = dataset.mean, dataset.std
    x = np.asarray(dataset.train.inputs, dtype=np.float32)
    if isinstance(settings, WANN) and not settings.standardize:
        x = (x * np.asarray(std) + np.asarray(mean)).astype(np.float32)
        mean, std = (0.0,) * x.shape[1], (1.0,) * x.shape[1]
    labels = dataset.train.labels
    held_out = np.zeros(len(labels), dtype=bool) if held_out is None else held_out
    used = np.flatnonzero((labels >= 0) & ~held_out)
    if len(np.unique(labels[used])) < 2:
        raise UserError(f"{name} needs labels of at least two classes that are not held out")
    model, out_of_fold = settings.fit(x[used], labels[used], dataset.n_classes, seed)
    probabilities = np.zeros((len(labels), dataset.n_classes), dtype=np.float32)
    probabilities[used] = out_of_fold
    others = np.setdiff1d(np.arange(len(labels)), used)
    if len(others):
        probabilities[others] = model.predict_proba(x[others])
    classifier = ClassicClassifier(model, dataset.classes, mean, std)
    return ClassicFit(name, settings, classifier, probabilities, labels, held_out)


def linear_predictions(
    dataset: Dataset, trained_on: npt.NDArray[np.bool_], judged: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Classes that logistic regression on the rows `trained_on` predicts for the rows `judged`.

    Its penalty is the one that predicts most labels of the judged rows: one path of fits, a fifth of the cost of
    `fit_classic`.
    """
    x, labels = np.asarray(data.standardized(dataset).train.inputs, dtype=np.float32), dataset.train.labels
    _, predicted = LogisticRegression().fit_judged(
        x[trained_on], labels[trained_on], dataset.n_classes, (x[judged], labels[judged])
    )
    return predicted


def save_fit(fit: ClassicFit, folder: Path, *, rows: Split | None = None) -> None:
    """Write a fit to a folder, whole or not at all, with the checksum of the rows that it was fitted to."""
    arrays = {f"model.{name}": array for name, array in fit.classifier.model.arrays().items()}
    arrays |= {"probabilities": fit.probabilities, "given": fit.given, "held_out": fit.held_out}
    arrays |= {"mean": np.array(fit.classifier.mean), "std": np.array(fit.classifier.std)}
    note = {"method": fit.name, "settings": asdict(fit.settings), "classes": fit.classifier.classes}  # type: ignore[call-overload]
    if rows is not None:
        note["rows_blake2b"] = _checksum(rows)

    def write(beside: Path) -> None:
        whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        save_file(whole, str(beside), metadata={"pars": json.dumps(note)})

    folder.mkdir(parents=True, exist_ok=True)
    remove_halves(folder)
    write_atomically(folder / FILE, write)


def _checksum(rows: Split) -> str:
    digest = hashlib.blake2b(np.ascontiguousarray(rows.inputs).data, digest_size=16)
    digest.update(rows.labels.tobytes())
    return digest.hexdigest()


def load_fit(folder: Path, *, rows: Split | None = None) -> ClassicFit:
    """Read a fit from its folder; a UserError where it was not fitted to these rows."""
    path = folder / FILE
    arrays, note = read_arrays(path)
    if rows is not None and note.get("rows_blake2b") != _checksum(rows):
        raise UserError(f"{path} was fitted to other rows than those of {folder.parent}; copied from another fit?")
    try:
        name, classes = note["method"], tuple(map(str, note["classes"]))
        model = _MODELS[name].of_arrays(
            {key.removeprefix("model."): array for key, array in arrays.items() if key.startswith("model.")}
        )
        mean, std = (tuple(arrays[key].tolist()) for key in ("mean", "std"))
        classifier = ClassicClassifier(model, classes, mean, std)
        return ClassicFit(
            name,
            _settings(name, note["settings"]),
            classifier,
            arrays["probabilities"],
            arrays["given"],
            arrays["held_out"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error!r}") from error


def _settings(name: str, params: Mapping[str, Any]) -> ClassicSettings:
    """The hyper-parameters of a classifier with some of them given; a UserError names one that it does not have."""
    kind: Any = CLASSIC[name].settings
    known = [field.name for field in fields(kind)]
    for key in params:
        if key not in known:
            raise UserError(f"unknown key 'method.{key}'; {name} has: {', '.join(known)}")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in params.items()}
    try:
        settings: ClassicSettings = kind(**values)
    except TypeError as error:
        raise UserError(f"method: {values} are no hyper-parameters of {name}: {error}") from error
    return settings
