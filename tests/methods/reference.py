"""PARS' equations once more: float64, one row at a time, straight from the paper; and steps made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pars.methods import PARS, Batch, Network, Step

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


def step(
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
            "labelled": batch("raw", labels, rows),
            "more": batch("more", torch.full((len(logits["more/weak"]),), -1)),
        },
        state={} if state is None else state,
        rng=np.random.default_rng(seed),
        epoch=epoch,
        progress=PROGRESS,
        stage_progress=stage_progress,
    )


def expected_losses(
    m: PARS, logits: Logits, labels: Tensor, *, seed: int = 0, stage_progress: float = 0.5
) -> dict[str, float]:
    """Eq. rn, pn, reg with their weights of eq. finalloss, by name."""
    values = {name: tensor.detach().double().numpy() for name, tensor in logits.items()}
    return expected_from_arrays(m, values, labels.tolist(), seed=seed, stage_progress=stage_progress)


def expected_from_arrays(
    m: PARS, logits: Mapping[str, Array], labels: Sequence[int], *, seed: int = 0, stage_progress: float = 0.5
) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    raw = [softmax(row) for row in logits[f"raw/{m.raw_view}"]]
    n_classes = len(raw[0])
    robust = ROBUST[m.robust]

    late = m.late <= PROGRESS
    tau, anchor = (m.late_tau, "agreeing") if late else (m.tau, m.raw_anchor)
    sure = [p.max() > tau for p in raw]
    opinion = teach(m, logits[f"raw/{m.mask_view}"])
    said = [softmax(row) for row in opinion]
    agreeing = [bool(p[y] >= m.shared * p.max()) for p, y in zip(said, labels, strict=True)]
    covered = {"all": [True] * len(raw), "ambiguous": sure, "agreeing": agreeing}[anchor]
    right = [int(p.argmax()) == y for p, y in zip(raw, labels, strict=True) if p.max() > tau]
    odds = min(1.0, (sum(right) + len(raw) / 100) / (len(right) - sum(right) + len(raw) / 100))
    weight = odds if m.pseudo and m.raw_weight == "odds" else 1.0
    losses = {"raw": weight * subset_mean(m, [robust(p, y) for p, y in zip(raw, labels, strict=True)], covered)}
    if m.raw_negative != "none" and m.lambda_N:
        given = m.raw_negative == "given"
        excluded = [[y] for y in labels] if given else others(labels, n_classes, m.negatives, rng)
        losses["raw_negative"] = m.lambda_N * subset_mean(m, negatives(raw, excluded), [not s for s in sure])
    if not m.pseudo:
        return losses

    source = "more" if m.pool == "all" else "raw"
    guesses = [softmax(row) for row in teach(m, logits[f"{source}/{m.mask_view}"])]
    student = [softmax(row) for row in logits[f"{source}/strong"]]
    z = [int(p.argmax()) for p in guesses]
    sure = [p.max() > tau for p in guesses]
    positive = robust if m.pseudo_positive == "robust" else ROBUST["ce"]
    towards = [positive(p, c) for p, c in zip(student, z, strict=True)]
    if m.pseudo_positive == "soft":
        towards = [float((g * np.log(g / p)).sum()) for g, p in zip(guesses, student, strict=True)]
    ramp = 1.0 if m.ramp == 0 or stage_progress > m.ramp else stage_progress / m.ramp
    weight = m.lambda_S * ramp
    losses["pseudo"] = weight * subset_mean(m, towards, sure)
    if m.pseudo_negative and m.lambda_N:
        values = negatives(student, others(z, n_classes, m.negatives, rng))
        losses["pseudo_negative"] = weight * m.lambda_N * subset_mean(m, values, [not s for s in sure])
    h = np.mean(student, axis=0)
    losses["balance"] = m.lambda_R * ramp * sum(math.log(1 / (n_classes * h_k)) / n_classes for h_k in h)
    return losses


def softmax(row: Array) -> Array:
    e: Array = np.exp(row)
    p: Array = e / e.sum()
    return p


def teach(m: PARS, logits: Array) -> Array:
    return 1.5 * np.roll(logits, 1, axis=1) if m.teacher == "average" else logits


def subset_mean(m: PARS, values: Sequence[float], subset: Sequence[bool]) -> float:
    kept = [value for value, inside in zip(values, subset, strict=True) if inside]
    return sum(kept) / max(len(kept), m.min_share * len(values), 1)


def others(labels: Sequence[int], n_classes: int, n: int, rng: np.random.Generator) -> list[list[int]]:
    """n classes other than each label: the d-th class after it, going round."""
    return [
        [[c for c in (*range(y + 1, n_classes), *range(y)) if c != y][d] for d in row]
        for y, row in zip(labels, rng.integers(n_classes - 1, size=(len(labels), n)).tolist(), strict=True)
    ]


def negatives(probabilities: Sequence[Array], excluded: Sequence[Sequence[int]]) -> list[float]:
    """Eq. nl, the mean over the excluded classes of each row."""
    return [
        sum(-math.log(max(1 - p[c], 1e-5)) for c in classes) / len(classes)
        for p, classes in zip(probabilities, excluded, strict=True)
    ]
