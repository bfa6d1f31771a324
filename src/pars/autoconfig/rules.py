"""What a user who sets nothing gets: settings as functions of how much data there is, and of what kind.

shape: of a row, (d,) or (C, H, W). class_rows: labeled rows of each class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pars.method_api import Setting

Changes = dict[str, dict[str, Any]]
"""Fields of the tables of a run's configuration."""
FEW_CLASSES = 20
LINEAR_WEIGHT_DECAY = 0.02  # of a linear classifier of features
LEAST_NOISE = 0.02  # of a standard deviation: up to this it is left out, for it costs a tenth of a fit with 1 280
MANY, FEWEST_PASSES = 60_000, 5  # rows beyond which a network passes over them less often, and then at least so often
MOST_UNEVEN = 2.5  # the commonest class over the rarest, as given, where classes may be equally common


def settings(shape: tuple[int, ...], class_rows: Sequence[int], method: str = "pars") -> Changes:
    """The configuration for such data: tables `data`, `model`, `views`, `train`, `method`.

    >>> found = settings((1280,), (50, 50))
    >>> found["train"]["batch_size"], found["train"]["epochs"], found["data"]
    (16, 23, {'holdout': 0.0})
    >>> found["views"], found["method"]
    ({'dropout_weak': 0.29, 'dropout_strong': 0.48, 'noise': 0.0}, {'prior': 'uniform'})
    """
    n, is_image = sum(class_rows), len(shape) == 3

    # A tenth of the labeled rows, at least 100; none where that is more than a fifth, or a class has under five.
    holdout = 0.0 if n < 500 or min(class_rows) < 5 else max(0.1, 100 / n)

    # A small CNN for images of 4×4 pixels or more; else one hidden layer with BatchNorm, narrower for few rows.
    hidden = [256 if n >= 1_000 else 128]
    model: dict[str, Any] = {"name": "mlp", "batch_norm": True, "hidden": hidden, "matmul": "onednn"}
    if is_image and min(shape[1:]) >= 4:
        model = {"name": "small_cnn", "width": 16 if n < 5_000 else 32}

    # Features: the more there are, the more can be dropped without changing the class; few get noise instead.
    views = {}
    if not is_image:
        share = shape[0] / (shape[0] + 64)
        views["dropout_weak"], views["dropout_strong"] = round(0.3 * share, 2), round(0.5 * share, 2)
        noise = round(0.3 * (1 - share), 2)
        views["noise"] = noise if noise > LEAST_NOISE else 0.0

    # A tenth of the rows, as a power of two from 16 to 128.
    batch_size = 1 << min(7, max(4, round(math.log2(max(1, n / 10)))))
    # About 16·√n steps, or n where that is more, up to 1 200; more for more than 10 classes. At least 20 passes over
    # the rows (images: 40), and at most 200. Beyond MANY rows, fewer passes: as many rows in all, but 5 passes or more.
    rows = max(2, n)
    steps = max(16 * math.sqrt(rows), min(rows, 1200)) * math.sqrt(max(1.0, len(class_rows) / 10))
    least = max(FEWEST_PASSES, round((40 if is_image else 20) * min(1.0, MANY / rows)))
    epochs = min(200, max(least, round(steps / math.ceil(rows / batch_size))))

    # PARS draws the mean prediction towards equal shares of classes, as in the paper, unless the given labels are more
    # uneven than wrong ones can make them: where 40 % of a class are named as another, equal classes become 0.6 : 1.4.
    # Beyond that the given shares are nearer to the truth.
    prior = "uniform" if max(class_rows) <= MOST_UNEVEN * min(class_rows) else "labels"

    return {
        "data": {"holdout": holdout},
        "model": model,
        "views": views,
        "train": {
            "batch_size": batch_size,
            "epochs": epochs,
            "lr": 0.1 if is_image else 0.05,
            "nesterov": True,
            "weight_decay": 5e-4 if is_image else 2e-3,
            "ema": 0.99 if is_image else 0.97,
            "ema_ramp": True,
        },
        "method": {"prior": prior} if method == "pars" else {},
    }


def fine_tuning(class_rows: Sequence[int]) -> Changes:
    """The table `train` for a pre-trained network: about 1 500 steps at a low rate, lower below the head.

    Batch, weight decay and rates are of the order of Clothing1M's recipes; they were not tuned.

    >>> fine_tuning([500, 500])["train"]["epochs"]
    30
    """
    n = max(2, sum(class_rows))
    batch_size = min(32, n)
    epochs = min(30, max(3, round(1500 / math.ceil(n / batch_size))))
    settings: dict[str, Any] = {"batch_size": batch_size, "epochs": epochs, "lr": 0.01, "backbone_lr": 0.002}
    return {"train": settings | {"nesterov": True, "weight_decay": 1e-3, "ema": 0.99, "ema_ramp": True}}


@dataclass(frozen=True)
class Candidate:
    """Settings that may suit the data: which do is found out by short trials (`configure.choose`)."""

    name: str
    setting: Setting
    changes: Changes = field(default_factory=dict)


def candidates(shape: tuple[int, ...], n_classes: int) -> list[Candidate]:
    """What to try, the most robust first, the quickest to learn last.

    The loss. NCE+MAE does not memorize wrong labels, even if most are wrong. But it needs good features and many rows,
    and many classes it does not learn at all: its gradient is in proportion to p_y, nothing where p_y is 1/77. GCE
    learns always, its q such that a row's gradient is a fifth of cross-entropy's while all classes are equally likely;
    q = 0.7, which the literature uses for 10 classes, at most.

    The network. Features of a pre-trained encoder may be separable by a line already, and then a strongly regularized
    linear classifier is better, the more so the fewer rows there are of a class; columns of a table are not.

    tau: a head on good features is right where it is sure, so more rows may teach than by the paper's 0.95.

    >>> [[found.name for found in candidates((9,), k)] for k in (10, 77)]
    [['nce+mae', 'nce+mae, linear', 'gce(q=0.7)'], ['gce(q=0.37), linear', 'gce(q=0.37)']]
    >>> [found.name for found in candidates((3, 32, 32), 10)]
    ['gce(q=0.7)']
    """
    quick = f"gce(q={min(0.7, math.log(5) / math.log(n_classes)):.2g})"
    if len(shape) == 3:
        return [Candidate(quick, Setting(robust=quick, pixels=True))]
    few = n_classes <= FEW_CLASSES
    tau = 0.9 if few else None
    linear: Changes = {"model": {"name": "linear"}, "train": {"weight_decay": LINEAR_WEIGHT_DECAY}}
    robust = Setting(robust="nce+mae" if few else quick, tau=tau)
    on_line = Candidate(f"{robust.robust}, linear", robust, linear)
    others = [Candidate("nce+mae", robust)] if few else []
    return [*others, on_line, Candidate(quick, Setting(robust=quick, tau=tau))]
