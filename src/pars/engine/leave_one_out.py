"""Leave-one-out probabilities of a linear model: each row's from all other rows, exact, without n trainings.

A network has seen the labels it is asked about. Ridge regression from the features to the labels is weaker, but has a
closed form for its prediction of a row left out (Allen 1974), so that no label influences its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

LARGEST = 4096  # of rows or features, the fewer: the eigenvectors of so large a matrix take minutes
PENALTIES = 13  # tried, from a thousandth to a thousand times the mean eigenvalue
JUDGED_ROWS = 20_000  # by whose labels the penalty is chosen
BLOCK = 2**24  # values held at a time in float64
SHARPNESS = 10.0  # from regression to logits; whoever reads the probabilities fits a temperature


def leave_one_out(inputs: Tensor, labels: Tensor, n_classes: int) -> Tensor | None:
    """Probabilities [n, K] in float16 of feature vectors [n, d], each without its own label; labels of -1 are none.

    None where there is too much to compute, or too few labels to leave one out.
    """
    x, labels = inputs.detach().cpu(), labels.cpu()
    known = torch.nonzero(labels >= 0)[:, 0]
    if min(len(known), x.shape[1]) > LARGEST or len(known) < 3:
        return None
    regression = Regression.of(Rows(x, known), labels, n_classes)
    judged = known[torch.linspace(0, len(known) - 1, min(len(known), JUDGED_ROWS)).round().long()]
    best = (-1.0, 0.0)
    for penalty in (regression.values.mean() * torch.logspace(-3, 3, PENALTIES, dtype=torch.float64)).tolist():
        met = regression.without_own(judged, labels[judged], penalty).argmax(dim=1) == labels[judged]
        best = max(best, (float(met.double().mean()), penalty))
    parts = [torch.arange(at.start, at.stop) for at in regression.rows.blocks(len(x))]
    answers = [regression.without_own(part, labels[part], best[1]) for part in parts]
    return torch.cat([(SHARPNESS * part).softmax(dim=1).half() for part in answers])


def linear_view(inputs: Tensor, labels: Tensor, n_classes: int) -> dict[str, Tensor]:
    """Leave-one-out probabilities [n, K] under the name that the audit reads; empty for images."""
    found = leave_one_out(inputs, labels, n_classes) if inputs.ndim == 2 else None
    return {} if found is None else {"linear": found}


class Rows:
    """Feature vectors, standardized by the rows with a label, a few at a time in float64."""

    def __init__(self, x: Tensor, known: Tensor) -> None:
        self.x, self.known = x, known
        n = len(known)
        self.mean = _sum_of(x[known[at]].double().sum(dim=0) for at in self.blocks(n)) / n
        squares = _sum_of((x[known[at]].double() - self.mean).square().sum(dim=0) for at in self.blocks(n))
        std = (squares / n).sqrt()
        self.std = torch.where(std > 1e-12 * self.mean.abs().clamp_min(1), std, 1.0)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return (self.x[rows].double() - self.mean) / self.std

    def blocks(self, n: int) -> Iterator[slice]:
        size = max(1, BLOCK // self.x.shape[1])
        return (slice(start, min(n, start + size)) for start in range(0, n, size))

    def known_blocks(self) -> Iterator[Tensor]:
        return (self.known[at] for at in self.blocks(len(self.known)))

    def principal(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues [r] of the scatter matrix of rows with a label that are not zero, and its eigenvectors [d, r]."""
        if self.x.shape[1] <= len(self.known):
            values, vectors = torch.linalg.eigh(_sum_of(self[some].T @ self[some] for some in self.known_blocks()))
            kept = values > 1e-10 * values[-1]
            return values[kept], vectors[:, kept]
        z = self[self.known]
        values, vectors = torch.linalg.eigh(z @ z.T)
        kept = values > 1e-10 * values[-1]
        return values[kept], z.T @ (vectors[:, kept] / values[kept].sqrt())


@dataclass(frozen=True, eq=False)
class Regression:
    """Ridge regression of one-hot labels for every penalty: in this basis its normal equations are diagonal."""

    rows: Rows
    values: Tensor  # [r] eigenvalues
    basis: Tensor  # [d, r]
    products: Tensor  # [r, K] of the rows in this basis with the labels
    mean: Tensor  # [K] of the labels

    @classmethod
    def of(cls, rows: Rows, labels: Tensor, n_classes: int) -> Regression:
        values, basis = rows.principal()
        mean = torch.bincount(labels[rows.known], minlength=n_classes).double() / len(rows.known)
        products = _sum_of(
            (rows[some] @ basis).T @ (one_hot(labels[some], n_classes) - mean) for some in rows.known_blocks()
        )
        return cls(rows, values, basis, products, mean)

    def without_own(self, some: Tensor, labels: Tensor, penalty: float) -> Tensor:
        """Answers [m, K] to some rows, what their own labels [m] did to them taken out again.

        f_i without row i is (f_i - h_i y_i) / (1 - h_i), h_i the weight of y_i in f_i.
        """
        shrunk = 1 / (self.values + penalty)
        z = self.rows[some] @ self.basis
        answers = self.mean + z @ (shrunk[:, None] * self.products)
        weight = (1 / len(self.rows.known) + (z * z) @ shrunk).clamp(max=1 - 1e-9) * (labels >= 0)
        own = one_hot(labels.clamp_min(0), len(self.mean))
        return (answers - weight[:, None] * own) / (1 - weight[:, None])


def _sum_of(parts: Iterator[Tensor]) -> Tensor:
    total = next(parts)
    for part in parts:
        total = total + part
    return total
