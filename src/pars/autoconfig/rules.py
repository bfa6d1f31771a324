"""What a user who sets nothing gets: settings as functions of how much data there is, and of what kind."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

Changes = dict[str, dict[str, Any]]
"""Fields of the tables of a run's configuration."""
FEW_CLASSES = 20
MOST_UNEVEN = 2.5  # the commonest class over the rarest, as given, where classes may be equally common


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the rules look at."""

    shape: tuple[int, ...]  # of a row: (d,) or (C, H, W)
    class_rows: tuple[int, ...]  # labeled rows of each class

    @property
    def n_labeled(self) -> int:
        return sum(self.class_rows)

    @property
    def n_classes(self) -> int:
        return len(self.class_rows)

    @property
    def is_image(self) -> bool:
        return len(self.shape) == 3


def settings(facts: Facts) -> Changes:
    """The configuration for such data: tables `data`, `model`, `views`, `train`."""
    batch_size = batch_size_for(facts.n_labeled)
    return {
        "data": {"holdout": holdout_for(facts)},
        "model": network_for(facts),
        "views": views_for(facts),
        "train": {
            "batch_size": batch_size,
            "epochs": epochs_for(facts, batch_size),
            "lr": 0.1 if facts.is_image else 0.05,
            "nesterov": True,
            "weight_decay": 5e-4 if facts.is_image else 2e-3,
            "ema": 0.99 if facts.is_image else 0.97,
            "ema_ramp": True,
        },
    }


def batch_size_for(n: int) -> int:
    """A tenth of the rows, as a power of two from 16 to 128.

    >>> [batch_size_for(n) for n in (2, 150, 500, 1500, 50_000)]
    [16, 16, 64, 128, 128]
    """
    return 1 << min(7, max(4, round(math.log2(max(1, n / 10)))))


def epochs_for(facts: Facts, batch_size: int) -> int:
    """About 16·√n steps, or n where that is more, up to 1 200; more for more than 10 classes.

    At least 20 passes over the rows (images: 40), and at most 200.

    >>> epochs_for(Facts(shape=(3, 32, 32), class_rows=(1000,) * 10), 64)
    40
    """
    n = max(2, facts.n_labeled)
    least = 40 if facts.is_image else 20
    steps = max(16 * math.sqrt(n), min(n, 1200)) * math.sqrt(max(1.0, facts.n_classes / 10))
    return min(200, max(least, round(steps / math.ceil(n / batch_size))))


def holdout_for(facts: Facts) -> float:
    """A tenth of the labeled rows, at least 100; none where that is more than a fifth, or a class has under five.

    >>> [holdout_for(Facts(shape=(4,), class_rows=(n, n))) for n in (200, 250, 5_000)]
    [0.0, 0.2, 0.1]
    """
    if facts.n_labeled < 500 or min(facts.class_rows) < 5:
        return 0.0
    return max(0.1, 100 / facts.n_labeled)


def network_for(facts: Facts) -> dict[str, Any]:
    """A small CNN for images of 4×4 pixels or more; else one hidden layer with BatchNorm, narrower for few rows."""
    if facts.is_image and min(facts.shape[1:]) >= 4:
        return {"name": "small_cnn", "width": 16 if facts.n_labeled < 5_000 else 32}
    return {"name": "mlp", "batch_norm": True, "hidden": [256 if facts.n_labeled >= 1_000 else 128]}


def views_for(facts: Facts) -> dict[str, Any]:
    """Features: the more there are, the more can be dropped without changing the class; few get noise instead.

    >>> views_for(Facts(shape=(1280,), class_rows=(50, 50)))
    {'dropout_weak': 0.29, 'dropout_strong': 0.48, 'noise': 0.01}
    """
    if facts.is_image:
        return {}
    (d,) = facts.shape
    share = d / (d + 64)
    return {
        "dropout_weak": round(0.3 * share, 2),
        "dropout_strong": round(0.5 * share, 2),
        "noise": round(0.3 * (1 - share), 2),
    }


def robust_losses_for(facts: Facts) -> tuple[str, ...]:
    """The robust losses that may suit the data, the most robust first, the quickest to learn last (`trial.py`).

    NCE+MAE learns no wrong labels by heart, even if most are wrong. But it needs good features and many rows, and many
    classes it does not learn at all: its gradient is in proportion to p_y, nothing where p_y is 1/77. GCE learns
    always, its q such that a row's gradient is a fifth of cross-entropy's while all classes are equally likely; q =
    0.7, which the literature uses for 10 classes, at most.

    >>> [robust_losses_for(Facts(shape=(9,), class_rows=(9,) * k)) for k in (2, 10, 77)]
    [('nce+mae', 'gce(q=0.7)'), ('nce+mae', 'gce(q=0.7)'), ('gce(q=0.37)',)]
    """
    quick = f"gce(q={min(0.7, math.log(5) / math.log(facts.n_classes)):.2g})"
    return (quick,) if facts.is_image or facts.n_classes > FEW_CLASSES else ("nce+mae", quick)


def confidence_for(facts: Facts) -> float | None:
    """A head on good features is right where it is sure, so more rows may teach than by the paper's 0.95."""
    return None if facts.is_image or facts.n_classes > FEW_CLASSES else 0.9


def method_for(name: str, facts: Facts) -> dict[str, Any]:
    """PARS: towards which shares of classes the mean prediction is drawn.

    Equal ones, as in the paper, unless the given labels are more uneven than wrong ones can make them: where 40 % of a
    class are named as another, equal classes become 0.6 : 1.4. Beyond that the given shares are nearer to the truth.

    >>> [method_for("pars", Facts(shape=(9,), class_rows=rows))["prior"] for rows in ((60, 140), (50, 140))]
    ['uniform', 'labels']
    """
    if name != "pars":
        return {}
    return {"prior": "uniform" if max(facts.class_rows) <= MOST_UNEVEN * min(facts.class_rows) else "labels"}
