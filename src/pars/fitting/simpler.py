"""PARS, or a method chosen for the user, is returned only where a linear model on the same rows is not clearly better:
held-out labels decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from pars import autoconfig
from pars.classic import linear_predictions
from pars.data import Dataset
from pars.engine import prefers_earlier
from pars.method_api import AUTO
from pars.methods import PARSPaper
from pars.run import Trained, TrainingData

LINEAR = "logistic-regression"
SIGMAS = 2.0  # of the difference in held-out labels. Where people err alike on alike rows, a linear model predicts more
# of their labels, wrong ones included. Raised from one after that had cost test accuracy on CIFAR-10N.


def better_linear(trained: Trained, asked: str, dataset: Dataset, loaded: TrainingData) -> str | None:
    """A sentence with the held-out agreement of both, where logistic regression is clearly better than the training.

    None where it is not, or where nothing can tell: another method than PARS was asked for, rows are no feature
    vectors, none are held out. asked: the method's name, or "auto".
    Clearly: by the rule that compares the stages of a training, but at two standard deviations.
    """
    rows = dataset.train
    judged = loaded.held_out & ~loaded.judging & (rows.labels >= 0)
    trained_on = ~loaded.held_out & (rows.labels >= 0)
    is_open = asked == AUTO
    if rows.features is None or not judged.any() or not (is_open or isinstance(trained.config.method, PARSPaper)):
        return None
    if len(np.unique(rows.labels[trained_on])) < 2:
        return None
    expected = rows.labels[judged]
    linear = linear_predictions(loaded.data, trained_on, judged) == expected  # standardized already
    classifier = trained.classifier()
    d = len(classifier.mean)
    plain = replace(classifier, mean=(0.0,) * d, std=(1.0,) * d)  # of rows that are standardized already
    own = plain.predict_proba(loaded.data.train.inputs[judged]).argmax(dim=1).numpy() == expected
    if not prefers_earlier(torch.from_numpy(linear), torch.from_numpy(own), "best-stage", sigmas=SIGMAS):
        return None
    name = autoconfig.name_of(trained.config) if is_open else "PARS"
    return (
        f"logistic regression predicts {100 * linear.mean():.1f} % of {len(expected)} held-out labels, {name} "
        f"{100 * own.mean():.1f} %: logistic regression is returned"
    )
