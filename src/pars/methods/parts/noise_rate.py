"""How many labels are wrong, given or estimated; how many rows are forgotten for it, and which are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pars.lazy import F, torch
from pars.method_api import Cited, Epoch, Setting, State, code

if TYPE_CHECKING:
    from torch import Tensor

RATE = "a share of wrong labels from 0 up to, not including, 1; or none: it is estimated"
ROUNDING = 1e-9  # 1 - 0.9 is a little less than 0.1, and of ten rows one shall be kept


def is_rate(noise_rate: float | None) -> bool:
    return noise_rate is None or 0 <= noise_rate < 1


def initial_rate(noise_rate: float | None) -> State:
    """The noise rate as a method keeps it: while it is unknown, nothing is taken for wrong."""
    return {"noise_rate": torch.tensor(noise_rate or 0.0, dtype=torch.float64)}


def published_rate(setting: Setting) -> dict[str, Cited]:
    """The true rate, which the papers give their methods; nothing where no configuration says it."""
    return {} if setting.noise.kind in ("file", "matrix") else {"noise_rate": code(setting.wrong)}


def early(epochs: int) -> int:
    """After how many epochs of a run to estimate: networks know most rows by then, and have learned few by heart."""
    return max(1, round(epochs / 15))


def estimate_rate(epoch: Epoch) -> None:
    """Put what the networks together make of the labels into `state["noise_rate"]`."""
    rows = epoch.labeled
    probabilities = [epoch.sweep(rows, net=index).logits.softmax(dim=1) for index in range(len(epoch.nets))]
    epoch.state["noise_rate"] = wrong_share(torch.stack(probabilities).mean(dim=0), epoch.given[rows])


def wrong_share(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The share of labels that confident predictions contradict, by confident learning (Northcutt et al. 2021).

    Shapes: [m, K], [m] -> scalar (float64).
    A class is confidently predicted where its probability reaches the mean that it has in rows labeled so. Rows
    without such a class say nothing: a network that is not sure yet does not make labels wrong.

    >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [0.3, 0.7], [0.1, 0.9]])
    >>> wrong_share(p, torch.tensor([0, 0, 1, 1, 1]))    # sure: class 0 from 0.85, class 1 from 0.57; of four rows, one
    tensor(0.2500, dtype=torch.float64)
    """
    p = probabilities.double()
    of_label = F.one_hot(labels, p.shape[1]).double()
    usual = (p * of_label).sum(dim=0) / of_label.sum(dim=0)  # [K]; of a class that no row is labeled: nan, never met
    sure = p >= usual
    best = torch.where(sure, p, -1.0).argmax(dim=1)
    counts = sure.any(dim=1)
    return ((best != labels) & counts).double().sum() / counts.double().sum().clamp_min(1)


@dataclass(frozen=True)
class Forgetting:
    """Co-teaching's schedule: the share forgotten grows from 0 to the noise rate over T_k epochs, and stays there.

    The last of the T_k epochs already has all of it. A rate that is not given is estimated before epoch `estimate_at`.
    """

    noise_rate: float | None
    T_k: int
    estimate_at: int
    done: int = 0  # epochs of the run before this stage

    def initial_state(self) -> State:
        return initial_rate(self.noise_rate) | {"forget_rate": torch.zeros((), dtype=torch.float64)}

    def before_epoch(self, epoch: Epoch) -> None:
        index = self.done + epoch.index
        if self.noise_rate is None and index == self.estimate_at:
            estimate_rate(epoch)
        grown = min(1.0, index / (self.T_k - 1)) if self.T_k > 1 else 1.0
        epoch.state["forget_rate"] = grown * epoch.state["noise_rate"]
        epoch.note(noise_rate=float(epoch.state["noise_rate"]), forget_rate=float(epoch.state["forget_rate"]))


def rows_kept(n: int | Tensor, forget_rate: Tensor) -> Tensor:
    """⌊(1 - forget rate)·n⌋, on the device.

    >>> rows_kept(10, torch.tensor(0.9, dtype=torch.float64)), rows_kept(64, torch.tensor(0.45, dtype=torch.float64))
    (tensor(1.), tensor(35.))
    """
    return ((1 - forget_rate) * n + ROUNDING).floor().float()


def small_loss(losses: Tensor, count: Tensor, among: Tensor | None = None) -> Tensor:
    """The mask of the `count` smallest losses, among those of a mask. Shapes: [B], scalar, [B] -> [B].

    By rank, not by cutting a sorted list: the count stays on the device. Of equal losses the first is kept.

    >>> small_loss(torch.tensor([3.0, 1.0, 2.0, 1.0]), torch.tensor(2))
    tensor([False,  True, False,  True])
    """
    values = losses.detach() if among is None else losses.detach().masked_fill(~among, torch.inf)
    return values.argsort(stable=True).argsort() < count
