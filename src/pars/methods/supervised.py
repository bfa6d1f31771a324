"""Training on the given labels with one loss: plain cross-entropy, or the robust warm-up loss alone (PARS eq. wu)."""

from __future__ import annotations

from dataclasses import dataclass

from pars.errors import UserError
from pars.losses import parse, reduce
from pars.methods.base import Losses, Method, Stage, Step, Task


@dataclass(frozen=True, kw_only=True)
class Supervised(Method):
    """Minimise the mean of a loss on weak views and given labels."""

    loss: str = "ce"  # any loss of pars.losses, e.g. "ce", "nce+mae", "gce(q=0.7)"
    tau: float = 0.95  # only reported: how many rows PARS would call ambiguous

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.tau <= 1:
            raise UserError(f"method.tau is {self.tau}, expected a number from 0 to 1")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        loss = parse(self.loss)

        def step(at: Step) -> Losses:
            logits = at.net(at.batch.weak)
            at.select("raw", at.batch, logits, self.tau)
            return {"raw": reduce.mean(loss(logits, at.batch.labels))}

        return (Stage("train", task.epochs, step),)
