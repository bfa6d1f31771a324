"""`apply`: from a configuration and true labels to given labels and their record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pars.errors import UserError
from pars.noise.config import KINDS_WITH_RATE, NoiseConfig
from pars.noise.corrupt import Labels, corrupt_by_features, corrupt_by_map, corrupt_by_matrix, corrupt_uniform
from pars.noise.read import read_labels, read_matrix
from pars.noise.record import NoisyLabels, describe
from pars.noise.transition import class_map, resolve_map, transition_matrix
from pars.seeds import generator


def apply(
    config: NoiseConfig,
    true_labels: Labels,
    n_classes: int,
    *,
    seed: int,
    inputs: npt.NDArray[np.generic] | None = None,
    file_labels: npt.ArrayLike | None = None,
    classes: Sequence[str] | None = None,
) -> NoisyLabels:
    """Return the given labels of a configuration, with their record. Does not change `true_labels`.

    true_labels: [n], -1 for unlabeled rows, which stay unlabeled.
    seed: the run's; `config.seed` takes precedence.
    inputs: [n, ...], needed for instance noise.
    file_labels: [n], the labels of kind "file"; by default read from `config.path`.
    classes: names of the classes, for label files that contain names.

    >>> config = NoiseConfig(kind="symmetric", rate=0.45)
    >>> noisy = apply(config, np.arange(1000) % 10, 10, seed=1)
    >>> noisy.record.convention, round(noisy.record.realized_rate, 1)
    ('inclusive', 0.4)
    """
    labels = _check_labels(true_labels, n_classes, "true labels")
    if n_classes < 2 and config.kind in KINDS_WITH_RATE:
        raise UserError(f"noise.kind = {config.kind!r} needs at least 2 classes; the data has {n_classes}")
    if file_labels is not None and config.kind != "file":
        raise UserError(
            f"labels from a file were given, but noise.kind is {config.resolved().kind!r}; set it to 'file'"
        )
    if config.is_none:
        return NoisyLabels(labels, describe(labels, labels, n_classes, kind="none", rate=0.0))
    if config.kind == "file":
        given = _from_file(config, labels, n_classes, file_labels, classes)
        return NoisyLabels(given, describe(labels, given, n_classes, kind="file"))
    seed = seed if config.seed is None else config.seed
    given, convention = _draw(config, labels, n_classes, inputs, generator(seed, "noise"))
    rate = config.rate if config.kind in KINDS_WITH_RATE else None
    record = describe(labels, given, n_classes, kind=config.kind, convention=convention, rate=rate, seed=seed)
    return NoisyLabels(given, record)


def _check_labels(labels: npt.ArrayLike, n_classes: int, what: str) -> Labels:
    """Return a copy as int64; a UserError naming the first row that is neither -1 nor a class number."""
    array = np.asarray(labels)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise UserError(f"{what} must be class numbers [n], not an array {array.shape} of {array.dtype}")
    bad = (array < -1) | (array >= n_classes)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise UserError(f"{what}: row {row} is {array[row]}; labels go from 0 to {n_classes - 1}, -1 means unlabeled")
    return array.astype(np.int64)


def _draw(
    config: NoiseConfig,
    labels: Labels,
    n_classes: int,
    inputs: npt.NDArray[np.generic] | None,
    rng: np.random.Generator,
) -> tuple[Labels, str | None]:
    """Return the given labels and the convention by which they were drawn."""
    if config.kind == "instance":
        if inputs is None or len(inputs) != len(labels):
            has = "got none" if inputs is None else f"got {len(inputs)}"
            raise UserError(f"noise.kind = 'instance' needs the inputs of all {len(labels)} rows; {has}")
        return corrupt_by_features(labels, inputs, n_classes, config.rate, rng), None
    if config.kind == "matrix":
        assert config.path is not None  # by NoiseConfig
        return corrupt_by_matrix(labels, read_matrix(config.path, n_classes), rng), None
    if config.kind == "symmetric" and config.convention == "inclusive":
        return corrupt_uniform(labels, n_classes, config.rate, rng), "inclusive"
    if config.kind == "asymmetric":
        name = resolve_map(config.asymmetric_map, n_classes)
        if name == "cifar10":  # as in DivideMix, which the paper's tables follow; 100 classes follow Patrini
            return corrupt_by_map(labels, class_map(name, n_classes), config.rate, rng), name
        return corrupt_by_matrix(
            labels, transition_matrix("asymmetric", n_classes, config.rate, asymmetric_map=name), rng
        ), name
    transition = transition_matrix(config.kind, n_classes, config.rate, convention=config.convention)
    return corrupt_by_matrix(labels, transition, rng), config.convention if config.kind == "symmetric" else None


def _from_file(
    config: NoiseConfig,
    labels: Labels,
    n_classes: int,
    file_labels: npt.ArrayLike | None,
    classes: Sequence[str] | None,
) -> Labels:
    if file_labels is None and config.path is None:
        raise UserError("noise.kind = 'file' needs noise.path: a file of labels (.npy, .csv, .json, or CIFAR-N's .pt)")
    where = f"noise.path {config.path}" if config.path is not None else "file labels"
    if file_labels is None:
        assert config.path is not None
        file_labels = read_labels(config.path, classes)
    given = _check_labels(file_labels, n_classes, where)
    if len(given) != len(labels):
        raise UserError(f"{where}: {len(given)} labels for {len(labels)} rows; there must be one per row")
    return np.where(labels >= 0, given, labels)
