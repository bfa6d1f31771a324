"""Logistic regression whose L2 penalty is chosen by cross-validation on the given labels."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pars.classic.model import Arrays, Floats, Integers
from pars.errors import UserError

_ITERATIONS = 1000
_TOLERANCE = 1e-4  # of the solver, scikit-learn's
_JUDGED_TOLERANCE = 3e-3  # where a model is only compared: a third of the time, the same agreement to 0.004


@dataclass(frozen=True, kw_only=True)
class LogisticRegression:
    """Multinomial logistic regression of standardized features, as scikit-learn fits it."""

    Cs: tuple[float, ...] = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 0.1, 1.0, 10.0)  # tried; C is 1 over the penalty
    folds: int = 5  # of the cross-validation

    def __post_init__(self) -> None:
        if not self.Cs or not all(0 < C < math.inf for C in self.Cs):
            raise UserError(f"method.Cs is {list(self.Cs)}, expected numbers above 0")
        if not 2 <= self.folds <= 1000:
            raise UserError(f"method.folds is {self.folds}, expected a whole number from 2 to 1000")

    def fit(
        self, x: Floats, labels: Integers, n_classes: int, seed: int
    ) -> tuple[LinearModel, npt.NDArray[np.float64]]:
        """The model with the C that predicts most labels of rows left out, and those rows' probabilities.

        Labels that are wrong at random are predicted as often with any C, so accuracy chooses the same C as right
        labels would. Their likelihood would choose the C that fits the noise; it decides between equals.
        """
        from sklearn.model_selection import StratifiedKFold  # lists of methods do not wait for it

        folds = min(self.folds, int(np.bincount(labels).max()))
        if folds < 2:
            raise UserError("logistic-regression needs a class with two labeled rows, to leave one of them out")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a class with fewer rows than folds; a fit that has not quite converged
            split = list(StratifiedKFold(folds, shuffle=True, random_state=seed % 2**32).split(x, labels))
            paths = [_Path(x[train], labels[train], n_classes) for train, _ in split]
            out_of_fold: dict[float, npt.NDArray[np.float64]] = {}
            for C in sorted(self.Cs):
                out_of_fold[C] = p = np.zeros((len(x), n_classes))
                for path, (_, test) in zip(paths, split, strict=True):
                    p[test] = path.fit(C).predict_proba(x[test])
                accuracies = [_quality(found, labels)[0] for found in out_of_fold.values()]
                # Below C = 1/n the penalty outweighs the rows: accuracy goes up and down with the intercepts of folds.
                if C * len(x) >= 1 and _is_past_best(accuracies, len(x)):
                    break
            best = max(out_of_fold, key=lambda C: _quality(out_of_fold[C], labels))
            model = _Path(x, labels, n_classes).fit(best)
        return model, out_of_fold[best]

    def fit_judged(
        self, x: Floats, labels: Integers, n_classes: int, judged: tuple[Floats, Integers]
    ) -> tuple[LinearModel, npt.NDArray[np.int64]]:
        """The model with the C that predicts most labels of other rows, and its predictions of them: no folds."""
        path, (x_judged, expected) = _Path(x, labels, n_classes, _JUDGED_TOLERANCE), judged
        found: list[tuple[float, LinearModel, npt.NDArray[np.int64]]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that has not quite converged
            for C in sorted(self.Cs):
                model = path.fit(C)
                predicted = model.predict_proba(x_judged).argmax(axis=1)
                found.append((float((predicted == expected).mean()), model, predicted))
                if C * len(x) >= 1 and _is_past_best([accuracy for accuracy, *_ in found], len(expected)):
                    break
        _, best, predicted = max(found, key=lambda one: one[0])
        return best, predicted


@dataclass(frozen=True, eq=False)
class LinearModel:
    """softmax(W x + b); classes without a row have probability 0. Shapes: W [K, d], b [K]."""

    weight: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]

    def predict_proba(self, x: Floats) -> npt.NDArray[np.float64]:
        logits = np.asarray(x, dtype=np.float64) @ self.weight.T + self.bias
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        out: npt.NDArray[np.float64] = p / p.sum(axis=1, keepdims=True)
        return out

    def arrays(self) -> Arrays:
        return {"weight": self.weight, "bias": self.bias}

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> Self:
        return cls(arrays["weight"], arrays["bias"])


def _quality(p: npt.NDArray[np.float64], labels: Integers) -> tuple[float, float]:
    """Accuracy and mean log-probability of labels; a class that was not there to learn counts as 1e-15."""
    of_label = p[np.arange(len(labels)), labels]
    return float((p.argmax(axis=1) == labels).mean()), float(np.log(of_label.clip(1e-15)).mean())


def _is_past_best(accuracies: list[float], n: int) -> bool:
    """Whether the last penalty is clearly worse than an earlier one, so that weaker ones need not be tried.

    Clearly: by two standard errors of an accuracy on n rows. Weak penalties fit wrong labels best and take longest.

    >>> _is_past_best([0.4, 0.5, 0.48], 10_000), _is_past_best([0.4, 0.5, 0.495], 10_000)
    (True, False)
    >>> _is_past_best([1.0, 59 / 60], 60)   # all of a few rows: the accuracy is not known exactly
    False
    """
    best = max(accuracies)
    share = (best * n + 1) / (n + 2)  # never 0 or 1, where the standard error would vanish
    return accuracies[-1] < best - 2 * math.sqrt(share * (1 - share) / n)


class _Path:
    """The models of some rows for increasing C, each begun where the last one ended."""

    def __init__(self, x: Floats, labels: Integers, n_classes: int, tolerance: float = _TOLERANCE) -> None:
        from sklearn.linear_model import LogisticRegression as Solver

        self._x, self._labels, self._n_classes = x, labels, n_classes  # float32 takes half the time of float64
        self._solver: Any = Solver(max_iter=_ITERATIONS, tol=tolerance, warm_start=True)

    def fit(self, C: float) -> LinearModel:
        solver, k = self._solver.set_params(C=C).fit(self._x, self._labels), self._n_classes
        weight, bias = np.zeros((k, self._x.shape[1])), np.full(k, -np.inf)
        if len(solver.classes_) == 2:  # scikit-learn has the second class's logits over the first's
            bias[solver.classes_] = (0.0, float(solver.intercept_[0]))
            weight[solver.classes_[1]] = solver.coef_[0]
        else:
            weight[solver.classes_], bias[solver.classes_] = solver.coef_, solver.intercept_
        return LinearModel(weight, bias)
