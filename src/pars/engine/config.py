"""How long, how fast, how often: the settings of training that no method needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pars.errors import UserError

CheckpointRule = Literal["last", "best-stage", "best-epoch"]
LARGEST_COUNT = 10**9  # beyond it nothing ends, and beyond 10^308 nothing can be divided
LARGEST_RATE = 1e30  # weights are float32: their largest number is 3.4e38


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Optimizer, schedule, averaging, evaluation, checkpoints."""

    epochs: int = 100
    budget: float = 0.0  # PFLOP; above 0 the epochs, and the warm-up, follow from it (docs/compare.md)
    batch_size: int = 128
    steps_per_epoch: int | None = None  # none = one pass over the labeled rows; else labeled rows are cycled
    class_balanced: bool = False  # draw the same number of labeled rows of each class in an epoch
    optimizer: Literal["sgd", "adam", "muon"] = "sgd"
    lr: float = 0.03
    backbone_lr: float | None = None  # of everything but the head, which has lr; none = lr for all weights
    momentum: float = 0.9  # adam: its first beta
    weight_decay: float = 5e-4
    nesterov: bool = False
    schedule: Literal["cosine-7-16", "cosine", "warm-restarts", "steps", "late-linear", "constant"] = "cosine-7-16"
    floor: float = 0.0  # cosine, warm-restarts: the lowest rate, as a share of lr
    cycles: int = 1  # warm-restarts: how many cosines
    milestones: tuple[float, ...] = ()  # steps: after which shares of the run the rate is multiplied by gamma
    gamma: float = 0.1
    decay_from: float = 0.4  # late-linear: the share of the run after which the rate falls to 0
    late_momentum: float | None = None  # late-linear: momentum from there on
    grad_clip: float | None = None  # largest gradient norm
    ema: float = 0.999  # decay of the averaged weights
    ema_ramp: bool = False  # smaller decay in the first steps, (1+t)/(10+t), for short runs
    ema_growth: float = 0.0  # share of the run over which the decay grows to `ema`, as exp(-5(1-u)²); 0 = none
    select: CheckpointRule = "last"
    """Which checkpoint of the averaged weights the run ends with: the last one, or, by held-out given labels, that of
    an earlier stage's end if it was clearly better, or that of the best evaluated epoch. The latter two need
    data.holdout."""
    evaluate_every: int = 1  # epochs
    dynamics_every: int = 1  # epochs between records of the training dynamics of all rows, for the audit; 0 = none
    checkpoint_every: int = 1  # epochs
    checkpoint_seconds: float = 600.0  # also inside an epoch, so that a long one is not lost

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "evaluate_every", "checkpoint_every", "steps_per_epoch", "cycles"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= LARGEST_COUNT:
                expected = "expected at least 1" if value < 1 else f"expected at most {LARGEST_COUNT}"
                raise UserError(f"train.{name} is {value}, {expected}")
        if not 0 <= self.dynamics_every <= LARGEST_COUNT:
            raise UserError(f"train.dynamics_every is {self.dynamics_every}, expected 0 (none) to {LARGEST_COUNT}")
        if not 0 <= self.budget <= LARGEST_COUNT:
            raise UserError(f"train.budget is {self.budget}, expected PFLOP: 0 for none, to {LARGEST_COUNT}")
        for name in ("lr", "weight_decay"):
            if not 0 <= getattr(self, name) <= LARGEST_RATE:
                expected = f"expected a number of at least 0 and at most {LARGEST_RATE:g}"
                raise UserError(f"train.{name} is {getattr(self, name)}, {expected}")
        for name in ("floor", "gamma", "decay_from", "ema_growth"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"train.{name} is {getattr(self, name)}, expected a number from 0 to 1")
        if not all(0 <= milestone <= 1 for milestone in self.milestones):
            raise UserError(f"train.milestones are {list(self.milestones)}, expected shares of the run from 0 to 1")
        if self.backbone_lr is not None and not 0 <= self.backbone_lr <= LARGEST_RATE:
            raise UserError(f"train.backbone_lr is {self.backbone_lr}, expected a number from 0 to {LARGEST_RATE:g}")
        for name in ("momentum", "late_momentum"):  # of Adam its first beta; with 1 or more, sums of gradients explode
            if (value := getattr(self, name)) is not None and not 0 <= value < 1:
                raise UserError(f"train.{name} is {value}, expected a number from 0 up to, not including, 1")
        if self.grad_clip is not None and not self.grad_clip > 0:
            raise UserError(f"train.grad_clip is {self.grad_clip}, expected a norm above 0")
        if not self.checkpoint_seconds >= 0:
            raise UserError(f"train.checkpoint_seconds is {self.checkpoint_seconds}, expected at least 0 (every step)")
        if not 0 <= self.ema < 1:
            raise UserError(f"train.ema is {self.ema}, expected a decay from 0 up to, not including, 1")
        if self.nesterov and not self.momentum:
            raise UserError("train.nesterov needs train.momentum above 0")
