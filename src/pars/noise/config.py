"""Configuration of label noise: a [noise] table in TOML, or flags such as `--noise.rate 0.9`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pars.errors import UserError

Kind = Literal["auto", "none", "symmetric", "asymmetric", "pair", "matrix", "instance", "file"]
Convention = Literal["inclusive", "exclusive"]
AsymmetricMap = Literal["auto", "cifar10", "block", "superclass"]

KINDS_WITH_RATE = ("symmetric", "asymmetric", "pair", "instance")
KINDS_WITH_PATH = ("matrix", "file")


@dataclass(frozen=True, kw_only=True)
class NoiseConfig:
    """Which labels are made wrong, and how."""

    kind: Kind = "auto"
    """auto (symmetric if a rate is set, otherwise none) | none | symmetric | asymmetric | pair (i to i+1) |
    matrix (of transitions) | instance (depends on the inputs) | file (labels people gave)."""
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
        if self.kind == "auto" and self.rate > 0:
            # Without a rate "auto" stays: a rate may still be laid over it, by a file or a flag. "none" is the user's.
            object.__setattr__(self, "kind", "symmetric")
        if self.rate > 0 and self.kind not in KINDS_WITH_RATE:
            raise UserError(
                f"noise.rate = {self.rate} contradicts noise.kind = {self.kind!r}; set noise.rate to 0, "
                f"or noise.kind to one of: {', '.join(KINDS_WITH_RATE)}"
            )
        if self.path is not None and self.kind not in KINDS_WITH_PATH:
            raise UserError(
                f"noise.path = {self.path!r} is not used with noise.kind = {self.kind!r}; "
                f"set noise.kind to one of: {', '.join(KINDS_WITH_PATH)}"
            )
        if self.kind == "matrix" and self.path is None:
            raise UserError("noise.kind = 'matrix' needs noise.path: a K x K transition matrix (.npy, .csv or .json)")

    @property
    def is_none(self) -> bool:
        """Whether the labels stay as they are."""
        return self.kind in ("auto", "none")

    def resolved(self) -> NoiseConfig:
        """Return the configuration with "auto" replaced, as run folders store it."""
        return replace(self, kind="none") if self.is_none else self
