"""Which averaged weights a run ends with: its last ones, or earlier ones that held-out given labels prefer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from pars.engine import checkpoint as ck
from pars.engine.position import is_count
from pars.errors import UserError
from pars.method_api import Network

Keep = Literal["last", "best-stage", "best-epoch"]


@dataclass(frozen=True, eq=False)
class Kept:
    """The averaged weights that are best so far."""

    epoch: int
    stage: str
    right: Tensor  # [m] bool, on the CPU: the held-out rows whose given label they predict
    weights: dict[str, Tensor]  # by the names of a model file

    def tensors(self) -> dict[str, Tensor]:
        """As a checkpoint holds them."""
        return {"kept.right": self.right} | {f"kept.{name}": tensor for name, tensor in self.weights.items()}

    def note(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "stage": self.stage}


def averaged(nets: Sequence[Network]) -> dict[str, Tensor]:
    """The averaged weights as they are now, by the names of a model file."""
    named = {n: t for i, net in enumerate(nets) for n, t in ck.module_tensors(f"average.{i}.", net.average).items()}
    return {name: tensor.clone() for name, tensor in named.items()}


def put_back(kept: Kept, nets: Sequence[Network]) -> None:
    """Make these the averaged weights."""
    for index, net in enumerate(nets):
        net.average.load_state_dict(ck.with_prefix(f"average.{index}.", kept.weights, "cpu"))


def better(kept: Kept | None, rule: Keep, epoch: int, stage: str, right: Tensor, nets: Sequence[Network]) -> Kept:
    """The averaged weights of this epoch, unless held-out rows prefer those kept so far."""
    if kept is not None and prefers_earlier(kept.right, right, rule):
        return kept
    return Kept(epoch, stage, right, averaged(nets))


def prefers_earlier(earlier: Tensor, later: Tensor, rule: Keep) -> bool:
    """Whether held-out rows speak for the earlier weights; each given is a mask [m] of the rows it is right on.

    best-epoch: more rows are right; the later of equals is kept.
    best-stage: so many more that it is unlikely to be luck. A stage is there because it is expected to help, so what it
    did stays unless the rows it lost outnumber those it won by more than one, and by more than the standard deviation
    of that difference, √(lost + won), if both were equally likely (McNemar's test, continuity corrected, at one sigma).

    >>> before = torch.arange(100) < 60
    >>> prefers_earlier(before, torch.arange(100) < 56, "best-stage")       # lost 4, won 0: more than 1 + √4
    True
    >>> prefers_earlier(before, (torch.arange(100) >= 4) & (torch.arange(100) < 63), "best-stage")   # lost 4, won 3
    False
    """
    lost, won = int((earlier & ~later).sum()), int((later & ~earlier).sum())
    margin = 1 + (lost + won) ** 0.5 if rule == "best-stage" else 0.0
    return lost - won > margin


def read_kept(
    note: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    where: Path,
    *,
    epoch: int,
    rows: int,
    nets: Sequence[Network],
) -> Kept | None:
    """What a checkpoint says was best so far, in a run with so many held-out rows; none if nothing was judged yet."""
    about = note.get("kept")
    if about is None:
        return None
    kept = ck.with_prefix("kept.", tensors, "cpu")
    right = kept.pop("right", torch.zeros(0))
    expected = averaged(nets)
    known = isinstance(about, dict) and is_count(about.get("epoch")) and 1 <= about["epoch"] <= epoch
    same = kept.keys() == expected.keys() and all(t.shape == expected[name].shape for name, t in kept.items())
    if not known or not isinstance(about.get("stage"), str) or not same or list(right.shape) != [rows]:
        raise UserError(
            f"{where} does not fit its run: what it kept of an earlier epoch is not of this network or data"
        )
    return Kept(about["epoch"], about["stage"], right.bool(), kept)
