"""PARS' equations once more: float64, one row at a time, straight from the paper; and steps made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pars.method_api import Batch, Network, Step
from pars.methods import PARS, PARSFast, PARSPaper

Array = npt.NDArray[np.float64]
Logits = Mapping[
    str, Tensor
]  # "raw/weak", "raw/strong", "more/weak", "more/strong": what the network says of each view

ROBUST: dict[str, Callable[[Array, int], float]] = {
    "nce+mae": lambda p, y: math.log(p[y]) / float(np.log(p).sum()) + 1 - p[y],
    "10*nce+mae": lambda p, y: 10 * math.log(p[y]) / float(np.log(p).sum()) + 1 - p[y],
    "gce(q=0.7)": lambda p, y: (1 - p[y] ** 0.7) / 0.7,
    "ce": lambda p, y: -math.log(p[y]),
}


class AsIs(nn.Module):
    """A network whose logits are its inputs."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Averaged(nn.Module):
    """Stands for the averaged weights: it is surer, and means the next class."""

    def forward(self, x: Tensor) -> Tensor:
        return 1.5 * x.roll(1, dims=1)


PROGRESS = 0.5  # share of the run that is done in every step here


def random_logits(seed: int, *, rows: int = 5, more: int = 9, classes: int = 4, size: float = 4.0) -> dict[str, Tensor]:
    rng = np.random.default_rng(seed)
    shapes = {"raw/weak": rows, "raw/strong": rows, "more/weak": more, "more/strong": more}
    return {
        name: torch.tensor(rng.uniform(-size, size, (n, classes)), dtype=torch.float32, requires_grad=True)
        for name, n in shapes.items()
    }


def random_labels(seed: int, *, rows: int = 5, classes: int = 4) -> Tensor:
    return torch.tensor(np.random.default_rng([seed, 1]).integers(classes, size=rows))


def make_step(
    logits: Logits,
    labels: Tensor,
    *,
    seed: int = 0,
    stage_progress: float = 0.5,
    net: Network | None = None,
    nets: tuple[Network, ...] | None = None,
    rows: Tensor | None = None,
    state: dict[str, Tensor] | None = None,
    epoch: int = 0,
) -> Step:
    """A step whose network copies its inputs, so that the views are the logits."""

    def batch(name: str, given: Tensor, rows: Tensor | None = None) -> Batch:
        numbers = torch.arange(len(given)) if rows is None else rows
        return Batch(numbers, given, lambda view, index: logits[f"{name}/{view}"])

    return Step(
        nets=nets or (net or Network(AsIs(), Averaged()),),
        batches={
            "labeled": batch("raw", labels, rows),
            "unlabeled": batch("more", torch.full((len(logits["more/weak"]),), -1)),
        },
        state={} if state is None else state,
        rng=np.random.default_rng(seed),
        epoch=epoch,
        progress=PROGRESS,
        stage_progress=stage_progress,
    )


def expected_losses(m: PARSPaper, logits: Logits, labels: Tensor, *, seed: int = 0) -> dict[str, float]:
    """Eq. rn, pn, reg with their weights of eq. finalloss, by name."""
    values = {name: tensor.detach().double().numpy() for name, tensor in logits.items()}
    return expected_from_arrays(m, values, labels.tolist(), seed=seed)


def expected_from_arrays(
    m: PARSPaper, logits: Mapping[str, Array], labels: Sequence[int], *, seed: int = 0
) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    fast = m if isinstance(m, PARSFast) else None
    raw = [softmax(row) for row in logits["raw/strong" if fast else "raw/weak"]]
    n_classes = len(raw[0])
    robust = ROBUST[m.robust]

    by_agreement = fast is not None and fast.agreement_start <= PROGRESS
    tau = fast.agreement_tau if fast and by_agreement else m.tau
    confident = [p.max() > tau for p in raw]
    covered = confident
    if isinstance(m, PARS) and m.robust_rows == "all":
        covered = [True] * len(raw)
    if by_agreement:
        of_teacher = [softmax(row) for row in teach(m, logits["raw/weak"])]
        covered = [int(p.argmax()) == y for p, y in zip(of_teacher, labels, strict=True)]
    right = [int(p.argmax()) == y for p, y in zip(raw, labels, strict=True) if p.max() > tau]
    odds = min(1.0, (sum(right) + len(raw) / 100) / (len(right) - sum(right) + len(raw) / 100))
    weight = odds if m.pseudo and isinstance(m, PARS) and m.raw_weight == "odds" else 1.0
    losses = {"raw": weight * subset_mean(m, [robust(p, y) for p, y in zip(raw, labels, strict=True)], covered)}
    if m.raw_negative != "none" and m.lambda_N:
        y_bar = labels if m.raw_negative == "given" else others(labels, n_classes, 1, rng)[:, 0].tolist()
        losses["raw_negative"] = m.lambda_N * subset_mean(m, negatives(raw, y_bar), [not s for s in confident])
    if not m.pseudo:
        return losses

    source = "raw" if fast and fast.pool == "batch" else "more"
    teacher = [softmax(row) for row in teach(m, logits[f"{source}/weak"])]
    student = [softmax(row) for row in logits[f"{source}/strong"]]
    z = [int(p.argmax()) for p in teacher]
    confident = [p.max() > tau for p in teacher]
    positive = robust if m.pseudo_positive == "robust" else ROBUST["ce"]
    losses["pseudo"] = m.lambda_S * subset_mean(m, [positive(p, c) for p, c in zip(student, z, strict=True)], confident)
    if m.pseudo_negative and m.lambda_N:
        values = negatives(student, others(z, n_classes, 1, rng)[:, 0].tolist())
        losses["pseudo_negative"] = m.lambda_S * m.lambda_N * subset_mean(m, values, [not s for s in confident])
    h = np.mean(student, axis=0)
    losses["balance"] = m.lambda_R * sum(math.log(1 / (n_classes * h_k)) / n_classes for h_k in h)
    return losses


def softmax(row: Array) -> Array:
    e: Array = np.exp(row)
    p: Array = e / e.sum()
    return p


def teach(m: PARSPaper, logits: Array) -> Array:
    """What the teacher's logits are, as `Averaged` has it."""
    return 1.5 * np.roll(logits, 1, axis=1) if isinstance(m, PARS) and m.teacher == "average" else logits


def subset_mean(m: PARSPaper, values: Sequence[float], subset: Sequence[bool]) -> float:
    selected = [value for value, inside in zip(values, subset, strict=True) if inside]
    least = m.min_share * len(values) if isinstance(m, PARS) else 0
    return sum(selected) / max(len(selected), least, 1)


def others(labels: Sequence[int], n_classes: int, n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """n classes other than each label: the d-th class after it, going round. Shape [B, n]."""
    return np.array(
        [
            [[c for c in (*range(y + 1, n_classes), *range(y)) if c != y][d] for d in row]
            for y, row in zip(labels, rng.integers(n_classes - 1, size=(len(labels), n)).tolist(), strict=True)
        ]
    )


def negatives(probabilities: Sequence[Array], excluded: Sequence[int]) -> list[float]:
    """Eq. nl for the excluded class of each row."""
    return [-math.log(max(1 - p[c], 1e-5)) for p, c in zip(probabilities, excluded, strict=True)]
