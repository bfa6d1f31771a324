"""The configuration of label noise, in a TOML file or as `--noise.kind symmetric --noise.rate 0.9`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pars.errors import UserError

Kind = Literal["none", "symmetric", "asymmetric", "pair", "matrix", "instance", "file"]
Convention = Literal["inclusive", "exclusive"]
AsymmetricMap = Literal["auto", "cifar10", "block", "superclass"]

KINDS_WITH_RATE = ("symmetric", "asymmetric", "pair", "instance")
KINDS_WITH_PATH = ("matrix", "file")


@dataclass(frozen=True, kw_only=True)
class NoiseConfig:
    """How labels are corrupted."""

    kind: Kind = "none"
    """none | symmetric | asymmetric | pair (class i to i+1) | matrix (transition matrix) | instance (depends on the
    inputs) | file (human labels)."""
    rate: float = 0.0
    """Nominal fraction of corrupted labels; for symmetric, asymmetric, pair and instance noise."""
    convention: Convention = "inclusive"
    """Symmetric noise: a corrupted label is drawn from all classes (inclusive: the fraction of wrong labels is
    rate * (1 - 1/K); DivideMix, PARS) or from the other classes (exclusive: it is rate; Patrini, Co-teaching)."""
    asymmetric_map: AsymmetricMap = "auto"
    """Asymmetric noise: cifar10 (truck to automobile, cat to dog, ...) | block (next class within 5 consecutive class
    numbers; CIFAR-100 in the literature) | superclass (next class within the true CIFAR-100 superclass) |
    auto (cifar10 for 10 classes, block for 100)."""
    seed: int | None = None
    """Seed of the noise; by default the run's."""
    path: str | None = None
    """Transition matrix (.npy, .csv, .json), or labels: one per row in the same formats, or a CIFAR-N file (.pt)."""
    labels: str = "worse"
    """Labels in a CIFAR-N file (.pt): worse, aggre, random1, random2, random3, or (CIFAR-100N) noisy."""

    def __post_init__(self) -> None:
        """Raise a UserError for values that are out of range or do not fit together."""
        if not 0 <= self.rate <= 1:  # false for NaN, too
            raise UserError(f"noise.rate must be between 0 and 1, not {self.rate}")
        if self.rate > 0 and self.kind not in KINDS_WITH_RATE:
            raise UserError(
                f"noise.rate = {self.rate} has no effect with noise.kind = {self.kind!r}; "
                f"leave it at 0 or choose noise.kind from: {', '.join(KINDS_WITH_RATE)}"
            )
        if self.path is not None and self.kind not in KINDS_WITH_PATH:
            raise UserError(
                f"noise.path = {self.path!r} has no effect with noise.kind = {self.kind!r}; "
                f"it is for: {', '.join(KINDS_WITH_PATH)}"
            )
        if self.kind == "matrix" and self.path is None:
            raise UserError("noise.kind = 'matrix' needs noise.path: a K x K transition matrix (.npy, .csv or .json)")
