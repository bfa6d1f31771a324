"""Classifiers for scikit-learn: fit on labels that may be wrong, from one training run."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pars import audit, run
from pars.audit import AuditReport
from pars.data import Dataset, Split, channel_statistics
from pars.engine import Interrupted, Trainer
from pars.errors import UserError
from pars.estimator.configure import configuration
from pars.estimator.labels import REFUSE, read_labels
from pars.estimator.model import Model
from pars.estimator.rows import read, reader_of
from pars.estimator.watch import Recorder


class KeptEarlierWarning(UserWarning):
    """The last stage of training did not help on held-out labels: an earlier stage's weights were kept."""


class RobustClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network trained by any method of `pars methods` on labels that may be wrong.

    Everything has a default that is chosen from the data (`pars.estimator.auto`, docs/estimator.md).

    method: a name from `pars methods`; method_params: its hyper-parameters.
    network: "auto", a name ("mlp", "linear", "small_cnn", "preact_resnet18"), a dict of its settings (`ModelConfig`),
        or a function of (input shape, number of classes) that returns a torch module.
    epochs, batch_size, lr: "auto" or numbers; train_params: further fields of `TrainConfig`.
    views: "auto", or a dict of fields of `ViewsConfig`: what the weak and strong views of a row are.
    holdout: share of the labelled rows kept from training to judge stages by; "auto" is none below 500 rows.
    keep: which weights to end with, "last", "best-stage" or "best-epoch" (judged by held-out labels), or "auto".
    unlabeled: the value in y that marks rows without a label, for example -1 or ""; None or NaN: any missing value.
        By default every row has to have a label.
    device: "auto", "cpu" or "cuda". random_state: as everywhere in scikit-learn. verbose: 1 shows progress on stderr.

    After fit: classes_, n_features_in_, feature_names_in_ (of a frame), history_ (one dict per epoch), kept_ (stage and
    epoch of the weights), config_ (everything that was chosen), model_ (the networks),
    dynamics_ (what `audit` reads).
    """

    def __init__(
        self,
        method: str = "pars",
        *,
        method_params: Mapping[str, Any] | None = None,
        network: Any = "auto",
        epochs: int | str = "auto",
        batch_size: int | str = "auto",
        lr: float | str = "auto",
        train_params: Mapping[str, Any] | None = None,
        views: Mapping[str, Any] | str = "auto",
        holdout: float | str = "auto",
        keep: str = "auto",
        unlabeled: Any = REFUSE,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.method_params = method_params
        self.network = network
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.train_params = train_params
        self.views = views
        self.holdout = holdout
        self.keep = keep
        self.unlabeled = unlabeled
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows X and given labels y [n]; X: [n, d] numbers, uint8 images, a tensor or a frame of numbers."""
        checked = read(self, X, fitting=True)
        labels, classes = read_labels(self, y, checked, self.unlabeled)
        reader = reader_of(checked)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows = reader.apply(checked)
        mean, std = channel_statistics(rows) if rows.dtype == np.uint8 else ((), ())  # type: ignore[arg-type]
        dataset = Dataset("X", Split(rows, labels), None, tuple(map(str, classes)), mean, std)
        config = configuration(self.get_params(deep=False), dataset, seed)
        with torch.random.fork_rng():
            trainer = self._train(config, dataset)
        self.classes_, self.config_ = classes, config
        self._note(trainer)
        self.model_ = Model.of(trainer, reader)
        looked = None if trainer.dynamics is None else trainer.dynamics.rows(trainer.labels, trainer.held_out)
        self.dynamics_ = None if looked is None else {name: tensor.numpy() for name, tensor in looked.items()}
        return self

    def _train(self, config: run.RunConfig, dataset: Dataset) -> Trainer:
        prepared = run.prepare(config, dataset)
        networks = None
        if callable(self.network):
            shape = tuple(dataset.train.inputs.shape[1:])
            networks = [self.network(shape, dataset.n_classes) for _ in range(config.method.networks)]
        recorder = Recorder(verbose=bool(self.verbose))
        trainer = run.build(config, prepared, None, networks=networks, watcher=recorder, title=self.method)
        try:
            trainer.run()
        except Interrupted as stop:  # its handlers are gone: ask again for what the signal usually does
            signal.raise_signal(stop.signal)
            raise KeyboardInterrupt from stop
        self.history_ = recorder.lines
        return trainer

    def _note(self, trainer: Trainer) -> None:
        """What became of training, and a warning where its last stage was in vain."""
        last = self.history_[-1]
        kept = trainer.kept
        self.kept_ = {"stage": last["stage"], "epoch": last["epoch"]} if kept is None else kept.note()
        if self.kept_["stage"] != last["stage"]:
            accuracy = {line["epoch"]: line["holdout"]["ema"] for line in self.history_ if "holdout" in line}
            warnings.warn(
                f"kept the weights of stage {self.kept_['stage']!r}, epoch {self.kept_['epoch']}: on held-out labels "
                f"they agree with {accuracy[self.kept_['epoch']]:.1f} %, those of the last stage, {last['stage']!r}, "
                f"with {accuracy[last['epoch']]:.1f} %",
                KeptEarlierWarning,
                stacklevel=3,
            )

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        """Probabilities [n, K], columns in the order of classes_."""
        check_is_fitted(self)
        return self.model_.predict_proba(read(self, X, fitting=False), self.device)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row [n]."""
        probabilities = self.predict_proba(X)
        found: npt.NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return found

    def audit(self, X: Any = None) -> AuditReport:
        """Which of the labels given to fit are wrong, and what they should be (docs/audit.md).

        X: the rows given to fit, if each row's nearest neighbours shall be asked as well.
        """
        check_is_fitted(self)
        if self.dynamics_ is None:
            raise UserError("fit recorded nothing to audit: train_params has dynamics_every = 0, expected 1 or more")
        features = None if X is None else self.model_.reader.apply(read(self, X, fitting=False))
        found = audit.from_dynamics(self.dynamics_, classes=tuple(map(str, self.classes_)), features=features)
        columns = {"given_label": found.given, "suggested_label": found.suggested, "predicted_label": found.predicted}
        return replace(found, **{name: self._labels(numbers) for name, numbers in columns.items()})

    def _labels(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Class numbers as y had the labels; None for a row without one."""
        labels: npt.NDArray[Any] = self.classes_[numbers]
        return np.where(numbers < 0, None, labels.astype(object)) if (numbers < 0).any() else labels


class PARSClassifier(RobustClassifier):
    """PARS (Goel et al. 2022) with settings chosen from the data: `PARSClassifier().fit(X, y)`.

    Parameters and attributes are those of RobustClassifier.
    """
