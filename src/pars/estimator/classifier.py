"""Classifiers for scikit-learn: fit on labels that may be wrong, from one training run."""

from __future__ import annotations

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

from pars.audit import AuditReport, from_dynamics
from pars.data import standardize
from pars.engine import resend_interrupt, show_progress
from pars.errors import EncoderChosenWarning, UserError
from pars.estimator.labels import REFUSE, read_labels
from pars.estimator.rows import fit_rows, opened_first, read_rows
from pars.fitting import ClassicTraining, Training, no_progress, train_dataset


class EarlierCheckpointWarning(UserWarning):
    """The last stage of training did not help on held-out labels: the checkpoint of an earlier stage was selected."""


class RobustClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier trained by any method of `pars methods` on labels that may be wrong.

    Everything has a default that is chosen from the data (`pars.autoconfig`, docs/estimator.md).

    method: a name from `pars methods`; method_params: its hyper-parameters. "auto": a few methods are tried for less
        than a third of the epochs each, and held-out labels choose.
    network: "auto", a name ("mlp", "linear", "small_cnn", "fast_cnn", …), a pre-trained network ("timm:resnet18",
        "hf:NAME", also of texts, "lite0"), a dict of settings (`ModelConfig`), or a function of (input shape, number
        of classes) that returns a torch module.
    epochs, batch_size, lr: "auto" or numbers; train_params: further fields of `TrainConfig`.
    views: "auto", or a dict of fields of `ViewsConfig`: what the weak and strong views of a row are.
    holdout: share of the labeled rows kept from training to judge stages by; "auto" is none below 500 rows.
    select: which checkpoint to end with, "last", "best-stage" or "best-epoch" (by held-out labels), or "auto".
    unlabeled: the value in y that marks rows without a label, for example -1 or ""; None or NaN: any missing value.
        By default every row has to have a label.
    encoder: what reads texts, image files or images: a name as in `pars encode --encoder`, or a function of a list of
        texts or of uint8 images [n, C, H, W] that returns [n, d]. None: TF-IDF for texts; small images are trained on
        from their pixels, others need an encoder, and lite0 is taken where it is installed.
    encoded_views: so many weak and strong views of every text or image are encoded, too, to be trained on.
    device: "auto", "cpu" or "cuda". random_state: as everywhere in scikit-learn. verbose: 1 shows progress on stderr.

    Methods that are not networks ("wann", "logistic-regression") need features; of the parameters above they take
    method, method_params, holdout, unlabeled, encoder and random_state.

    After fit: classes_, n_features_in_ (of numbers, frames and images), feature_names_in_ (of a frame), history_ (one
    dict per epoch), selected_checkpoint_ (its stage and epoch), config_ (everything that was chosen), trials_ (held-out
    labels met by each loss, network and method that was tried, %), model_ (networks), dynamics_ (what `audit` reads).
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
        select: str = "auto",
        unlabeled: Any = REFUSE,
        encoder: Any = None,
        encoded_views: int = 0,
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
        self.select = select
        self.unlabeled = unlabeled
        self.encoder = encoder
        self.encoded_views = encoded_views
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows X and given labels y [n].

        X: [n, d] numbers, uint8 images, a tensor, a frame of numbers, words and texts, or a list, an array or a series
        of texts or of paths of images.
        """
        if isinstance(self.network, torch.nn.Module):  # it could be trained only once
            raise UserError(
                f"network is a {type(self.network).__name__}, expected a function of a row's shape and the number of "
                "classes that returns a new network"
            )
        opened = opened_first(self, X)
        labels, classes = read_labels(self, y, opened, self.unlabeled)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows, preprocessor = fit_rows(self, opened, seed)
        if preprocessor is not None and preprocessor.note:
            warnings.warn(preprocessor.note, EncoderChosenWarning, stacklevel=2)
        dataset = replace(rows, train=replace(rows.train, labels=labels), classes=tuple(map(str, classes)))
        with torch.random.fork_rng(), resend_interrupt():
            training = train_dataset(
                dataset,
                self.get_params(deep=False),
                seed,
                network=self.network if callable(self.network) else None,
                progress=show_progress if self.verbose else no_progress,
            )
        self.classes_, self.preprocessor_, self.dynamics_ = classes, preprocessor, training.dynamics()
        self.model_: Any
        self.config_: Any
        self.history_: list[dict[str, Any]]
        self.selected_checkpoint_: dict[str, Any] | None
        if isinstance(training, ClassicTraining):
            self.model_, self.config_ = training.fit.classifier, training.fit.settings
            self.trials_, self.history_, self.selected_checkpoint_ = {}, [], None
        else:
            self.model_, self.config_ = training.trained.classifier(), training.trained.config
            self.trials_ = training.trials
            self._record(training)
        return self

    def _record(self, training: Training) -> None:
        """Set the history and the selected checkpoint, and warn where the last stage did not help."""
        trainer = training.trained.trainer
        assert trainer is not None
        self.history_ = trainer.history
        last = self.history_[-1]
        last_checkpoint = {"stage": last["stage"], "epoch": last["epoch"]}
        selected = last_checkpoint if trainer.selected is None else trainer.selected.note()
        self.selected_checkpoint_ = selected
        if selected["stage"] != last["stage"]:
            accuracy = {line["epoch"]: line["holdout"]["ema"] for line in self.history_ if "holdout" in line}
            warnings.warn(
                f"selected the checkpoint of stage {selected['stage']!r}, epoch {selected['epoch']}: it predicts "
                f"{accuracy[selected['epoch']]:.1f} % of held-out labels, the last stage, {last['stage']!r}, "
                f"{accuracy[last['epoch']]:.1f} %",
                EarlierCheckpointWarning,
                stacklevel=3,
            )

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        """Probabilities [n, K], columns in the order of classes_."""
        check_is_fitted(self)
        rows = read_rows(self, X, self.preprocessor_)
        found: npt.NDArray[np.float32] = self.model_.on(self.device).predict_proba(rows, "X").numpy()
        return found

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row [n]."""
        probabilities = self.predict_proba(X)
        found: npt.NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return found

    def audit(self, X: Any = None) -> AuditReport:
        """Which of the labels that were fitted are wrong, and what they should be; from this one fit (docs/audit.md).

        X: the rows of fit once more, for the votes of nearest neighbors: one more estimate, one more reason in words.
        """
        check_is_fitted(self)
        if self.dynamics_ is None:
            raise UserError("nothing was recorded to audit by: fitted with train_params={'dynamics_every': 0}")
        features = None if X is None else self._features(X)
        found = from_dynamics(self.dynamics_, classes=[str(name) for name in self.classes_], features=features)
        return replace(
            found,
            given_label=self._as_given(found.given),
            suggested_label=self._as_given(found.suggested),
            predicted_label=self._as_given(found.predicted),
        )

    def _features(self, X: Any) -> npt.NDArray[Any] | None:
        """The rows of fit as the network saw them; token numbers have no neighbors."""
        rows, model = read_rows(self, X, self.preprocessor_), self.model_
        if rows.dtype == np.int32:
            return None
        return rows if rows.ndim == 4 else standardize(rows, model.mean, model.std, "X")

    def _as_given(self, classes: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Class numbers [n] as y has the labels; None for a row without one."""
        labels: npt.NDArray[Any] = self.classes_[classes]
        if (missing := classes < 0).any():
            labels = labels.astype(object)
            labels[missing] = None
        return labels


class PARSClassifier(RobustClassifier):
    """PARS (Goel et al. 2022) with settings chosen from the data: `PARSClassifier().fit(X, y)`.

    Parameters and attributes are those of RobustClassifier.
    """
