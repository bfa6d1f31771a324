"""Small-loss selection: the noise rate, given or estimated, how many rows it leaves, and which ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pars.lazy import F, torch
from pars.method_api import Cited, Epoch, Setting, State, code

if TYPE_CHECKING:
    from torch import Tensor

VALID_NOISE_RATE = "a fraction of wrong labels in [0, 1), or none to estimate it"
ROUNDING = 1e-9  # 1 - 0.9 is slightly less than 0.1, but one of ten rows must be selected


def is_noise_rate(noise_rate: float | None) -> bool:
    """Whether a hyper-parameter `noise_rate` is valid: None (estimated), or in [0, 1)."""
    return noise_rate is None or 0 <= noise_rate < 1


def initial_noise_rate(noise_rate: float | None) -> State:
    """Return the state that holds the noise rate: 0 until it is estimated."""
    return {"noise_rate": torch.tensor(noise_rate or 0.0, dtype=torch.float64)}


def published_noise_rate(setting: Setting) -> dict[str, Cited]:
    """Return the true rate, which the papers give their methods; empty if the configuration does not contain it."""
    return {} if setting.noise.kind in ("file", "matrix") else {"noise_rate": code(setting.wrong)}


def estimation_epoch(epochs: int) -> int:
    """Return the epoch before which to estimate the noise rate: after learning has begun, before memorization."""
    return max(1, round(epochs / 15))


def estimate_noise_rate(epoch: Epoch) -> None:
    """Estimate the noise rate from the mean prediction of all networks, into `state["noise_rate"]`."""
    rows = epoch.labeled
    probabilities = [epoch.sweep(rows, net=index).logits.softmax(dim=1) for index in range(len(epoch.nets))]
    epoch.state["noise_rate"] = confident_noise_rate(torch.stack(probabilities).mean(dim=0), epoch.given[rows])


def confident_noise_rate(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return the fraction of labels that confident predictions contradict: confident learning (Northcutt et al. 2021).

    A class is confidently predicted if its probability reaches its mean over the rows labeled with it. Rows without
    such a class are not counted.
    Shapes: probabilities [m, K], labels [m] -> scalar (float64).

    >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [0.3, 0.7], [0.1, 0.9]])
    >>> confident_noise_rate(p, torch.tensor([0, 0, 1, 1, 1]))    # thresholds 0.85 and 0.57: one of four rows
    tensor(0.2500, dtype=torch.float64)
    """
    p = probabilities.double()
    of_label = F.one_hot(labels, p.shape[1]).double()
    threshold = (p * of_label).sum(dim=0) / of_label.sum(dim=0)  # [K]; NaN, never reached, for a class without rows
    confident = p >= threshold
    predicted = torch.where(confident, p, -1.0).argmax(dim=1)
    counted = confident.any(dim=1)
    return ((predicted != labels) & counted).double().sum() / counted.double().sum().clamp_min(1)


@dataclass(frozen=True)
class ForgetSchedule:
    """Co-teaching's schedule: the forget rate grows from 0 to the noise rate over T_k epochs, then stays.

    The last of the T_k epochs already has the full rate. Without a given rate, it is estimated before epoch
    `estimate_at`.
    """

    noise_rate: float | None
    T_k: int
    estimate_at: int
    done: int = 0  # epochs of the run before this stage

    def initial_state(self) -> State:
        return initial_noise_rate(self.noise_rate) | {"forget_rate": torch.zeros((), dtype=torch.float64)}

    def before_epoch(self, epoch: Epoch) -> None:
        index = self.done + epoch.index
        if self.noise_rate is None and index == self.estimate_at:
            estimate_noise_rate(epoch)
        grown = min(1.0, index / (self.T_k - 1)) if self.T_k > 1 else 1.0
        epoch.state["forget_rate"] = grown * epoch.state["noise_rate"]
        epoch.note(noise_rate=float(epoch.state["noise_rate"]), forget_rate=float(epoch.state["forget_rate"]))


def n_selected(n: int | Tensor, forget_rate: Tensor) -> Tensor:
    """Return ⌊(1 - forget rate)·n⌋, on the device.

    >>> n_selected(10, torch.tensor(0.9, dtype=torch.float64)), n_selected(64, torch.tensor(0.45, dtype=torch.float64))
    (tensor(1.), tensor(35.))
    """
    return ((1 - forget_rate) * n + ROUNDING).floor().float()


def small_loss_mask(losses: Tensor, count: Tensor, among: Tensor | None = None) -> Tensor:
    """Return the mask of the `count` smallest losses, among the rows of a mask. Shapes: [B], scalar, [B] -> [B].

    By rank, not by slicing a sorted tensor: the count stays on the device. The first of equal losses is selected.

    >>> small_loss_mask(torch.tensor([3.0, 1.0, 2.0, 1.0]), torch.tensor(2))
    tensor([False,  True, False,  True])
    """
    values = losses.detach() if among is None else losses.detach().masked_fill(~among, torch.inf)
    return values.argsort(stable=True).argsort() < count
