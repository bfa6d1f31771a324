"""Leave-one-out probabilities of a linear model: each row's from all other rows, exact, without n trainings.

A network has seen the labels it is asked about. Ridge regression from the features to the labels is weaker, but has a
closed form for its prediction of a row left out (Allen 1974), so that no label influences its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

LARGEST = 4096  # of rows or features, the fewer: the eigenvectors of so large a matrix take minutes
PENALTIES = 13  # tried, from a thousandth to a thousand times the mean eigenvalue
JUDGED_ROWS = 20_000  # by whose labels the penalty is chosen
BLOCK = 2**24  # values held at a time in float64
KEPT = 2**25  # values of all rows in the basis that are kept, not computed twice
SHARPNESS = 10.0  # from regression to logits; whoever reads the probabilities fits a temperature


def leave_one_out(inputs: Tensor, labels: Tensor, n_classes: int) -> Tensor | None:
    """Probabilities [n, K] in float16 of feature vectors [n, d], each without its own label; labels of -1 are none.

    None for images and texts, where there is too much to compute, or too few labels to leave one out.
    """
    x, labels = inputs.detach().cpu(), labels.cpu()
    known = torch.nonzero(labels >= 0)[:, 0]
    if x.ndim != 2 or x.dtype == torch.int32 or min(len(known), x.shape[1]) > LARGEST or len(known) < 3:
        return None
    regression = Regression(x, labels, n_classes)
    judged = torch.zeros(len(x), dtype=torch.bool)
    judged[known[torch.linspace(0, len(known) - 1, min(len(known), JUDGED_ROWS)).round().long()]] = True
    penalties = (regression.values.mean() * torch.logspace(-3, 3, PENALTIES, dtype=torch.float64)).tolist()
    parts = torch.split(torch.arange(len(x)), regression.block)
    met = torch.zeros(PENALTIES, dtype=torch.long)
    projected: list[Tensor] = []  # the product that costs most, kept for the second pass where it is small enough
    for part in parts:
        z = regression.projected(part)
        some = torch.nonzero(judged[part])[:, 0]
        own = labels[part][some]
        of_judged = z if len(some) == len(z) else z[some]
        for number, answers in enumerate(regression.without_own(of_judged, own, penalties)):
            met[number] += (answers.argmax(dim=1) == own).sum()
        if len(x) * z.shape[1] <= KEPT:
            projected.append(z)
    best = max(zip(met.tolist(), penalties, strict=True))[1]
    out = []
    for number, part in enumerate(parts):
        z = projected[number] if projected else regression.projected(part)
        (answers,) = regression.without_own(z, labels[part], [best])
        out.append((SHARPNESS * answers).softmax(dim=1).half())
    return torch.cat(out)


class Regression:
    """Ridge regression of one-hot labels for every penalty: in the basis of the rows' principal axes its normal
    equations are diagonal. Rows are standardized by those with a label, a block at a time in float64.

    x: [n, d]. labels: [n], those of -1 are not fitted.
    """

    values: Tensor  # [r] eigenvalues of the rows' scatter matrix, but for those that are zero
    basis: Tensor  # [d, r] its eigenvectors

    def __init__(self, x: Tensor, labels: Tensor, n_classes: int) -> None:
        self._x, self.block = x, max(1, BLOCK // x.shape[1])
        # A copy, changed below: not converted anew for each sum.
        self._whole = x.to(torch.float64, copy=True) if len(x) <= self.block else None
        known = torch.nonzero(labels >= 0)[:, 0]
        self._n, blocks = len(known), torch.split(known, self.block)
        self._mean: Tensor = reduce(torch.add, (self._rows(some).sum(dim=0) for some in blocks)) / self._n
        squares = reduce(torch.add, ((self._rows(some) - self._mean).square_().sum(dim=0) for some in blocks))
        std = (squares / self._n).sqrt()
        self._std = torch.where(std > 1e-12 * self._mean.abs().clamp_min(1), std, 1.0)
        if self._whole is not None:
            self._whole.sub_(self._mean).div_(self._std)
        if x.shape[1] <= self._n:
            # numpy multiplies a matrix by its own transpose at half of the cost.
            scatter = reduce(np.add, (z.T @ z for some in blocks for z in (self.standardized(some).numpy(),)))
            values, vectors = torch.linalg.eigh(torch.from_numpy(scatter))
            kept = values > 1e-10 * values[-1]
            self.values, self.basis = values[kept], vectors[:, kept]
        else:
            z = self.standardized(known)
            values, vectors = torch.linalg.eigh(z @ z.T)
            kept = values > 1e-10 * values[-1]
            self.values, self.basis = values[kept], z.T @ (vectors[:, kept] / values[kept].sqrt())
        self._prior = torch.bincount(labels[known], minlength=n_classes).double() / self._n  # [K]
        products: Tensor = reduce(
            torch.add, (self.standardized(some).T @ (one_hot(labels[some], n_classes) - self._prior) for some in blocks)
        )
        self._products = self.basis.T @ products  # [r, K] of the rows in this basis with the labels

    def _rows(self, rows: Tensor) -> Tensor:
        if self._whole is None:
            return self._x[rows].double()
        return self._whole if len(rows) == len(self._whole) else self._whole[rows]  # all rows without a copy

    def standardized(self, rows: Tensor) -> Tensor:
        """Rows [m, d] by their numbers [m], in float64."""
        return self._rows(rows) if self._whole is not None else (self._rows(rows) - self._mean) / self._std

    def projected(self, rows: Tensor) -> Tensor:
        """Rows [m, r] in the basis, by their numbers [m]; the product, which costs most, in float32."""
        return (self.standardized(rows).float() @ self.basis.float()).double()

    def without_own(self, z: Tensor, labels: Tensor, penalties: Sequence[float]) -> Iterator[Tensor]:
        """For each penalty, answers [m, K] to projected rows z [m, r], what their own labels [m] did to them taken out.

        f_i without row i is (f_i - h_i y_i) / (1 - h_i), h_i the weight of y_i in f_i.
        """
        own, n_classes = one_hot(labels.clamp_min(0), len(self._prior)), len(self._prior)
        shrunk = 1 / (self.values[:, None] + torch.tensor(penalties, dtype=torch.float64))  # [r, penalties]
        weights = (1 / self._n + (z * z) @ shrunk).clamp(max=1 - 1e-9) * (labels >= 0)[:, None]
        at_once = max(1, z.shape[1] // n_classes)  # one product for several, no larger than z
        for first in range(0, len(penalties), at_once):
            some = shrunk[:, first : first + at_once, None] * self._products[:, None]
            for number, answers in enumerate(torch.split(z @ some.flatten(1), n_classes, dim=1), first):
                weight = weights[:, number, None]
                yield (self._prior + answers - weight * own) / (1 - weight)
